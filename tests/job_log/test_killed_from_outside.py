"""Kills by the kernel, by services, by Kubernetes, Ray and Slurm: whom they concern, in all their wordings."""

import pytest
from log_cases import STEPS
from log_causes import named, raised, root_of, steps

from gpudoctor.cli import main


def autopsy(capsys, *names):
    code = main(["autopsy", *map(str, names)])
    return code, " ".join(capsys.readouterr().out.split())


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def ring(*texts, host="node7", boot=700.5, hour=4):
    """A saved log of the kernel with these messages, others around them."""
    all_of_them = ["eth1: link up", *texts, "eth1: link down", "usb 1-1: new device", "ext4: mounted"]
    return "".join(
        f"Feb  9 {hour:02}:00:{number:02} {host} kernel: [{boot + number:.6f}] {text}\n"
        for number, text in enumerate(all_of_them)
    )


INVOKED = "trainer invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0"
SIZES = "total-vm:9000000kB, anon-rss:8388608kB, file-rss:0kB"
KILLS = {
    "2.6": ("Out of Memory: Kill process 31 (trainer) score 71 and children.",
            "Out of memory: Killed process 31 (trainer)."),
    "2.6.32": ("Out of memory: kill process 31 (trainer) score 71 or a child",
               "Killed process 31 (trainer) vsz:9000000kB, anon-rss:8388608kB, file-rss:0kB"),
    "RHEL 6": ("Out of memory: Kill process 31 (trainer) score 71 or sacrifice child",
               f"Killed process 31, UID 500, (trainer) {SIZES}"),
    "3.13": ("Out of memory: Kill process 31 (trainer) score 71 or sacrifice child",
             f"Killed process 31 (trainer) {SIZES}"),
    "4.9": ("Memory cgroup out of memory: Kill process 31 (trainer) score 71 or sacrifice child",
            f"Killed process 31 (trainer) {SIZES}, shmem-rss:0kB",
            "oom_reaper: reaped process 31 (trainer), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"),
    "6.1": ("oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
            "task_memcg=/user.slice,task=trainer,pid=31,uid=500",
            f"Out of memory: Killed process 31 (trainer) {SIZES}, shmem-rss:0kB, UID:500 pgtables:9kB oom_score_adj:0",
            "oom_reaper: reaped process 31 (trainer), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"),
    "allocating": (f"Out of memory (oom_kill_allocating_task): Killed process 31 (trainer) {SIZES}",),
    "reaped": ("oom_reaper: reaped process 31 (trainer), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",),
}  # fmt: skip


@pytest.mark.parametrize("kernel", KILLS)
def test_the_words_of_every_kernel(kernel, tmp_path, capsys):
    log = written(tmp_path / "kern.log", ring(INVOKED, *KILLS[kernel]))
    code, printed = autopsy(capsys, log)
    assert code == 1 and "The kernel killed process 31 (trainer) because memory ran out" in printed
    assert ("it held 8 GiB" in printed) == (kernel not in ("2.6", "reaped")), printed
    assert "later error lines" not in printed, printed
    assert named(tmp_path, STEPS + ring(*KILLS[kernel])) == "FAIL002"


def test_a_child_that_was_killed_in_the_place_of_its_parent(tmp_path, capsys):
    kill = ("Memory cgroup out of memory: Kill process 31 (trainer) score 71 or sacrifice child",
            f"Killed process 44 (loader) {SIZES}")  # fmt: skip
    _, printed = autopsy(capsys, written(tmp_path / "kern.log", ring(INVOKED, *kill)))
    assert "The kernel killed process 44 (loader)" in printed and "process 31" not in printed


def test_further_kills_and_a_later_boot_in_the_same_file(tmp_path, capsys):
    boots = [ring(INVOKED, *KILLS["6.1"], hour=hour) for hour in (1, 2, 3)]
    later = ring("Linux version 6.1.0", "Command line: quiet", boot=0.0, hour=9) * 2
    text = "".join(boots) + later
    code, printed = autopsy(capsys, written(tmp_path / "kern.log", text))
    assert code == 1 and "The kernel killed process 31 (trainer)" in printed
    assert root_of(tmp_path, text).kind == "oom-kernel"  # as of a pipe: the lines of a job's log
    assert named(tmp_path, later * 3) is None


@pytest.mark.parametrize(
    "line",
    [
        "Feb  9 04:00:00 node7 systemd[1]: fit.service: A process of this unit has been killed by the OOM killer.",
        "Feb  9 04:00:00 node7 systemd-oomd[603]: Killed /user.slice/fit.scope due to memory pressure for /user.slice",
        'sending SIGTERM to process 31 uid 500 "trainer": badness 900, VmRSS 61000 MiB',
        "Out of memory and no killable processes...",
    ],
)
def test_what_kills_for_memory_beside_the_kernel(line, tmp_path):
    assert root_of(tmp_path, STEPS + line + "\n").kind == "oom-kernel"
    assert named(tmp_path, STEPS + "sending gradients to process 31\nno process was killed\n") is None


SERVICES = [
    "[   21.400321] systemd-journald[311]: Received SIGTERM from PID 1 (systemd).",
    "Feb  9 04:00:00 node7 systemd-journald[311]: Received SIGTERM from PID 1 (systemd-shutdow).",
    "Feb  9 04:00:00 node7 sshd[812]: Received signal 15; terminating.",
    "Feb  9 04:00:00 node7 sshd[812]: Received SIGHUP; restarting.",
    "Feb  9 04:00:00 node7 systemd[1]: user@500.service: Killing process 77 (bash) with signal SIGKILL.",
    "Feb  9 04:00:00 node7 dhclient[90]: Received signal 15, initiating shutdown.",
    "Feb  9 04:00:00 node7 (systemd)[90]: Received SIGHUP",
]


@pytest.mark.parametrize("line", SERVICES[:-1])
def test_signals_of_the_services_of_a_machine(line, tmp_path):
    assert named(tmp_path, STEPS + line + "\n") is None
    assert named(tmp_path, f"{line}\n" * 3) is None


@pytest.mark.parametrize(
    "line",
    [
        "Feb  9 04:00:00 node7 python[812]: Received SIGTERM, shutting down",
        "Received SIGTERM: 15",
        "slurmstepd[77]: task 3: Received SIGTERM",
        "[rank0]:[W212 10:00:00.1] Received SIGHUP",
        "*** SIGTERM (@0x2aa4000060) received by PID 218 (TID 0x7fb5) from PID 24; stack trace: ***",
        "*** SIGTERM received at time=1700000000 on cpu 12 ***",
    ],
)
def test_signals_of_the_job(line, tmp_path):
    assert named(tmp_path, STEPS + line + "\n") == "FAIL002"
    assert named(tmp_path, STEPS + line + "\n" + STEPS.replace("step 1", "step 7")) is None


PROBES = (
    "Readiness probe failed: Get \"http://10.1.0.9:80/ok\": context deadline exceeded (Client.Timeout exceeded)",
    "Liveness probe errored: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
    "Back-off pulling image \"fit:3\"", "Pulling image \"fit:3\"", "Successfully pulled image \"fit:3\" in 9s",
)  # fmt: skip


def description(state, *events):
    rows = "".join(f"  {kind:<8} {reason:<20}  3m (x4 over 9m)  kubelet  {text}\n" for kind, reason, text in events)
    return (
        f"Name:         fit-0\nNamespace:    lab\nNode:         gpu-3/10.0.0.3\nStatus:       {state}\n"
        f"Events:\n  Type     Reason       Age              From     Message\n"
        f"  ----     ------       ----             ----     -------\n{rows}"
    )


@pytest.mark.parametrize(
    ("state", "events", "words"),
    [
        ("Running", [("Warning", "Unhealthy", text) for text in PROBES], None),
        ("Running", [("Warning", "NodeNotReady", "Node is not ready")], None),
        ("Failed", [("Warning", "NodeNotReady", "Node is not ready")], "A node of the job failed"),
        ("Running", [("Normal", "TaintManagerEviction", "Marking for deletion Pod lab/fit-0")], "A node of the job failed"),
        ("Failed", [("Warning", "Evicted", "The node was low on resource: memory.")], "exceeded its memory limit"),
        ("Failed", [("Normal", "Preempted", "Preempted by lab/big on node gpu-3")], "preempted the job"),
        ("Running", [("Normal", "Killing", "Container fit failed liveness probe, will be restarted")], "its liveness probe failed"),
        ("Failed", [("Warning", "DeadlineExceeded", "Job was active longer than specified deadline")], "at its time limit"),
        ("Failed", [("Warning", "SystemOOM", "System OOM encountered, victim process: fit, pid: 31")], "process 31 (fit) because memory ran out"),
        ("Running", [("Warning", "OOMKilling", "Memory cgroup out of memory: Kill process 31 (fit) score 9")], "process 31 (fit) because memory ran out"),
    ],
)  # fmt: skip
def test_events_of_kubernetes(state, events, words, tmp_path, capsys):
    code, printed = autopsy(capsys, written(tmp_path / "pod.txt", description(state, *events)))
    assert (code == 1) == (words is not None), printed
    assert words is None or words in printed, printed


@pytest.mark.parametrize("reason", ["Killing", "Unhealthy"])
def test_the_table_of_events_of_older_versions(reason, tmp_path, capsys):
    head = "LAST SEEN   FIRST SEEN   COUNT   NAME             KIND   SUBOBJECT      TYPE      REASON      SOURCE         MESSAGE\n"
    row = "3m          9m           {:<5}   {:<16} Pod    {:<14} Warning   {:<11} kubelet, gpu-3 {}\n"
    killing = ("Container fit failed liveness probe, will be restarted",)
    texts = killing if reason == "Killing" else PROBES
    text = head + row.format(1, "fit-0.15a0b2", "", "Scheduled", "Successfully assigned fit-0 to gpu-3")
    text += "".join(row.format(7, "fit-0.15a0b3", "spec.{fit}", reason, each) for each in texts)
    code, printed = autopsy(capsys, written(tmp_path / "events.txt", text))
    assert (code == 1 and "restarted the container" in printed) == (reason == "Killing"), printed
    assert named(tmp_path, text) == ("FAIL002" if reason == "Killing" else None)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Warning  DeadlineExceeded  job-controller  Job was active longer than specified deadline", "FAIL002"),
        ("rpc error: code = DeadlineExceeded desc = context deadline exceeded", None),
        ("fit-0   0/1   Evicted   0   3h", "FAIL002"),
        ("[cache] Evicted 12 blocks", None),
        ("srun: error: Node failure on node17", "FAIL002"),
        ("salloc: error: Node failure on node17", "FAIL002"),
        ("slurmstepd: error: *** JOB 4711 ON node17 CANCELLED AT 2026-11-21T03:14:15 DUE TO PREEMPTION ***", "FAIL002"),
        ("slurmstepd: error: *** STEP 4711.0 ON node17 CANCELLED AT 2026-11-21T03:14:15 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***", "FAIL002"),
        ("node failure on a robot arm is simulated", None),
        ("(raylet) 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed", "ENV009"),
        ("(raylet) The node with node id: 9f and address: 10.0.0.4 and node name: 10.0.0.4 has been marked dead because the detector has missed too many heartbeats from it.", "FAIL002"),
    ],
)  # fmt: skip
def test_words_of_schedulers(line, code, tmp_path):
    assert named(tmp_path, STEPS + line + "\n") == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "ENV009"),
        ("ray.exceptions.OutOfMemoryError: 3 worker(s) were killed due to the node running low on memory.", "ENV009"),
        ("ray.exceptions.ActorDiedError: The actor died unexpectedly.\nThe actor is dead because its node has died. Node Id: 9f", "FAIL002"),
        ("ray.exceptions.NodeDiedError: Task failed due to the node (where this task was running) was dead", "FAIL002"),
        ("ray.exceptions.ActorDiedError: The actor died unexpectedly.\nThe actor is dead because its worker process has died.", "FAIL018"),
        ("google.api_core.exceptions.DeadlineExceeded: 504 Deadline Exceeded", "FAIL001"),
    ],
)  # fmt: skip
def test_deaths_in_exceptions(error, code, tmp_path):
    assert named(tmp_path, STEPS + raised(error)) == code
    assert named(tmp_path, STEPS + raised(error) + steps(200, 210)) is None
