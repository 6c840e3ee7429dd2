"""What is told of pods, schedulers, kernels and several runs, and the parts of a message that a sentence names."""

import pytest
from log_cases import STEPS
from log_causes import HEAD, MESSAGES, autopsy, named, raised, root_of, steps, written

from gpudoctor.analysis.job_log.findings import confidence_of
from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.model import Confidence
from gpudoctor.model.log_message import LogMessage
from gpudoctor.vitals.job_log import read_job_log

TRAINED = steps(1, 30)
STARTED = "  Normal   Started   3s   kubelet   Started container fit\n"
VOLUME = "  Warning  FailedMount  5m (x9 over 18m)  kubelet  {}\n"
UNMOUNTED = (
    "Unable to attach or mount volumes: unmounted volumes=[corpus], unattached volumes=[corpus token]: timed out"
)
MOUNT = 'MountVolume.SetUp failed for volume "corpus" : mount failed'
NO_ROOM = (
    "  Warning  FailedScheduling  9s  default-scheduler  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n"
)
SEGFAULT = (
    "kernel: {}[2536443]: segfault at 7f797fe00000 ip 00007f7c sp 00007f7d error 4 in libnccl.so.2[7f7c7ac00000+1]\n"
)
DLL = 'Error running job: [WinError 126] not found. Error loading "D:\\venv\\torch\\lib\\c10.dll" or one of its dependencies.\n'
INVOKED = "[  100.123456] python3 invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0\n"
KILLED = "[  100.2] Memory cgroup out of memory: Killed process 31 (fit) total-vm:9kB, anon-rss:8kB\n"


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        (VOLUME.format(UNMOUNTED), "volume", {"volume": "corpus"}),
        (VOLUME.format(MOUNT), "volume", {"volume": "corpus"}),
        (NO_ROOM, "unschedulable", {"why": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu"}),
        ("fit-0   0/1   Evicted   0   9h\n", "evicted", {}),
        (SEGFAULT.format("pt_main_thread"), "segfault", {"library": "libnccl.so.2"}),
        (SEGFAULT.format("python3.11"), "segfault", {}),
        (DLL, "missing-library", {"library": "c10.dll"}),
        (INVOKED, "oom-kernel", {"program": "python3", "pid": None}),  # whom it took is not guessed
        (INVOKED + KILLED, "oom-kernel", {"pid": "31"}),
    ],
)
def test_parts_of_a_message(text, kind, values):
    root = root_of(text)
    found = dict(root.values)
    assert (root.kind, {name: found.get(name) for name in values}) == (kind, values)


# What the report tells


POD = (
    "Name:         fit-0\nNamespace:    ml\nNode:         n7/10.0.0.7\nStatus:       {}\nContainers:\n  fit:\n"
    "    Image:          hub/fit:2\n    State:          {}\n      Reason:       {}\n"
)
LAST = "    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    1\n    Ready:          False\n"
EVENTS = "Events:\n  Type     Reason   Age   From     Message\n  ----     ------   ----  ----     -------\n"
WAITS = POD.format("Pending", "Waiting", "{}") + EVENTS
GOOD = POD.format("Succeeded", "Terminated", "Completed") + "      Exit Code:    0\n" + LAST
TABLE = "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n61s    Warning   {}\n"
HELD = "JobId=47 JobName=fit\n   JobState=PENDING Reason={} Dependency=(null)\n   RunTime=00:00:00 TimeLimit=1:00:00\n"
BOOT = "".join(f"[    {n}.000000] usb {n}: new device found, idVendor=1d6b\n" for n in range(1, 9))
PANIC = "thread 'prefetch' panicked at src/reader.rs:214:48:\ncalled `Result::unwrap()` on an `Err` value: Bad\n"
LEVELS = "10:15:20 [{}] ps: the table of shard 11 is full\n10:15:21 [info ] bye (code 70)\n"
STOP = ':::MLLOG {"time_ms": 17, "key": "run_stop", "value": null, "metadata": {"lineno": 315, "status": "%s"}}\n'
LIMIT = "slurmstepd: error: *** STEP 187.13 ON n1 CANCELLED AT 2025-04-30T06:00:50 DUE TO TIME LIMIT ***\n"
SAMPLER = "/env/lib/python3.11/site-packages/rl/sampler.py:88: Unable to infer the size of a batch\n"
ENGINE = "ValueError: Free memory on device cuda:0 (54.34/79.18 GiB) on startup is less than desired GPU memory utilization (0.92)."
WELL = "no failure in its"


@pytest.mark.parametrize(
    ("text", "words", "not_said"),
    [
        (WAITS.format("ImagePullBackOff"), "FAIL015", ""),
        (WAITS.format("ContainerCreating") + VOLUME.format(UNMOUNTED), "FAIL020", ""),
        (WAITS.format("ContainerCreating"), WELL, ""),
        (WAITS.format("ContainerCreating") + VOLUME.format(UNMOUNTED) + STARTED, WELL, ""),
        (POD.format("Running", "Waiting", "CrashLoopBackOff") + LAST, "FAIL018", ""),
        (GOOD + EVENTS + NO_ROOM, WELL, ""),
        (POD.format("Pending", "Waiting", "") + LAST + EVENTS + NO_ROOM, "FAIL020", ""),
        (
            TABLE.format("FailedScheduling   pod/fit-0   0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
            "The job has not started",
            "The job failed",
        ),
        (TABLE.format("BackoffLimitExceeded   job/fit   Job has reached the specified backoff limit"), "FAIL018", ""),
        (HELD.format("Priority"), WELL, ""),
        (f"{BOOT}[   12.345678] init: Service 'vendor.sensors' (pid 812) received signal 11\n{BOOT}", WELL, ""),
        (f"{BOOT}[   12.345678] python[812]: segfault at 0 ip 0 sp 0 error 4 in libfit.so[7f0+1]\n", "FAIL006", ""),
        (raised(ENGINE), "", "gradient checkpointing"),
        (raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."), "gradient checkpointing", ""),
        (TRAINED + raised("OSError: [Errno 28] No space left on device"), "The disk is full", ""),
        (TRAINED + PANIC, "FAIL019", ""),
        (TRAINED + LEVELS.format("error"), "FAIL019", ""),
        (TRAINED + LEVELS.format("info "), "", "FAIL019"),
        ('time="2025-01-01T10:00:00Z" level=fatal msg="no lease"\n', "FAIL019", ""),
        (TRAINED + HEAD, "FAIL019", ""),
        (HEAD + TRAINED, "", "FAIL019"),
        ("predicting\n" + SAMPLER, "", "FAIL019"),
        ("predicting\nfit.py:88: error: Unable to infer the size of a batch\n", "FAIL019", ""),
        (
            "libGL error: failed to load driver: swrast\nenv 3 crashed: EOFError -- started again\n" + steps(0, 60),
            WELL,
            "",
        ),
        (TRAINED + "Error response from daemon: No such exec instance: 99c1f35a\n", WELL, ""),
        (TRAINED + "Error response from daemon: No such container: fit\n", "", WELL),
        (TRAINED + STOP % "success" + LIMIT, WELL, ""),
        (TRAINED + STOP % "aborted" + LIMIT, "FAIL002", "its training was complete"),
    ],
)  # fmt: skip
def test_what_the_report_tells(text, words, not_said, tmp_path, capsys):
    _, printed = autopsy(capsys, written(tmp_path / "job.out", text))
    assert words in printed and not (not_said and not_said in printed), printed


# Xids of other days


# Several runs in one file

STEP = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB."


def at_module(line, path="/work/fit.py"):
    """A traceback from the first line of a script on."""
    return (
        f'{HEAD}  File "{path}", line 80, in <module>\n    run()\n  File "{path}", line 12, in run\n    go()\n{line}\n'
    )


@pytest.mark.parametrize("end", [at_module(OOM), steps(1, 3)])
def test_the_earlier_run_is_named_in_one_sentence(end, tmp_path, capsys):
    text = at_module("KeyError: 'width'") + "reading the corpus\nmaking the network\n" + end
    printed = autopsy(capsys, written(tmp_path / "job.out", text))[1]
    assert printed.count("The same file shows an earlier failure at line 6.") == 1 and "KeyError" not in printed


def frame(path, code, exception):
    return f'{HEAD}  File "{path}", line 7, in work\n    {code}\n{exception}\n'


@pytest.mark.parametrize(
    ("inner", "outer", "first"),
    [
        (
            frame("/w/schedules.py", "return TABLE[name]", "KeyError: 'cosinee'"),
            frame("/w/schedules.py", "raise ValueError(text) from None", "ValueError: no schedule is called cosinee"),
            "ValueError",
        ),
        (
            frame("/w/rows.py", 'raise ValueError("row 7 has 3 columns")', "ValueError: row 7 has 3 columns"),
            frame("/w/rows.py", "self.writer.close()", "AttributeError: 'NoneType' object has no attribute 'close'"),
            "ValueError",
        ),
        (
            frame("/w/rows.py", "return row['prompt'] + row['answer']", "KeyError: 'prompt'"),
            frame("/env/lib/python3.11/site-packages/datasets/builder.py", "raise E() from e", "GenerationError: An error"),
            "KeyError",
        ),
    ],
)  # fmt: skip
def test_of_two_linked_exceptions_the_one_that_says_more_comes_first(inner, outer, first, tmp_path, capsys):
    text = f"{inner}\nDuring handling of the above exception, another exception occurred:\n\n{outer}"
    assert root_of(text).exception == first
    printed = autopsy(capsys, written(tmp_path / "job.out", text), "--format", "json")[1]
    for each in (inner, outer):
        assert each.splitlines()[-1].partition(":")[0] + ": " in printed


# What a rank said before it left

MEMORY = "CUDA out of memory. Tried to allocate 3.10 GiB. GPU 0 has a total capacity of 23.6 GiB"
TIMEOUT = (
    "[rank{rank}]: [E ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600021 "
    "milliseconds before timing out.\n"
)


def test_a_cause_in_the_words_of_the_program_explains_a_plain_exception():
    said = "mixing: RuntimeError('cuFFT error: CUFFT_INTERNAL_ERROR') -> clip left out\n"
    empty = raised("RuntimeError: stack expects a non-empty TensorList")
    root = root_of(steps(1, 5) + said * 3 + "no clip of the batch is left\n" + empty)
    assert (root.code, root.line, root.step) == ("FAIL009", 5, 4)
    assert confidence_of(LogMessage(kind="x", cue="x", pattern="x", text="x"), root) is Confidence.PROBABLE


def test_a_rank_that_left_said_why(tmp_path):
    left = f"[rank1]: the optimizer has no state: {MEMORY}\n[rank1]: leaving\n"
    waited = "".join(TIMEOUT.format(rank=rank) for rank in (0, 2, 3))
    root = root_of(left + waited)
    assert (root.code, root.rank, root.line) == ("MEM009", 1, 1)
    assert named(left + "".join(f"[rank1]: step {step} loss 0.31\n" for step in range(9)) + waited) == "FAIL004"
    said = [f"no state: {MEMORY}\nleaving\n" if rank == 2 else TIMEOUT.format(rank=rank) for rank in range(4)]
    paths = [str(written(tmp_path / f"rank{rank}.log", steps(1, 5) + text)) for rank, text in enumerate(said)]
    root = first_cause(read_job_log(paths, MESSAGES)).root  # in its own file
    assert (root.code, root.rank) == ("MEM009", 2)
    assert first_cause(read_job_log(paths[2:3], MESSAGES)) is None


# Kills by the kernel, and events of Kubernetes


def ring(*texts, boot=700.5, hour=4):
    """A saved log of the kernel with these messages, others around them."""
    all_of_them = ["eth1: link up", *texts, "eth1: link down", "usb 1-1: new device", "ext4: mounted"]
    return "".join(
        f"Feb  9 {hour:02}:00:{number:02} node7 kernel: [{boot + number:.6f}] {text}\n"
        for number, text in enumerate(all_of_them)
    )


OOM_KILLER = "trainer invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0"
SIZES = "total-vm:9000000kB, anon-rss:8388608kB, file-rss:0kB"
CHOSEN = "Out of memory: Kill process 31 (trainer) score 71 or sacrifice child"
REAPED = "oom_reaper: reaped process 31 (trainer), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"
KILLS = {
    "2.6": ("Out of Memory: Kill process 31 (trainer) score 71 and children.",
            "Out of memory: Killed process 31 (trainer)."),
    "4.9": (CHOSEN, f"Killed process 31 (trainer) {SIZES}, shmem-rss:0kB", REAPED),
    "6.1": ("oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
            "task_memcg=/user.slice,task=trainer,pid=31,uid=500",
            f"Out of memory: Killed process 31 (trainer) {SIZES}, shmem-rss:0kB, UID:500 pgtables:9kB oom_score_adj:0",
            REAPED),
    "allocating": (f"Out of memory (oom_kill_allocating_task): Killed process 31 (trainer) {SIZES}",),
    "reaped": (REAPED,),
}  # fmt: skip


@pytest.mark.parametrize("kernel", KILLS)
def test_the_words_of_every_kernel(kernel, tmp_path, capsys):
    code, printed = autopsy(capsys, written(tmp_path / "kern.log", ring(OOM_KILLER, *KILLS[kernel])))
    assert code == 1 and "The kernel killed process 31 (trainer) because memory ran out" in printed
    assert ("it held 8 GiB" in printed) == (kernel not in ("2.6", "reaped")), printed
    assert "later error lines" not in printed, printed
    assert named(STEPS + ring(*KILLS[kernel])) == "FAIL002"
