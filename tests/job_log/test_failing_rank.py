"""Which rank failed first, by logs of all ranks: the wordings of gloo, NCCL, torchrun, srun, mpirun and spawn."""

import pytest
from log_cases import found_in_log
from log_causes import autopsy, written

from gpudoctor.analysis.job_log.failing_rank import RankSign, failing_rank
from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.engine.registry import load_registry
from gpudoctor.vitals.job_log import read_job_log

MESSAGES = tuple(load_registry().log_messages())
CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:9366"
TIMED_OUT = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete"
WATCHDOG = "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType={kind}, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out."


def log_of(tmp_path, text):
    path = tmp_path / "job.out"
    path.write_text(text, encoding="utf-8")
    return read_job_log([str(path)], MESSAGES)


def raised(rank, error, line=100, function="train_step"):
    before = f"[rank{rank}]: "
    frame = f'{before}  File "/home/u/fit.py", line {line}, in {function}\n{before}    go()\n'
    return f"{before}Traceback (most recent call last):\n{frame}{before}{error}\n"


def trained(*ranks, steps=3):
    return "".join(f"[rank{rank}]: step {step} loss 2.{step}\n" for step in range(1, steps + 1) for rank in ranks)


def torchrun(codes):
    rows = "".join(
        f"[{number}]:\n  time      : 2026-01-01_00:00:00\n  host      : n1\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {700 + rank}) {' (SIGKILL)' if code == -9 else ''}\n"
        for number, (rank, code) in enumerate(codes.items())
    )
    return f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\nfit.py FAILED\n{rows}=====\n"


def test_a_rank_that_only_printed_no_error_is_named_and_its_death_is_not_explained(tmp_path):
    text = trained(0, 1, 2, 3) + "".join(raised(rank, CLOSED) for rank in (0, 1, 3))
    [finding] = found_in_log("FAIL018", tmp_path, text)
    assert "Rank 2 reported no error: look there first" in finding.message
    assert not found_in_log("FAIL004", tmp_path, text)


def test_the_launchers_code_of_a_silent_rank_is_given(tmp_path):
    text = "srun: error: n1: task 2: Exited with exit code 7\n" + "".join(raised(rank, CLOSED) for rank in (0, 1, 3))
    text += "srun: error: n1: tasks 0-1,3: Exited with exit code 1\n"
    [finding] = found_in_log("FAIL018", tmp_path, text)
    assert "srun says that rank 2 ended with exit code 7." in finding.message


def test_a_rank_that_hangs_is_the_one_without_a_timeout(tmp_path):
    waits = "[rank3]: 2026-01-01 00:00:00,100 INFO waiting for /data/cache.lock\n"
    text = trained(0, 1, 2, 3) + waits + "".join(raised(rank, TIMED_OUT) for rank in (0, 1, 2))
    who = failing_rank(log_of(tmp_path, text))
    assert who is not None and (who.rank, who.sign) == (3, RankSign.SILENT)
    assert "reported no timeout" in who.words and "waiting for /data/cache.lock" in who.words


def test_the_rank_that_waited_at_another_line_is_named(tmp_path):
    text = trained(0, 1, 2, 3) + raised(2, TIMED_OUT, 15, "evaluate")
    text += "".join(raised(rank, TIMED_OUT) for rank in (0, 1, 3))
    who = failing_rank(log_of(tmp_path, text))
    assert who is not None and (who.rank, who.sign) == (2, RankSign.APART)
    assert who.words == "Rank 2 waited at fit.py:15 (evaluate), and ranks 0, 1, 3 at fit.py:100 (train_step)."


def test_ranks_in_two_halves_name_nobody(tmp_path):
    text = "".join(raised(rank, TIMED_OUT, 15 if rank < 2 else 100) for rank in range(4))
    assert failing_rank(log_of(tmp_path, text)) is None


def test_the_rank_in_another_collective_of_nccl_is_named(tmp_path):
    head = "[rank{rank}]:[E101 00:00:00.100 ProcessGroupNCCL.cpp:607] "
    lines = [(head + WATCHDOG).format(rank=rank, number=76 if rank == 1 else 77, kind="ALLREDUCE") for rank in range(4)]
    who = failing_rank(log_of(tmp_path, "\n".join(lines) + "\n"))
    assert who is not None and (who.rank, who.sign) == (1, RankSign.APART)
    assert "in ALLREDUCE number 76" in who.words


def test_two_of_six_ranks_in_another_collective_are_both_named(tmp_path):
    waited = "".join(
        f"[rank{rank}]: {WATCHDOG.format(rank=rank, number=41, kind='ALLREDUCE')}\n" for rank in (0, 1, 3, 5)
    )
    log = log_of(tmp_path, waited + "".join(raised(rank, CLOSED, 210, "sync_stats") for rank in (2, 4)))
    who = failing_rank(log)
    assert who is not None and (who.ranks, who.sign) == ((2, 4), RankSign.APART)
    assert who.words == "Ranks 2, 4 waited at fit.py:210 (sync_stats), and ranks 0, 1, 3, 5 in ALLREDUCE number 41."


def test_a_monitored_barrier_names_who_did_not_come(tmp_path):
    text = raised(
        1,
        "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.",
    )
    text += raised(0, "RuntimeError: [Rank 0]: Rank 12 failed to pass monitoredBarrier in 12000 ms")
    log = log_of(tmp_path, text)
    who = failing_rank(log)
    assert who is not None and (who.rank, who.sign) == (12, RankSign.NAMED)
    [finding] = found_in_log("FAIL004", tmp_path, text)
    assert "Rank 12 did not reach a barrier" in finding.message


SPAWNED = (
    'Traceback (most recent call last):\n  File "fit.py", line 9, in <module>\n    mp.spawn(work)\n'
    "torch.multiprocessing.spawn.ProcessExitedException: "
)


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (torchrun({0: -15, 1: -9, 2: -15}), "FAIL002"),
        ("srun: error: n1: task 1: Killed\nsrun: error: n1: tasks 0,2: Exited with exit code 1\n", "FAIL002"),
        ("mpirun noticed that process rank 1 with PID 99 on node n1 exited on signal 9 (Killed).\n", "FAIL002"),
        (SPAWNED + "process 1 terminated with signal SIGKILL\n", "FAIL002"),
        (SPAWNED + "process 1 terminated with signal SIGSEGV\n", "FAIL006"),
    ],
)
def test_the_launcher_names_the_rank_that_a_signal_ended(tmp_path, summary, code):
    log = log_of(tmp_path, trained(0, 1, 2) + raised(2, CLOSED) + summary)
    who, cause = failing_rank(log), first_cause(log)
    assert who is not None and (who.rank, who.sign) == (1, RankSign.KILLED)
    assert cause is not None and cause.root is not None and cause.root.code == code


def test_the_log_of_one_node_does_not_blame_the_ranks_of_others(tmp_path):
    text = "world_size: 64\n" + "".join(raised(rank, TIMED_OUT) for rank in range(8))
    assert failing_rank(log_of(tmp_path, text)) is None


def test_a_job_that_ends_well_names_nobody(tmp_path):
    text = trained(0, 1, 2) + raised(1, CLOSED) + "training complete\n"
    assert failing_rank(log_of(tmp_path, text)) is None
    assert failing_rank(log_of(tmp_path, trained(0, 1, 2) + raised(1, CLOSED))) is None


def test_the_rank_whose_end_the_launcher_saw_first(tmp_path):
    step, summary = "[rank0]: step 3 loss 2.1\n", "fit.py FAILED\nRoot Cause (first observed failure):\n[0]:\n"
    summary += "  rank      : 6 (local_rank: 6)\n  exitcode  : 1 (pid: 71)\n"
    rank = failing_rank(log_of(tmp_path, step + summary))
    assert rank is not None and rank.rank == 6 and "exit code 1" in str(rank.words)
    lost = "[rank6]: RuntimeError: Connection closed by peer [10.0.0.3]:30412\n"
    rank = failing_rank(log_of(tmp_path, step + lost + summary))
    assert rank is None or rank.rank != 6


ABORTED = "[rank{rank}]:[E101 00:10:00.100 ProcessGroupNCCL.cpp:607] " + WATCHDOG
KILLED = "RuntimeError: DataLoader worker (pid 52311) is killed by signal: Killed. "
SACCT = "JobID|JobName|State|ExitCode|NodeList\n9|fit|FAILED|6:0|n[1-2]\n9.0|fit|OUT_OF_MEMORY|0:125|n[1-2]\n"
RING = (
    "Jan 01 00:00:01 n2 kernel: Out of memory: Killed process 52311 (python) total-vm:9kB, anon-rss:61865984kB, UID:1\n"
)


def watchdogs(*ranks):
    return "".join(ABORTED.format(rank=rank, number=7, kind="ALLREDUCE") + "\n" for rank in ranks)


@pytest.mark.parametrize("beside", [{}, {"sacct": SACCT}, {"ring": RING}, {"sacct": SACCT, "ring": RING}])
@pytest.mark.parametrize(("own", "sign"), [(raised(11, KILLED), RankSign.OWN), ("", RankSign.SILENT)])
def test_records_beside_a_log_take_no_rank_away(own, sign, beside, tmp_path, capsys):
    others = [rank for rank in range(16) if rank != 11]
    log = written(tmp_path / "slurm-9.out", trained(*range(16)) + own + watchdogs(*others) + torchrun({0: -6}))
    names = [written(tmp_path / name, text) for name, text in beside.items()]
    _, printed = autopsy(capsys, log, *names)
    probably = " probably" if sign is RankSign.SILENT else ""
    assert f"Rank 11{probably} failed first" in printed and "first rank 0" not in printed, printed
    assert ("Rank 11 reported no timeout" in printed) == (sign is RankSign.SILENT)
    assert ("node n2" in printed.lower()) == (set(beside) == {"ring"})


def labelled(*lines):
    """Lines as `srun --label` prints those of one torchrun a node."""
    return "".join(f"{task}: {line}\n" for task, text in lines for line in text.splitlines())


@pytest.mark.parametrize(
    ("behind", "who"),
    [
        ((1, torchrun({11: 1})), 11),  # what shows the launcher comes behind the error
        ((1, "[rank8]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 8."), None),
        ((0, "[default0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0."), None),
        ((1, "[rank1]: leaving"), 1),  # one process a task: its number is the rank
    ],
)
def test_the_number_of_a_task_is_no_rank_where_it_launches_ranks(behind, who, tmp_path):
    error = (
        'Traceback (most recent call last):\n  File "/home/u/fit.py", line 4, in go\n    go()\nValueError: bad sample'
    )
    found = failing_rank(log_of(tmp_path, labelled((0, "step 3 loss 2.3"), (1, error), behind)))
    assert (found.rank if found else None) == who
