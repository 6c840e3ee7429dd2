"""What a scheduler kept of a job: it outranks a bare exit code, and what ended well is healthy."""

import pytest
from log_cases import STEPS
from log_causes import autopsy, written

KILLED = STEPS + "failed (exitcode: -9) local_rank: 2 (pid: 4711) of binary: /opt/env/bin/python\n"


def sacct_p(*rows):
    head = "JobID|JobName|State|ExitCode|Elapsed|Timelimit|MaxRSS|ReqMem|End|NodeList"
    return "\n".join([head, *("|".join(row) for row in rows)]) + "\n"


def job(state, code="0:0", name="4711", rss="", mem="64G"):
    return (name, "train", state, code, "03:14:15", "1-00:00:00", rss, mem, "2026-11-21T03:14:15", "node17")


def sacct_wide(state, code):
    return (
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
        "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
        f"4711              train        gpu        lab         16 {state:>10} {code:>8} \n"
        f"4711.batch        batch                   lab         16 {state:>10} {code:>8} \n"
    )


def scontrol(state, reason="None"):
    return (
        "JobId=4711 JobName=train\n   UserId=ann(1001) GroupId=lab(100) MCS_label=N/A\n"
        f"   JobState={state} Reason={reason} Dependency=(null)\n   Requeue=0 Restarts=0 BatchFlag=1 ExitCode=0:15\n"
        "   RunTime=08:00:10 TimeLimit=08:00:00 TimeMin=N/A\n   StartTime=2026-11-20T19:14:05 EndTime=2026-11-21T03:14:15\n"
        "   NodeList=node17\n   Command=/home/ann/train.sbatch\n"
    )


def describe(reason, code, state="Terminated", events=""):
    return (
        "Name:             train-0\nNamespace:        default\nPriority:         0\nNode:             gpu-3/10.0.0.3\n"
        f"Status:           {'Succeeded' if code == 0 else 'Failed'}\nContainers:\n  train:\n    Image:          train:1\n"
        f"    State:          {state}\n      Reason:       {reason}\n      Exit Code:    {code}\n"
        "      Started:      Sat, 21 Nov 2026 00:00:00 +0000\n      Finished:     Sat, 21 Nov 2026 03:14:15 +0000\n"
        "    Limits:\n      memory:  64Gi\n      nvidia.com/gpu:  8\nConditions:\n  Type   Status\n  Ready  False\n"
        f"Events:\n  Type     Reason   Age   From     Message\n  ----     ------   ----  ----     -------\n{events}"
    )


EVENTS = (
    "LAST SEEN   TYPE      REASON      OBJECT        MESSAGE\n"
    "12m         Normal    Scheduled   pod/train-0   Successfully assigned default/train-0 to gpu-3\n"
)


SICK = {
    "oom of a step, its memory and the limit": (
        sacct_p(job("FAILED", "1:0"), job("OUT_OF_MEMORY", "0:125", "4711.0", "68000000K")),
        "it used 64.8 GiB and may use 64 GiB",
    ),
    "a table that cuts states": (sacct_wide("OUT_OF_ME+", "0:125"), "Slurm's memory limit was reached"),
    "signal 125 of a failed job": (sacct_p(job("FAILED", "0:125")), "Slurm's memory limit was reached"),
    "time limit": (sacct_p(job("TIMEOUT"), job("CANCELLED", "0:15", "4711.batch")), "time limit of 1-00:00:00"),
    "time limit by scontrol": (scontrol("TIMEOUT", "TimeLimit"), "at its time limit"),
    "preempted": (sacct_p(job("PREEMPTED")), "preempted the job"),
    "node": (sacct_p(job("NODE_FAIL", "1:0")), "A node of the job failed"),
    "pod killed": (describe("OOMKilled", 137), "exceeded its memory limit"),
    "pod evicted": (
        describe("Error", 137, events="  Warning  Evicted  5m  kubelet  The node was low on resource: memory. Threshold\n"),
        "exceeded its memory limit",
    ),
    "events": (
        EVENTS + "5m          Warning   Preempted   pod/train-0   Preempted by a pod on node gpu-3\n",
        "preempted the job",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SICK)
def test_a_record_outranks_a_bare_exit_code(case, tmp_path, capsys):
    record, words = SICK[case]
    code, printed = autopsy(capsys, written(tmp_path / "job.out", KILLED), written(tmp_path / "state", record))
    assert code == 1 and "FAIL002" in printed and words in printed, printed
    assert "does not say by whom" not in printed and "no failure" not in printed


HEALTHY = (
    sacct_p(job("COMPLETED"), job("COMPLETED", name="4711.batch")),
    sacct_wide("COMPLETED", "0:0"),
    scontrol("COMPLETED"),
    sacct_p(job("PREEMPTED"), job("COMPLETED"), job("COMPLETED", name="4711.batch")),  # queued again
    describe("Completed", 0),
    EVENTS,
    sacct_p(job("RUNNING")),
)


@pytest.mark.parametrize("record", HEALTHY)
def test_what_ended_well_is_healthy(record, tmp_path, capsys):
    code, printed = autopsy(capsys, written(tmp_path / "job.out", STEPS), written(tmp_path / "state.txt", record))
    assert code == 0 and "no failure" in printed, printed


def test_what_a_job_died_of_before_its_limit_stays_the_cause(tmp_path, capsys):
    log = written(tmp_path / "job.out", STEPS + "KeyError: 'speaker'\n")
    code, printed = autopsy(capsys, log, written(tmp_path / "state", sacct_p(job("TIMEOUT"))))
    assert code == 1 and "FAIL001" in printed and "time limit" not in printed


def test_of_several_jobs_the_one_of_the_log_counts(tmp_path, capsys):
    record = sacct_p(job("OUT_OF_MEMORY", name="4710"), job("COMPLETED"), job("TIMEOUT", name="4712"))
    log = written(tmp_path / "slurm-4711.out", STEPS)
    assert autopsy(capsys, log, written(tmp_path / "state", record))[0] == 0
    log = written(tmp_path / "slurm-4712.out", STEPS)
    assert "at its time limit" in autopsy(capsys, log, written(tmp_path / "state", record))[1]


@pytest.mark.parametrize("tail", [scontrol("TIMEOUT", "TimeLimit"), "State: TIMEOUT (exit code 0)\n"])
def test_a_record_inside_a_log_is_read(tail, tmp_path, capsys):
    code, printed = autopsy(capsys, written(tmp_path / "job.out", KILLED + tail))
    assert code == 1 and "at its time limit" in printed


def test_a_shared_row_names_neither_user_nor_node(tmp_path, capsys):
    row = "JobID|User|Account|State|ExitCode|NodeList\n4711|zoltan|photonics|OUT_OF_MEMORY|0:125|gpu-a100-[07-08]\n"
    _, printed = autopsy(capsys, written(tmp_path / "job.out", STEPS), written(tmp_path / "state", row), "--share")
    assert "4711|<user>|<user>|OUT_OF_MEMORY|0:125|<host>" in printed, printed
