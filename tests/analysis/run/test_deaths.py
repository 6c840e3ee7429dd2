"""The root of a death among several ranks, told from its echoes."""

from dataclasses import replace

import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.analysis.run.deaths import Death, death, user_place
from gpudoctor.engine.run_summary import summarise
from gpudoctor.engine.run_verdict import pronounce_run
from gpudoctor.model.signs.recording import RunEnd

FAILED = RunEnd(exit_code=1, seconds=9.0)
STACK = [["/job/train.py", 41, "train"], ["/env/lib/python3.11/site-packages/torch/_tensor.py", 9, "backward"]]


def rank(number, *records, steps=120):
    return make_process(make_steps(steps), rank=number, world=3, clean=False, records=records)


def echo(t=6.0):
    frames = [["/job/train.py", 41, "train", ""]]
    message = "Connection closed by peer [127.0.0.1]:4711"
    return record("exception", t, exception="RuntimeError", message=message, frames=frames, user=0)


def signalled(name="", t=6.0):
    return record("signal", t, signal=name, stack=STACK)


def verdict(recording):
    return pronounce_run("train.py", recording, summarise(recording), (), ())


def launcher(words):
    return make_process(make_steps(0), records=[record("exception", 7.0, exception="ChildFailedError", message=words)])


def test_the_rank_without_a_word_is_the_root_of_connections_that_closed():
    run = make_recording(rank(0, echo()), rank(1), rank(2, echo()), end=FAILED)
    told = death(run)
    assert (told.death, told.process.rank, told.cascade) == (Death.SILENT, 1, (0, 2))
    assert verdict(run) == "train.py died after at least 120 steps: rank 1 disappeared without a message."


@pytest.mark.parametrize("other", [signalled(), signalled("SIGABRT")])
def test_a_launcher_or_a_watchdog_ends_the_others(other):
    told = death(make_recording(rank(0, other), rank(1), rank(2, other), end=FAILED))
    assert (told.process.rank, told.cascade) == (1, (0, 2))


def test_a_fault_is_the_root_of_connections_that_closed():
    told = death(make_recording(rank(0, echo(5.0)), rank(1, signalled("SIGSEGV")), rank(2, echo()), end=FAILED))
    assert (told.death, told.process.rank, told.kind) == (Death.NATIVE, 1, "SIGSEGV")
    place, _ = user_place(told)
    assert (place.path, place.line) == ("/job/train.py", 41)


def test_an_abort_outside_of_python_beside_cut_collectives_is_a_mismatch():
    frames = [["/job/train.py", 41, "train", ""]]
    cut = record("exception", 6.0, exception="RuntimeError", frames=frames, user=0,
                 message="[third_party/gloo/gloo/transport/tcp/pair.cc:537] Connection reset by peer")  # fmt: skip
    aborted = record("signal", 5.0, signal="SIGABRT", stack=[])
    told = death(make_recording(rank(0, aborted), rank(1, cut), end=FAILED))
    assert (told.death, told.process.rank) == (Death.COLLECTIVE, 0)
    assert "different operations" in told.message
    own = record("signal", 5.0, signal="SIGABRT", stack=STACK)
    assert death(make_recording(rank(0, own), rank(1, cut), end=FAILED)).death is Death.NATIVE
    assert death(make_recording(rank(0, aborted), end=FAILED)).death is Death.NATIVE


def test_the_launcher_says_who_and_what():
    words = (
        "train.py FAILED\nFailures:\n[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : -15 (pid: 70)\n"
        "Root Cause (first observed failure):\n[0]:\n  rank      : 2 (local_rank: 2)\n  exitcode  : -9 (pid: 77)"
    )
    run = make_recording(rank(0, echo()), rank(1), rank(2), end=FAILED, launchers=(launcher(words),))
    told = death(run)
    assert (told.death, told.process.rank, told.kind) == (Death.KILLED, 2, "SIGKILL")
    memory = replace(run, end=replace(FAILED, oom_kills=1))
    assert verdict(memory) == (
        "train.py died after at least 120 steps: rank 2 was killed by SIGKILL (its memory limit was reached)."
    )


def test_a_program_that_ends_itself():
    def ends(message):
        left = record("exception", 8.0, exception="SystemExit", message=message, frames=[])
        return verdict(make_recording(replace(rank(0, left), clean=True), end=RunEnd(exit_code=3)))

    assert ends("3") == "train.py ended itself after 120 steps with exit code 3."
    assert ends("no data in /x") == "train.py ended itself after 120 steps by sys.exit: no data in /x."


def test_steps_that_were_not_written_are_not_denied():
    killed = RunEnd(exit_code=137, signal="SIGKILL")
    assert verdict(make_recording(rank(0, steps=0), end=killed)).endswith("SIGKILL in its first steps.")
    bare = replace(rank(0, steps=0), records=())
    assert verdict(make_recording(bare, end=killed)).endswith("SIGKILL before its first step.")


def test_the_recorder_was_killed_too():
    boom = record("exception", 8.0, exception="ValueError", message="labels", frames=[])
    assert death(make_recording(rank(0, boom), end=None)).kind == "ValueError"
    assert death(make_recording(rank(0), end=None)) is None
