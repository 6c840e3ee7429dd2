"""`gpudoctor autopsy` ties the dumps of the flight recorder to the log and the script of the job."""

import os
import time
from pathlib import Path

import pytest
from flight_dumps import make_ranks, write
from forks import own_environment
from log_causes import autopsy
from packages import need
from probed import run_ranks

STEPS = "".join(f"[rank{rank}]: step {step} loss 2.{step}\n" for step in range(1, 8) for rank in range(4))
TIMEOUT = (
    "[rank{0}]:[E1123 10:00:0{0}.000000000 ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=6, OpType=BROADCAST, NumelIn=16, NumelOut=16, Timeout(ms)=600000) ran for 600021 "
    "milliseconds before timing out.\n"
)
CHILD_FAILED = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED\n"
MISSING = "Rank 2 did not enter broadcast number 6."


def stuck(folder):
    """Four ranks, of which number 2 does not come to a broadcast."""
    ranks = make_ranks(4)
    for rank in ranks:
        rank.calls(5, line=3)
        if rank.number != 2:
            rank.call("broadcast", line=5, state="started")
    return write(folder, ranks)


def finished(folder):
    return write(folder, [rank.calls(20) for rank in make_ranks(4)])


def log(folder, *texts):
    path = folder / "job.out"
    path.write_text("".join(texts))
    return path


def test_dumps_alone_name_the_rank_and_the_lines_of_the_script(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stuck(tmp_path)
    Path("train.py").write_text("import torch\n\nloss.all_reduce()\n\nsync_weights()\n")
    code, printed = autopsy(capsys, "nccl_trace_rank_*", "train.py")
    assert code == 1 and printed.count(" FAIL004 ") == 1 + printed.count("explain FAIL004 ")
    assert f"The job stood still. {MISSING}" in printed
    assert "train.py:5 sync_weights()" in printed and "Find out why rank 2 did not come" in printed


def test_dumps_of_ranks_that_finished_give_no_finding(tmp_path, capsys):
    code, printed = autopsy(capsys, *finished(tmp_path))
    assert code == 0 and "No operation waits in the flight-recorder dumps of 4 ranks." in printed


def test_the_dumps_decide_the_rank_where_the_log_has_only_timeouts(tmp_path, capsys):
    text = log(tmp_path, STEPS, *(TIMEOUT.format(rank) for rank in (0, 1, 3)), CHILD_FAILED)
    code, printed = autopsy(capsys, text, *stuck(tmp_path))
    assert code == 1 and "FAIL004 collective-timeout error, confirmed" in printed
    assert MISSING in printed and "Find out why rank 2 did not come" in printed
    assert "A collective (BROADCAST) timed out" in printed


def test_the_dumps_decide_where_the_log_has_only_consequences(tmp_path, capsys):
    text = log(tmp_path, STEPS, CHILD_FAILED)
    code, printed = autopsy(capsys, text)
    assert code == 1 and "FAIL018 " in printed
    code, printed = autopsy(capsys, text, *stuck(tmp_path))
    assert code == 1 and f"The job died. {MISSING}" in printed and "FAIL018 " not in printed


def test_a_cause_in_the_log_counts_before_the_dumps(tmp_path, capsys):
    error = "[rank2]: Traceback (most recent call last):\n[rank2]: KeyError: 'speaker'\n"
    code, printed = autopsy(capsys, log(tmp_path, STEPS, error), *stuck(tmp_path))
    assert code == 1 and "KeyError" in printed and "FAIL004 " not in printed


def test_a_job_that_ended_well_is_not_judged_by_its_dumps(tmp_path, capsys):
    code, printed = autopsy(capsys, log(tmp_path, STEPS, "Training complete.\n"), *stuck(tmp_path))
    assert code == 0 and "FAIL004 " not in printed


def test_a_folder_with_a_log_and_cut_dumps(tmp_path, capsys):
    paths = stuck(tmp_path)
    log(tmp_path, STEPS, TIMEOUT.format(0))
    data = Path(paths[1]).read_bytes()
    Path(paths[1]).write_bytes(data[:87])
    Path(paths[3]).write_bytes(b"")
    code, printed = autopsy(capsys, tmp_path)
    assert code == 1 and MISSING in printed
    assert "nccl_trace_rank_1: cannot be read as a flight-recorder dump: it is damaged or cut short" in printed
    assert "nccl_trace_rank_3: cannot be read as a flight-recorder dump: it is empty" in printed


SCRIPT = """
import os, sys, threading, time
import torch
import torch.distributed as dist
from datetime import timedelta
from torch._C._distributed_c10d import _dump_fr_trace

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()

def dump():
    with open(f"{sys.argv[1]}/part_{rank}", "wb") as file:
        file.write(_dump_fr_trace())
    os.rename(file.name, f"{sys.argv[1]}/trace_rank_{rank}")
    while not all(os.path.exists(f"{sys.argv[1]}/trace_rank_{other}") for other in range(3)):
        time.sleep(0.01)
    os._exit(0)

def validate():
    dist.all_reduce(torch.ones(2))

for step in range(20):
    dist.all_reduce(torch.ones(4, 4))
threading.Timer(0.5, dump).start()
if sys.argv[2] == "absent" and rank == 1:
    time.sleep(60)
elif sys.argv[2] == "healthy":
    dist.barrier()
else:
    validate()
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["absent", "healthy"])
def test_dumps_that_a_real_job_wrote(tmp_path, capsys, case):
    need("torch")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    kept = {name: value for name, value in own_environment().items() if not name.startswith("TORCH_")}
    variables = {**kept, "TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"}
    for ended in run_ranks(script, [str(tmp_path), case], variables, 3):
        assert ended.returncode == 0, ended.stderr
    dumps = sorted(tmp_path.glob("trace_rank_*"))
    assert len(dumps) == 3
    for path in dumps:
        os.utime(path, (time.time() + 30, time.time() + 30))  # as if the job had stood longer
    code, printed = autopsy(capsys, *dumps, script)
    if case == "healthy":
        assert code == 0 and "FAIL004 " not in printed
    else:
        assert code == 1 and "Rank 1 did not enter all_reduce number 21." in printed
        assert "Ranks 0, 2 waited in it at train.py:20 (validate)" in printed
