"""Stack dumps that a job left behind: who stands where, and who stands elsewhere."""

import pytest
from log_cases import STEPS
from log_causes import autopsy, written

from gpudoctor.analysis.job_log.stack_positions import odd_rank, standings
from gpudoctor.vitals.job_log import read_job_log

LIBRARY = "/env/lib/python3.11/site-packages/torch"
REDUCE = (
    (f"{LIBRARY}/distributed/distributed_c10d.py", 2501, "all_reduce"),
    (f"{LIBRARY}/distributed/c10d_logger.py", 81, "wrapper"),
    ("/home/a/train.py", 30, "step"),
    ("/home/a/train.py", 60, "<module>"),
)
LOAD = (
    ("/home/a/data.py", 12, "decode"),
    (f"{LIBRARY}/utils/data/_utils/fetch.py", 52, "fetch"),
    (f"{LIBRARY}/utils/data/dataloader.py", 757, "_next_data"),
    ("/home/a/train.py", 28, "step"),
    ("/home/a/train.py", 60, "<module>"),
)
COMPUTE = (
    (f"{LIBRARY}/nn/modules/linear.py", 125, "forward"),
    (f"{LIBRARY}/nn/modules/module.py", 1773, "_wrapped_call_impl"),
    ("/home/a/train.py", 29, "step"),
    ("/home/a/train.py", 60, "<module>"),
)
HELPER = (("/usr/lib/python3.11/threading.py", 331, "wait"), ("/usr/lib/python3.11/threading.py", 1002, "_bootstrap"))
WATCHDOG = (
    "[rank0]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds "
    "before timing out.\n"
)


def fault(*stacks, prefix="", base=0x7F00):
    """What faulthandler writes: other threads first, the main thread last."""
    lines = []
    for number, stack in enumerate(stacks):
        word = "Current thread" if number == len(stacks) - 1 else "Thread"
        lines.append(f"{word} 0x{base + number:016x} (most recent call first):")
        lines += [f'  File "{path}", line {line} in {name}' for path, line, name in stack]
        lines.append("")
    return "".join(f"{prefix}{line}\n" for line in lines)


def pyspy(pid, stack, command="python train.py"):
    """What `py-spy dump` prints: libraries without their folder."""
    lines = [
        f"Process {pid}: {command}",
        "Python v3.11.4 (/usr/bin/python3.11)",
        "",
        f'Thread {pid} (idle): "MainThread"',
    ]
    for path, line, name in stack:
        short = path.removeprefix("/env/lib/python3.11/site-packages/")
        lines.append(f"    {name} ({short}:{line})")
    return "\n".join([*lines, f'Thread {pid + 1} (active): "Thread-1"', "    wait (threading.py:331)", ""])


def in_one_log(tmp_path):
    ranks = [REDUCE, REDUCE, LOAD, REDUCE]
    text = "".join(fault(HELPER, stack, prefix=f"[rank{rank}]: ") for rank, stack in enumerate(ranks))
    return [written(tmp_path / "job.out", text)]


def a_file_a_rank(tmp_path):
    ranks = [REDUCE, REDUCE, LOAD, REDUCE]
    return [written(tmp_path / f"stack_{n}.txt", pyspy(700 + n, stack)) for n, stack in enumerate(ranks)]


def by_command_line(tmp_path):
    ranks = [REDUCE, REDUCE, LOAD, REDUCE]
    parts = [pyspy(700 + n, stack, f"python -u train.py --local_rank={n}") for n, stack in enumerate(ranks)]
    return [written(tmp_path / "all.txt", "\n".join(parts))]


@pytest.mark.parametrize("dumps", [in_one_log, a_file_a_rank, by_command_line])
def test_the_odd_rank_and_its_line_are_named_without_a_log(dumps, tmp_path, capsys):
    code, printed = autopsy(capsys, *dumps(tmp_path))
    assert code == 1 and "DIST008" in printed, printed
    assert "Rank 2 was at a different place, in fetch.fetch at data.py:12 (decode)" in printed
    assert "ranks 0, 1, 3 waited in distributed_c10d.all_reduce at train.py:30 (step) (by 4 stack dumps)." in printed
    assert "/home/a/data.py:12" in printed


def test_a_watchdogs_timeout_is_explained_by_the_dumps_in_the_log(tmp_path, capsys):
    ranks = [REDUCE, LOAD, REDUCE]
    dumps = "".join(fault(HELPER, stack, prefix=f"[rank{rank}]: ") for rank, stack in enumerate(ranks))
    code, printed = autopsy(capsys, written(tmp_path / "job.out", STEPS + WATCHDOG + dumps))
    assert code == 1 and "FAIL004" in printed and "DIST008 " not in printed
    assert "Rank 1 was at a different place" in printed and "data.py:12" in printed


def test_a_dump_beside_the_log_explains_its_timeout(tmp_path, capsys):
    log = written(tmp_path / "job.out", STEPS + WATCHDOG)
    code, printed = autopsy(capsys, log, *a_file_a_rank(tmp_path))
    assert code == 1 and "FAIL004" in printed and "Rank 2 was at a different place" in printed


def test_another_death_is_not_explained_by_where_the_ranks_stood(tmp_path, capsys):
    log = written(tmp_path / "job.out", STEPS + "KeyError: 'speaker'\n")
    code, printed = autopsy(capsys, log, *a_file_a_rank(tmp_path))
    assert code == 1 and "FAIL001" in printed and "different place" not in printed


def test_ranks_that_compute_are_healthy(tmp_path, capsys):
    stacks = [COMPUTE, COMPUTE, LOAD, COMPUTE]
    files = [written(tmp_path / f"rank{n}.txt", pyspy(700 + n, stack)) for n, stack in enumerate(stacks)]
    assert autopsy(capsys, *files)[0] == 0


def test_a_dump_after_which_the_training_went_on_is_no_hang(tmp_path, capsys):
    dumps = "".join(fault(HELPER, stack, prefix=f"[rank{rank}]: ") for rank, stack in enumerate([REDUCE, LOAD, REDUCE]))
    assert autopsy(capsys, written(tmp_path / "job.out", STEPS + dumps + STEPS.replace("step 1", "step 2")))[0] == 0


def test_the_last_of_several_dumps_counts_and_lines_of_others_stand_between(tmp_path):
    first = fault(HELPER, LOAD, prefix="[rank1]: ").splitlines()
    other = fault(HELPER, REDUCE, prefix="[rank0]: ", base=0x5500).splitlines()
    mixed = "\n".join(line for pair in zip(first, [*other, "", ""], strict=False) for line in pair)
    rest = "\n" + "\n".join(other) + "\n" + fault(HELPER, REDUCE, prefix="[rank1]: ")
    log = read_job_log([str(written(tmp_path / "job.out", mixed + rest))], ())
    assert [item.thread.rank for item in log.stacks] == [0, 1]
    assert {item.user.line for item in log.stacks} == {30} and odd_rank(log) == -1


def test_two_that_stand_elsewhere_are_both_named(tmp_path):
    stacks = [REDUCE, LOAD, REDUCE, COMPUTE, REDUCE, REDUCE]
    files = [str(written(tmp_path / f"rank{n}.txt", pyspy(700 + n, stack))) for n, stack in enumerate(stacks)]
    log = read_job_log(files, ())
    assert [group.who for group in standings(log)] == ["rank 1", "rank 3", "ranks 0, 2, 4, 5"]
    assert [group.odd for group in standings(log)] == [True, True, False]
