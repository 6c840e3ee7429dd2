"""Logs too long for a row of cases.txt: many steps, many failures that were survived, several programs in turn."""

import json
from dataclasses import replace

import pytest
from log_cases import STEPS, found_in_log
from log_causes import FRAME, HEAD, MESSAGES, cause_of, named, prefixed, raised, root_of, steps

from gpudoctor.analysis.job_log.first_cause import LogRole, first_cause
from gpudoctor.model import Confidence
from gpudoctor.model.unavailable import Unread
from gpudoctor.vitals.job_log import read_job_log

READS = "".join(f"reading shard {word}\n" for word in ["one", "two", "three", "four", "five", "six", "seven"])
LACKS = "FileNotFoundError: [Errno 2] No such file or directory: '/data/birds.npz'"
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 MiB (GPU 0; 39.42 GiB total capacity)"
LINK = "\nThe above exception was the direct cause of the following exception:\n\n"
RAISED = 'Traceback (most recent call last):\n  File "/home/u/fit.py", line 12, in <module>\n    main()\n'
ORDINARY = "".join(f"layer {'abcdefghijklmnopqrstuvwxyz'[n % 26] * (n + 1)} is on the card\n" for n in range(150))
"""What a program prints while it sets itself up."""


def looped(line, numbers=range(40)):
    return "".join(line.format(n=n) for n in numbers)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (looped("[INFO] ep=3 step={n}/90 lr=1e-4 L=nan time=0.2\n"), "NUM002"),
        (looped("[INFO] ep=3 step={n}/90 lr=1e-4 avg_L=nan time=0.2\n"), "NUM002"),
        (looped("[INFO] ep=3 step={n}/90 lr=1e-4 html=nan time=0.2\n"), None),
        (looped("step {n} loss: 2.1 aux_loss: nan\n"), None),
        (looped("step {n} loss: nan aux_loss: 0.1\n"), "NUM002"),
        (looped("iter {n}: loss nan, time 12.1ms\n"), "NUM002"),
        (looped("epoch {n} train_loss\tnan\n"), "NUM002"),
        ("step 1 loss 2.5\nstep 2 loss nan\n" + looped("step {n} loss 2.1\n", range(3, 40)), None),
        (looped("{{'loss': 0.0, 'rewards/chosen': nan, 'logits/rejected': nan, 'epoch': 0.{n}}}\n"), "NUM002"),
        (
            looped("{{'loss': 0.0, 'rewards/chosen': nan, 'logits/rejected': nan, 'epoch': 0.{n}}}\n", range(3))
            + looped("{{'loss': 0.0, 'rewards/chosen': 0.5, 'logits/rejected': 0.5, 'epoch': 0.{n}}}\n", range(4, 90)),
            None,
        ),
        (
            looped("step {n}/00050 | loss: nan | lrm: 1.00 | dt: 17ms\n")
            + "saving the model\n" * 30 + "wandb:   train/loss nan\n" + "wandb: synced\n" * 3,
            "NUM002",
        ),
    ],
)  # fmt: skip
def test_a_number_that_is_not_finite(text, code):
    assert named(text) == code


def test_bars():
    bar = "".join("\b" * 60 + "\r" * (n % 2) + f" {n}/300 [=>....] - ETA: 9:12 - loss: 0.4{n}" for n in range(40))
    assert named(bar) is None and named(bar + "\nKilled\n") == "FAIL002"
    with pytest.raises(Unread, match="not text"):
        named(bytes(range(8)) * 100)
    bars = "Epoch:  18%|##        | 280/1529 [07:35<22:03,  1.06s/it]\r" * 5
    assert named(f"{bars[:-1]}./fit.sh: line 33: 4711 Killed      python fit.py --epochs 3\n") == "FAIL002"
    assert named(f"{bars[:-1]}[rank0] saved\n") is None


def test_the_advice_of_conda_is_no_failure():
    advice = "\nCommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.\nTo initialize your shell, run\n\n    $ conda init <SHELL_NAME>\n"
    limit = "slurmstepd-n4: error: *** JOB 7 ON n4 CANCELLED AT 2024-01-01T01:00:00 DUE TO TIME LIMIT ***\n"
    assert named(advice * 4) is None and named(advice + limit) == "FAIL002"


def test_ranks_of_horovod_that_stall():
    wait = "[2024-01-01 10:0{n}:00: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
    stalls = looped(wait, range(4))
    assert named(steps(0, 20) + stalls) == "FAIL004"
    assert named(steps(0, 20) + stalls + steps(20, 60)) is None


def test_many_failures_that_the_training_goes_on_after():
    skipped = "".join(raised(OOM.format(n=10 * n) + " " + "x" * n) + steps(100 * n, 100 * n + 60) for n in range(1, 9))
    assert named(skipped) is None and named(skipped + raised(OOM.format(n=7))) == "MEM009"


def test_a_later_run_that_prints_its_settings_at_length():
    settings = looped('  "option_{n}": {n},\n', range(400))
    failed = raised(OOM.format(n=24))
    assert named(failed + settings + failed + settings + steps(0, 40)) is None
    assert named(failed + settings) == "MEM009"


def test_a_request_that_a_server_could_not_serve():
    served = (
        "10.0.0.7 - - [04/Dec/2023] GET /status\nERROR in app: Exception on /query [GET]\n"
        + raised("ValueError: the task id is empty")
    ) * 5
    assert named(served) in (None, "FAIL018")
    assert named(served + "done\n" + raised("KeyError: 'task'")) == "FAIL001"


@pytest.mark.parametrize(("lines", "code"), [(20, "FAIL001"), (400, None)])
def test_a_file_that_goes_on_for_long_behind_an_exception(lines, code):
    assert named(raised("KeyError: 'mask'") + looped("saved picture {n} of the second part\n", range(lines))) == code


SETTINGS = "".join(f"{name}: {name[::-1]}\n" for name in ("optimiser", "schedule", "corpus", "device", "folder"))
BEGUN = SETTINGS + "reading the corpus\n" + raised("KeyError: 'mask'")
THREAD = "Exception in thread Thread-1 (_produce):\n" + raised("AttributeError: no attribute r1c5")


def test_of_several_runs_the_last_one_that_failed_is_named():
    runs = SETTINGS + raised("ValueError: empty") + BEGUN + SETTINGS
    assert "KeyError" in root_of(runs).text and named(runs + steps(0, 4)) is None
    printed = SETTINGS + "Target 7 is out of bounds.\n"
    assert named(printed * 9) == "FAIL001" and named(printed * 9 + SETTINGS) is None


def test_what_may_not_have_ended_the_job_is_probable(tmp_path):
    [sure] = found_in_log("FAIL001", tmp_path, BEGUN)
    [doubtful] = found_in_log("FAIL001", tmp_path, BEGUN + SETTINGS)
    [of_thread] = found_in_log("FAIL001", tmp_path, steps(0, 4) + THREAD)
    assert (sure.confidence, doubtful.confidence) == (Confidence.CONFIRMED, Confidence.PROBABLE)
    assert of_thread.confidence is Confidence.PROBABLE and "r1c5" in str(of_thread.message)
    assert "mask" in root_of(raised("KeyError: 'mask'") + THREAD).text


@pytest.mark.parametrize(
    "error", ["TypeError: not all arguments converted", "OSError: [Errno 28] No space left on device"]
)
def test_an_exception_that_logging_handles(error):
    emit = '  File "/usr/lib/python3.11/logging/__init__.py", line 1110, in emit\n    msg = self.format(record)\n'
    text = f"--- Logging error ---\n{HEAD}{emit}{error}\nCall stack:\n{FRAME}Message: 'state:'\nArguments: (3,)\n"
    assert named(text) is None and named("started\n" * 3 + text * 3 + "saved\n") is None
    assert named(text + "saved\n" + raised("KeyError: 'mask'")) == "FAIL001" and named(raised(error)) is not None


def test_what_a_finalizer_raises_ends_nothing():
    missing = "FileNotFoundError: [Errno 2] No such file or directory\n"
    finalizer = (
        HEAD + '  File "/usr/lib/python3.10/multiprocessing/util.py", line 300, in _run_finalizers\n    finalizer()\n'
        '  File "/usr/lib/python3.10/multiprocessing/synchronize.py", line 87, in _cleanup\n    sem_unlink(name)\n'
    ) + missing
    assert named(steps(0, 9) + finalizer * 8) in (None, "FAIL018")
    assert named(steps(0, 9) + raised(missing.strip()) + finalizer) == "FAIL016"


ELASTIC = "torch/distributed/elastic/agent/server/api.py"
FAILED = (
    "W0509 04:07:20.3 300 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 411 closing signal SIGTERM\n"
    "E0509 04:07:20.5 300 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 2 "
    "(pid: 413) of binary: /usr/bin/python3\n"
)
OF_RANK_2 = prefixed("[rank2]: ", raised("OSError: shard 88 cannot be had"))


def ranked(first, last):
    return "".join(f"[rank0] 04:00:22 step {n} loss {4 - n / 100:.2f}\n" for n in range(first, last))


def test_a_restart_by_torchrun():
    died = ranked(0, 9) + OF_RANK_2 + FAILED
    restarted = f"I0509 04:07:28.6 300 {ELASTIC}:525]   restart_count=1\n"
    end = f"I0509 04:23:14.8 300 {ELASTIC}:883] [default] worker group successfully finished. Waiting 300 seconds\n"
    again = OF_RANK_2.replace("OSError: shard 88 cannot be had", "KeyError: 'labels'")
    assert named(died) == "FAIL001" and named(died + restarted + ranked(7, 20)) is None
    assert root_of(died + restarted + ranked(7, 9) + again + FAILED).exception == "KeyError"
    assert named(died + ranked(7, 20) + end) is None


@pytest.mark.parametrize("between", ["", "\n"])
def test_a_warning_of_python_that_quotes_a_traceback(between):
    said = "/work/ops/act.py:50: UserWarning: Failed to build the kernels. Details:\n" + between
    text = raised("RuntimeError: no compiler on this computer")
    ticks = looped("tick {n}     kimg {n}.0   time 3m 20s  sec/tick 41.2  augment 0.1\n", range(9))
    assert named(said + text + ticks) is None and named(text) == "FAIL001"


def test_failures_in_a_loop_that_goes_on():
    sample = "=== sample ===\n" + raised("RuntimeError: CUDA error: device-side assert triggered") + "=== end ===\n"
    text = "".join(f"preparing part {chr(97 + n)} of the data\n" for n in range(26))
    text += "".join(f"step {50 * n} loss 1.{9 - n}00\n{sample}" for n in range(9))
    assert named(text + "finished 450 steps\n") is None  # a model wrote them
    trials = "".join(
        f"[W 2024-01-01 10:0{n}:00,000] Trial {n} failed with parameters: {{'lr': 1.0}} because of the following "
        f"error: RuntimeError('loss is nan').\n{raised('RuntimeError: loss is nan')}"
        f"[W 2024-01-01 10:0{n}:30,000] Trial {n} failed with value None.\n"
        f"[I 2024-01-01 10:0{n}:40,000] Trial {n + 9} finished with value: 0.3.\n"
        for n in range(4)
    )
    assert named(trials + "[I 2024-01-01 10:04:40,000] Trial 13 finished with value: 0.2.\nBest trial: 13\n") is None
    errors = looped("question {n}: SyntaxError: invalid syntax (<string>, line {n})\n", range(12))
    assert named(errors + "mean 0.3\n") is None
    skipped = "Skipping sample 3: UnidentifiedImageError: cannot identify image file 'a.jpg'\n"
    assert named(skipped + "saved\n") is None and named(skipped) == "FAIL016"


def test_each_of_many_runs_is_followed():
    begins = "reading the model\nreading the words\nreading the pictures\nbuilding the tower\n"
    runs = "".join(begins + f"try {word}\n" * 99 + raised(f"KeyError: '{word * 3}'") for word in "abcdefghij")
    assert named(runs) == "FAIL001"
    assert named(runs + begins + "The picture shows a bird\nThe picture shows a tree\n") is None


class Events(tuple):
    """Events that count how often somebody goes through all of them."""

    walks = 0

    def __iter__(self):
        type(self).walks += 1
        return super().__iter__()


def test_many_printed_errors_are_not_each_compared_with_all_others():
    data = f"WARNING:corpus: shard 1 is left out: {LACKS}\n{READS}".encode()
    log = read_job_log(["a"], MESSAGES, contents={"a": data})
    events = [replace(log.events[0], order=number) for number in range(500)]
    assert first_cause(replace(log, events=Events(events))) is None
    assert Events.walks < 20


@pytest.mark.parametrize(
    ("failure", "code"),
    [("RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "FAIL013"), ("KeyError: 'mask'", "FAIL001")],
)  # fmt: skip
def test_a_traceback_in_a_field_of_json(failure, code):
    def field(level):
        return json.dumps({"level": level, "event": "part 3 failed", "exception": raised(failure).strip()}) + "\n"

    line, informs = json.dumps({"level": "info", "event": "part 1"}) + "\n", '{"level": "info"}\n' * 9
    root = root_of(line + field("error"))
    assert root.code == code and failure in root.text
    assert named(field("warning") + informs) is None and named(field("error") + informs) is None


# Several programs in turn


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("CFG010", "usage: fit.py [-h] [--lr LR]\nfit.py: error: ambiguous option: --num could match --num_a, --num_b"),
        ("CFG010", "Usage: fit.py [OPTIONS]\nTry 'fit.py --help' for help.\n\nError: No such option: --foo"),
        ("CFG010", "Usage: fit.py [OPTIONS]\n\nError: Missing option '--data'."),
        ("CFG010", "FATAL Flags parsing error: Unknown command line flag 'foo'"),
        ("CFG010", "Could not override 'trainer.foo'.\nTo append to your config use +trainer.foo=3"),
        ("FAIL020", "python: can't open file '/home/u/fit.py': [Errno 2] No such file or directory"),
        ("FAIL020", "/usr/bin/python3: can't find '__main__' module in 'fit'"),
        ("FAIL020", "slurmstepd: error: execve(): fit.sh: Permission denied"),
        ("FAIL020", "bash: ./fit.sh: No such file or directory"),
        ("FAIL020", "bash: torchrun: command not found"),
        ("FAIL020", "fit.sh: 7: python: not found"),
        ("FAIL020", "nohup: failed to run command 'accelerate': No such file or directory"),
        ("ENV005", "/usr/bin/python3: No module named torch.distributed.run"),
    ],
)
def test_a_program_that_never_began_is_named(code, text):
    assert named(f"Loading cuda/12.4\n{text}\n") == code
    assert named(f"{text}\n{ORDINARY}") is None  # the script went on with another program


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [
        (127, "job.sh: line 9: mytrainer: command not found"),
        (127, "job.sh: 9: mytrainer: not found"),
        (127, "zsh: command not found: mytrainer"),
        (127, "/usr/bin/env: 'python3.19': No such file or directory"),
        (127, "job.sh: line 2: ./begin: No such file or directory"),
        (126, "job.sh: line 2: ./begin: Permission denied"),
        (126, "job.sh: ./begin: /opt/nowhere/python: bad interpreter: No such file or directory"),
    ],
)
def test_an_exit_code_bears_out_the_last_line_of_a_shell(exit_code, text):
    text = f"module: command not found\n{text}\n"
    root = root_of(text, exit_code=exit_code)
    assert (root.code, root.line) == ("FAIL020", 2)
    assert root_of(text, exit_code=1) is None and root_of(text) is None


def test_the_last_program_of_a_script_is_judged():
    cause = cause_of(f"{RAISED}KeyError: 'winograd'\n{ORDINARY}{RAISED}ZeroDivisionError: division by zero\n")
    assert cause.root.exception == "ZeroDivisionError"
    assert [item.exception for item in cause.of(LogRole.HANDLED)] == ["KeyError"]
    assert root_of(f"{RAISED}KeyError: 'winograd'\n{ORDINARY}{ORDINARY}Killed\n").kind == "sigkill"
    opening = "Loaded module: python3/3.7.5\nLoaded dependency [cudnn/v7.6]: cuda/10.0\nLoaded module: cudnn/v7.6\n"
    jobs = (f"{opening}{RAISED}{said}\n" for said in ("KeyError: 1", "TypeError: no", "ValueError: last"))
    cause = cause_of("".join(jobs))
    assert cause.root.exception == "ValueError" and len(cause.of(LogRole.HANDLED)) == 2
    assert named(f"{opening}{RAISED}KeyError: 1\n{opening}epoch 1 is done\n") is None


@pytest.mark.parametrize(
    "behind",
    [
        f"\nsaving the logs\n{RAISED}KeyError: 'in the tracker'\n",
        f"\n{looped('wandb: metric_{n} ▁▂▃' + chr(10), range(80))}{RAISED}KeyError: 'in the tracker'\n",
    ],
)
def test_an_error_of_the_cleanup_does_not_replace_its_cause(behind):
    assert root_of(f"{RAISED}ValueError: of the model\n{behind}").exception == "ValueError"


def test_another_rank_that_goes_on_does_not_replace_the_cause():
    rank = prefixed("[rank0]: ", f"{RAISED}ValueError: of the model")
    assert root_of(f"{rank}{ORDINARY}{RAISED}KeyError: 3\n").exception == "ValueError"


@pytest.mark.parametrize("text", ["sqlite3.IntegrityError: UNIQUE constraint", "zip2lib.core.PackError: no room"])
def test_an_exception_of_a_module_with_a_digit_is_no_node(text):
    assert named(f"{steps(1, 3)}{RAISED}{text}\n") == "FAIL001"
    assert root_of(f"node17: {text}\n").node == "node17"


# Other ranks


@pytest.mark.parametrize(
    "inner", ["", raised("torch.distributed.DistNetworkError: failed to recv, got 0 bytes") + LINK]
)
def test_the_node_that_lost_the_store_of_another(inner):
    lost = inner + raised(
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. "
        "See inner exception for details."
    )
    summary = (
        "E0401 10:00:00.5 71 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -7) local_rank: 3 "
        "(pid: 75) of binary: /opt/py/bin/python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        "Root Cause (first observed failure):\n  rank      : 3 (local_rank: 3)\n  exitcode  : -7 (pid: 75)\n"
    )
    assert named(STEPS + summary + lost) == named(STEPS + lost + summary) == "FAIL005"
    assert named(STEPS + lost) == "FAIL018" and named(STEPS + lost + steps(200, 210)) is None


@pytest.mark.parametrize("prefix", ["rank #{}: ", "Rank #{}: "])
def test_a_prefix_with_a_number_sign(prefix):
    text = prefixed(prefix.format(0), STEPS) + prefixed(prefix.format(3), raised("KeyError: 'speaker'"))
    text += prefixed(prefix.format(1), raised("RuntimeError: Connection closed by peer"))
    root = root_of(text)
    assert (root.code, root.rank, root.frame.line) == ("FAIL001", 3, 12)
    assert named(text + prefixed(prefix.format(3), steps(30, 40)) + "Training finished\n") is None


def test_a_traceback_that_absl_logs():
    absl = "E0731 02:52:54.57{} 140295433873152 runner.py:258] "
    error = raised("tensorflow.python.framework.errors_impl.InvalidArgumentError: From /job:fit/task:0:")
    chained = error + "\nDuring handling of the above exception, another exception occurred:\n\n" + error
    logged = "".join(absl.format(number) + line + "\n" for number, line in enumerate(chained.splitlines(), 10))
    root = root_of(STEPS + logged + absl.format(99) + "\n")
    assert (root.code, root.frame.line, root.seconds is not None) == ("FAIL001", 12, True)
    assert named(STEPS + logged + steps(300, 310)) is None
    assert named(STEPS + absl.format(1) + "TypeErrors are counted\n") is None


WATCHDOG = (
    "[rank{n}]:[E321 02:17:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {n}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
)


def test_the_timeouts_and_lost_connections_of_other_ranks():
    lost = raised("torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error")
    peers = "".join(prefixed(f"[rank{rank}]: ", lost) for rank in range(3))
    own = "[rank3]: ImportError: cannot import name 'x' from 'y'\n"
    assert named(steps(1, 30) + peers) == "FAIL018"
    root = root_of(steps(1, 30) + peers + own)  # an exception without a traceback
    assert (root.code, root.rank) == ("ENV005", 3)
    text = raised("KeyError: 'mask'").strip() + "\nValueError: the second line of its message\n"
    assert named(steps(1, 30) + text) == "FAIL001"
    died = "[rank3]: RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.\n"
    timeouts = looped(WATCHDOG, range(3))
    root = root_of(steps(1, 30) + died + timeouts)
    assert (root.code, root.rank) == ("DATA010", 3)
    assert named(steps(1, 30) + timeouts + died) == named(steps(1, 30) + timeouts) == "FAIL004"


def test_a_parent_whose_process_in_the_background_failed():
    parent = "Exception: initialization failed due to an exception in a background process. See stack trace."
    child = prefixed("(Worker pid=7) ERROR 07-01 09:41:21 [x.py:8] ", raised("KeyError: 'mask'"))
    behind = "".join(f"INFO 07-01 09:41:22 [x.py:9] the worker {n} is ended\n" for n in "abcdefgh")
    assert root_of(child + behind + raised(parent)).exception == "KeyError"
    assert named(raised(parent)) == "FAIL018"
    assert named(raised("RuntimeError: a background process is slow")) == "FAIL001"


def test_the_end_of_a_step_is_of_no_rank():
    line = "0: slurmstepd: error: *** STEP 513.21 ON node007 CANCELLED AT 2025-04-21T14:07:43 DUE TO TIME LIMIT ***\n"
    root = root_of("".join(f"{rank}: step {n} loss: 0.31\n" for n in range(30) for rank in range(4)) + line)
    assert (root.code, root.rank) == ("FAIL002", None)


def test_ranks_that_do_not_know_an_option():
    usage = "usage: fit.py [-h] --config CONFIG\n              [--local_rank LOCAL_RANK]\n"
    ranks = looped(usage + "fit.py: error: unrecognized arguments: --local-rank={n}\n", range(4))
    launcher = (
        HEAD
        + '  File "/work/launch.py", line 9, in <module>\n    main()\ntorch.distributed.elastic.ChildFailedError: \n'
    )
    assert root_of("a note of the launcher\n  main()\n" + usage + ranks + launcher).kind == "unrecognized"
    assert named(ranks + steps(1, 30)) is None
