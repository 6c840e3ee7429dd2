"""A kernel log beside a job's: whom it killed, of which job and when; what belongs to others accuses nobody."""

import pytest
from log_cases import STEPS
from log_causes import autopsy, written

EXIT = "failed (exitcode: -9) local_rank: 2 (pid: 4711) of binary: /opt/env/bin/python\n"


def dmesg(*kills, stamp="[ 4242.000000]", xid=""):
    """A ring buffer in which (pid, job) were killed."""
    lines = [f"{stamp} eth0: link up", f"{stamp} systemd[1]: Started thing"]
    for pid, job in kills:
        lines += [
            f"{stamp} python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            f"{stamp} oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
            f"oom_memcg=/slurm/uid_1/job_{job},task_memcg=/slurm/uid_1/job_{job}/step_0/task_0,task=python,pid={pid},uid=1",
            f"{stamp} Memory cgroup out of memory: Killed process {pid} (python) total-vm:99999999kB, "
            "anon-rss:61865984kB, file-rss:1048576kB, shmem-rss:0kB, UID:1 pgtables:9kB oom_score_adj:0",
        ]
    return "\n".join([*lines, *([f"{stamp} {xid}"] if xid else []), f"{stamp} eth0: link down"]) + "\n"


def test_the_victim_its_memory_and_its_control_group_are_named(tmp_path, capsys):
    log = written(tmp_path / "slurm-9.out", STEPS + EXIT)
    code, printed = autopsy(capsys, log, written(tmp_path / "ring", dmesg((1, 8), (77, 9))))
    assert code == 1 and "FAIL002" in printed and "does not say by whom" not in printed
    assert "The kernel killed process 77 (python) because memory ran out: it held 60 GiB" in printed
    assert "(control group /slurm/uid_1/job_9/step_0/task_0)" in printed


def test_the_process_that_the_log_names(tmp_path, capsys):
    log = written(tmp_path / "job.out", STEPS + "[rank3]: the worker (pid 4711) has gone\n" + EXIT)
    ring = written(tmp_path / "ring", dmesg((1, 8), (4711, 8), stamp="Nov 21 08:00:00 n7 kernel:"))
    assert "Rank 3, node n7: The kernel killed process 4711" in " ".join(autopsy(capsys, log, ring)[1].split())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slurm-9.out", STEPS + EXIT),  # the kill is of another job
        ("slurm-9.out", STEPS),
        ("job.out", STEPS + "Training finished\n"),
        ("job.out", STEPS + "KeyError: 'speaker'\n"),  # nothing ties them together: the log's own cause stands
    ],
)
def test_the_kill_of_another_job_accuses_nobody(name, text, tmp_path, capsys):
    log = written(tmp_path / name, text)
    _, printed = autopsy(capsys, log, written(tmp_path / "ring", dmesg((77, 8))))
    assert "The kernel killed" not in printed


@pytest.mark.parametrize(
    ("stamp", "ours"),
    [
        ("[Sat Nov 21 03:14:02 2026]", True),
        ("[Sat Nov 21 04:14:02 2026]", True),  # another zone
        ("2026-11-21T03:14:02,000000+00:00", True),
        ("Nov 21 03:14:02 node17 kernel:", True),
        ("[Fri Nov 20 11:43:02 2026]", False),
        ("[Mon Oct 12 03:14:02 2026]", False),
    ],
)
def test_the_time_decides_where_both_have_one(stamp, ours, tmp_path, capsys):
    log = written(tmp_path / "job.out", STEPS + "[2026-11-21 03:14:15,123] [ERROR] " + EXIT)
    _, printed = autopsy(capsys, log, written(tmp_path / "ring", dmesg((77, 9), stamp=stamp)))
    assert ("The kernel killed process 77" in printed) == ours, printed


def test_an_xid_of_that_time_is_the_cause_and_is_told_once(tmp_path, capsys):
    log = written(tmp_path / "job.out", STEPS + "[2026-11-21 03:14:15,123] [ERROR] " + EXIT)
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus."
    ring = dmesg(stamp="[Sat Nov 21 03:14:02 2026]", xid=xid)
    code, printed = autopsy(capsys, log, written(tmp_path / "ring", ring))
    once = printed.count(" GPU004 ") == 1 + printed.count("explain GPU004 ")
    assert code == 1 and once and "The job failed: xid" in printed, printed
