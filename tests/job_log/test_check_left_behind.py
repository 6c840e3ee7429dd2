"""`gpudoctor check` takes what a dead job left beside its scripts and configs, as `autopsy` does: one report."""

import json
import pickle

import pytest
from flight_dumps import make_ranks, write

from gpudoctor.cli import main
from gpudoctor.vitals.file_kinds import FileKind
from gpudoctor.vitals.targets import sort_targets

STEPS = "".join(f"step {step} loss 2.{step}\n" for step in range(1, 8))
KILL = (
    "[Mon Nov 23 10:00:00 2026] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/slurm/uid_7/"
    "job_77/step_0,task=python,pid=4711,uid=7\n"
    "[Mon Nov 23 10:00:00 2026] Memory cgroup out of memory: Killed process 4711 (python) total-vm:9000kB, "
    "anon-rss:8000kB, file-rss:0kB, shmem-rss:0kB\n"
)
SACCT = "JobID|State|ExitCode\n77|TIMEOUT|0:15\n"


def check(capsys, *names):
    """The exit code and the report."""
    code = main(["check", *map(str, names), "--format", "json", "--quiet", "--gpus", "0"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


@pytest.fixture
def job(tmp_path):
    (tmp_path / "train.py").write_text("import torch\nprint('x')\n")
    (tmp_path / "dmesg.txt").write_text(KILL)
    (tmp_path / "sacct").write_text(SACCT)
    (tmp_path / "slurm-77.out").write_text(STEPS + "Killed\n")
    return tmp_path


def test_other_pickles_and_json_are_what_they_were(tmp_path):
    (tmp_path / "tokens.pkl").write_bytes(pickle.dumps({"a": 1}))
    (tmp_path / "ds.json").write_text('{"train_batch_size": 8}')
    targets = sort_targets([str(tmp_path / "tokens.pkl"), str(tmp_path / "ds.json")])
    assert [item.kind for item in targets.items] == [FileKind.CONFIG] and len(targets.problems) == 1


def test_dumps_beside_a_script_name_the_rank(job, capsys):
    ranks = make_ranks(4)
    for rank in ranks:
        rank.calls(5, line=3)
        if rank.number != 2:
            rank.call("broadcast", line=5, state="started")
    (job / "nccl_trace_rank_7").write_bytes(b"")
    code, report = check(capsys, job / "train.py", *write(job, ranks), job / "nccl_trace_rank_7")
    assert code == 1
    assert "The job stood still. Rank 2 did not enter broadcast number 6." in report["summary"]["verdict"]
    assert "FAIL004" in [item["code"] for item in report["findings"]]
    assert any("nccl_trace_rank_7" in problem for problem in report["problems"])


def test_a_log_and_all_that_lies_beside_it_are_one_patient(job, capsys):
    names = ("train.py", "slurm-77.out", "dmesg.txt")
    code, report = check(capsys, *(job / name for name in names))
    assert code == 1
    [killed] = [item for item in report["findings"] if item["code"] == "FAIL002"]
    assert "4711" in json.dumps(killed)
    assert report["patient"]["kind"] == "script"
    assert {str(job / "slurm-77.out"), str(job / "dmesg.txt")} <= set(report["log"]["files"])
