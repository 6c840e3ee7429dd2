"""Dumps of the flight recorder name the rank that the others wait for, and nobody where all is well."""

import pytest
from flight_dumps import make_ranks, read_here, write

from gpudoctor.analysis.job_log.flight_verdict import STUCK_SECONDS, FlightKind, flight_verdict
from gpudoctor.model import Confidence, LogLine, SourceSpan

WAITS = {"state": "started"}
TP_DP = {"tp": [range(2), range(2, 4)], "dp": [(0, 2), (1, 3)]}


def judged(folder, ranks, **how):
    return flight_verdict(read_here(write(folder, ranks, **how)), STUCK_SECONDS)


def test_the_rank_that_did_not_enter_is_named_with_the_lines_of_both_sides(tmp_path):
    ranks = make_ranks(4)
    for rank in ranks:
        rank.calls(5)
        if rank.number != 2:
            rank.call("broadcast", line=31, **WAITS)
    found = judged(tmp_path, ranks)
    assert (found.kind, found.ranks, found.confidence) == (FlightKind.MISSING, (2,), Confidence.CONFIRMED)
    assert found.sentences == (
        "Rank 2 did not enter broadcast number 6.",
        "Ranks 0, 1, 3 waited in it at train.py:31 (train_step).",
        "The last operation of rank 2 was all_reduce number 5 at train.py:10 (train_step).",
    )
    assert SourceSpan(path="/job/train.py", line=31) in found.evidence
    assert LogLine(origin=str(tmp_path / "nccl_trace_rank_2"), text="rank 2: all_reduce number 5, completed") in (
        found.evidence
    )


def test_one_rank_that_entered_alone_is_the_odd_one(tmp_path):
    ranks = make_ranks(4)
    for rank in ranks:
        rank.calls(3)
    ranks[0].call("barrier", line=55, **WAITS)
    found = judged(tmp_path, ranks)
    assert (found.kind, found.ranks) == (FlightKind.ALONE, (0,))
    assert found.sentences[0] == (
        "Only rank 0 entered barrier number 4 at train.py:55 (train_step); ranks 1-3 did not."
    )


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_ranks_that_finished_everything_give_no_finding(tmp_path, backend):
    ranks = make_ranks(4, backend=backend)
    for rank in ranks:
        rank.calls(20).call("barrier")
    assert judged(tmp_path, ranks) is None


def test_ranks_that_are_ahead_for_a_moment_give_no_finding(tmp_path):
    ranks = make_ranks(4)
    for rank in ranks:
        rank.calls(20)
    ranks[0].call(**WAITS)
    ranks[1].call(state="scheduled").call(state="scheduled")
    assert judged(tmp_path, ranks, after=0.5) is None
    assert judged(tmp_path, ranks, after=20.0).confidence is Confidence.PROBABLE
    assert judged(tmp_path, ranks, after=600.0).confidence is Confidence.CONFIRMED


def test_gloo_dumps_are_read_although_they_have_no_states_and_no_members(tmp_path):
    ranks = make_ranks(3, backend="gloo")
    for rank in ranks:
        rank.calls(3)
    for rank in ranks[:2]:
        rank.call(line=12, state="scheduled")
    found = judged(tmp_path, ranks)
    assert (found.kind, found.ranks) == (FlightKind.MISSING, (2,))
    for rank in ranks[:2]:
        rank.entries[-1]["retired"] = True  # gloo marks what timed out as if it had completed
    assert judged(tmp_path, ranks).ranks == (2,)


def disagree(folder, *odd, world=4, at=1, **how):
    """Ranks that go on alike but for the last one, which calls `odd` from the second call on."""
    ranks = make_ranks(world)
    plan = [
        ("all_reduce", {"sizes": [[8]]}),
        ("broadcast", {"sizes": [[3]], "line": 20}),
        ("all_reduce", {"sizes": [[16]], "line": 21}),
        ("all_gather", {"sizes": [[2]], "outputs": [[8]], "line": 22}),
    ]
    for rank in ranks:
        calls = plan if rank.number < world - 1 else [*plan[:at], *odd]
        for number, (name, more) in enumerate(calls):
            rank.call(name, **{**more, **(WAITS if number >= at else {})})
    return judged(folder, ranks, **how)


def test_another_operation_under_one_number(tmp_path):
    found = disagree(tmp_path, ("reduce_scatter", {"sizes": [[8]], "line": 40}))
    assert (found.kind, found.ranks, found.confidence) == (FlightKind.MISMATCH, (3,), Confidence.CONFIRMED)
    assert found.sentences == (
        "The ranks disagree about collective number 2: ranks 0-2 called broadcast of 3 elements of Float at "
        "train.py:20 (train_step); "
        "rank 3 called reduce_scatter at train.py:40 (train_step).",
    )
    assert [item.line for item in found.evidence if isinstance(item, SourceSpan)] == [40, 20]


def test_a_mismatch_counts_before_the_rank_that_came_short(tmp_path):
    ranks = make_ranks(4)
    for rank in ranks:
        rank.calls(3)
        if rank.number == 1:
            rank.call("all_reduce", sizes=[[7]], line=44, **WAITS)  # one call of the plan is left out
        else:
            rank.call("broadcast", sizes=[[9]], line=43, **WAITS).call("all_reduce", sizes=[[7]], line=44, **WAITS)
    found = judged(tmp_path, ranks)
    assert (found.kind, found.ranks) == (FlightKind.MISMATCH, (1,))


def test_ranks_may_give_different_sizes_where_the_operation_allows_it(tmp_path):
    ranks = make_ranks(4)
    for rank in ranks:
        for step in range(5):
            size = rank.number + step + 1
            rank.call("all_to_all", sizes=[[size]], outputs=[[4 * size]])
            rank.call("gather", sizes=[[2]], outputs=[[2]] * 4 if rank.number == 0 else [])
            rank.call("scatter", sizes=[[2]] * 4 if rank.number == 0 else [], outputs=[[2]])
        rank.call("all_to_all", sizes=[[rank.number]], **WAITS)
    assert judged(tmp_path, ranks).kind is FlightKind.STALLED


def test_everybody_entered_and_the_device_or_the_network_does_not_finish(tmp_path):
    ranks = make_ranks(4)
    for rank in ranks:
        rank.calls(2).call("all_reduce", line=30, **WAITS)
    found = judged(tmp_path, ranks)
    assert (found.kind, found.ranks) == (FlightKind.STALLED, ())
    assert found.sentences == (
        "All ranks entered all_reduce number 3 at train.py:30 (train_step), and ranks 0-3 did not complete it.",
        "It began on every GPU: a link, a network or a GPU failed, and not the program.",
    )


def test_a_rank_without_a_dump_is_the_suspect_where_all_others_entered(tmp_path):
    ranks = make_ranks(4)
    for rank in ranks:
        rank.calls(2).call(line=30, **WAITS)
    paths = write(tmp_path, ranks)
    (tmp_path / "nccl_trace_rank_2").write_bytes(b"")
    found = flight_verdict(read_here(paths), STUCK_SECONDS)
    assert (found.kind, found.ranks, found.confidence) == (FlightKind.UNSEEN, (2,), Confidence.PROBABLE)
    assert found.sentences[1] == (
        "All ranks whose dumps show it entered it; rank 2 left no dump that shows it (it is empty)."
    )
    paths.pop(2)
    found = flight_verdict(read_here(paths), STUCK_SECONDS)
    assert found.sentences[1] == "All ranks whose dumps show it entered it; rank 2 left no dump that shows it."


def test_a_rank_that_waits_in_another_group_is_not_blamed(tmp_path):
    """Rank 3 never comes to its tensor-parallel group; 2 waits for it there, and all others wait for these."""
    ranks = make_ranks(4, TP_DP)
    for rank in ranks:
        rank.calls(3, group="tp").calls(2, group="dp")
    ranks[2].call(group="tp", line=61, **WAITS)
    for rank in ranks[:2]:
        rank.call(group="tp").call("reduce_scatter", group="dp", line=70, **WAITS)
    found = judged(tmp_path, ranks)
    assert (found.kind, found.ranks) == (FlightKind.MISSING, (3,))
    assert found.sentences == (
        "Rank 3 did not enter reduce_scatter number 3 of group dp (ranks 1, 3).",
        "Rank 1 waited in it at train.py:70 (train_step).",
        "The last operation of rank 3 was all_reduce number 2 at train.py:10 (train_step).",
    )


def test_sends_and_receives_that_have_their_other_side_give_no_finding(tmp_path):
    ranks = make_ranks(2, {"pp": [range(2)]})
    ranks[0].call("send 0->1", group="pp", **WAITS)
    ranks[1].call("recv 1<-0", group="pp", **WAITS)
    assert judged(tmp_path, ranks) is None
    batch = {"is_p2p": True, "p2p_seq_id": 2, "collective_seq_id": 0}
    ranks[0].call("send 0->1", group="pp", state="scheduled").call("coalesced", group="pp", more=batch)
    assert judged(tmp_path, ranks) is None  # the entry that ends the batch says that it completed


def test_coalesced_collectives_are_one_number_in_the_state_of_the_last_entry(tmp_path):
    ranks = make_ranks(2)
    same = {"collective_seq_id": 1}
    for rank in ranks:
        rank.call("_broadcast_oop", state="scheduled", more=same)
        rank.call("_broadcast_oop", sizes=[[3]], state="scheduled", more=same).call("coalesced", more=same)
    assert judged(tmp_path, ranks) is None
    ranks[0].entries[-1]["state"] = ranks[1].entries[-1]["state"] = "started"
    assert judged(tmp_path, ranks).kind is FlightKind.STALLED
