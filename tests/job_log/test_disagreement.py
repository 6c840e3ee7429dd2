"""Ranks that did not say that they waited."""

from log_cases import found_in_log

TIMEOUT = (
    "[rank{rank}]:[E512 03:10:11.714777142 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn=5, NumelOut=5, Timeout(ms)=1800000) ran for 1800041 "
    "milliseconds before timing out.\n"
)


def timeouts(*places):
    return "".join(TIMEOUT.format(rank=rank, number=number, operation=name) for rank, number, name in places)


def test_a_rank_that_reported_no_timeout_is_named(tmp_path):
    text = "[rank3]: step 7 loss 2.1\n" + timeouts(*((rank, 20, "ALLREDUCE") for rank in range(3)))
    [finding] = found_in_log("FAIL004", tmp_path, text)
    assert "Rank 3 reported no timeout" in finding.message


def test_ranks_that_all_waited_in_one_place_give_no_such_sentence(tmp_path):
    [finding] = found_in_log("FAIL004", tmp_path, timeouts(*((rank, 20, "ALLREDUCE") for rank in range(4))))
    assert "reported no timeout" not in finding.message
