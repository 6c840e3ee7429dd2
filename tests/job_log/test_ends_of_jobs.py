"""How shells, schedulers, launchers and libraries word an end, and the same words where nothing ended."""

import pytest
from log_cases import STEPS
from log_samples import SAMPLES

from gpudoctor.analysis.job_log.first_cause import LogRole, first_cause
from gpudoctor.engine.registry import load_registry
from gpudoctor.vitals.job_log import read_job_log

MESSAGES = tuple(load_registry().log_messages())
STEP = "step 10 loss 2.1 lr 1e-4\nstep 20 loss 2.0 lr 1e-4\n"
RAISED = 'Traceback (most recent call last):\n  File "/home/u/fit.py", line 12, in <module>\n    main()\n'
ORDINARY = "".join(f"layer {'abcdefghijklmnopqrstuvwxyz'[n % 26] * (n + 1)} is on the card\n" for n in range(150))
"""What a program prints while it sets itself up."""

OF_SHELLS_AND_SCHEDULERS = (
    ("FAIL002", "run.sh: line 3:  4711 Killed                  python3 train.py --bs 4"),
    ("FAIL002", "/var/spool/slurmd/job8/slurm_script: line 12: 31337 Killed        uvicorn api:app"),
    ("FAIL002", "[1]+  Killed                  nohup python train.py"),
    ("FAIL002", "zsh: killed     python train.py"),
    ("FAIL002", "Command terminated by signal 9"),
    ("FAIL002", "srun: error: n1: task 0: Out Of Memory"),
    ("FAIL002", "slurmstepd: error: Exceeded job memory limit at some point."),
    ("FAIL002", "slurmstepd: error: Job 8 exceeded memory limit (10442128 > 10240000), being killed"),
    ("FAIL002", "=>> PBS: job killed: mem 33554432kb exceeded limit 31457280kb"),
    ("FAIL002", "TERM_OWNER: job killed by owner."),
    ("FAIL002", "[2024-01-01T00:00:00.100] error: *** JOB 8 ON n7 CANCELLED AT 2024-01-01T00:00:00 DUE to SIGNAL Terminated ***"),
    ("FAIL002", "slurmstepd: error: *** JOB 8 ON n7 CANCELLED AT 2024-01-01T00:00:00 DUE TO JOB REQUEUE ***"),
    ("FAIL002", "slurmstepd: error: *** JOB 8 STEPD TERMINATED ON n7 AT 2024-01-01T00:00:00 DUE TO JOB NOT ENDING WITH SIGNALS ***"),
    ("FAIL002", "^CTraceback (most recent call last):"),
    ("FAIL002", "2024-08-08 04:22:32 - INFO - Keyboard interruption: stopping after this step"),
    ("FAIL002", "Training interrupted by user"),
    ("FAIL002", "Terminated"),
    ("FAIL002", "run.sh: line 3:  4711 Terminated              python3 train.py --bs 4"),
    ("FAIL002", "srun: error: n1: task 0: Terminated"),
    ("FAIL006", "srun: error: n1: task 0: Aborted (core dumped)"),
    ("FAIL006", "srun: error: n1: task 0: Segmentation fault"),
    ("FAIL006", "run.sh: line 3:  4711 Segmentation fault      (core dumped) python3 train.py --bs 4"),
    ("FAIL006", "run.sh: line 3:  4711 Floating point exception(core dumped) python3 train.py"),
    ("FAIL006", "run.sh: line 3:  4711 Illegal instruction     (core dumped) python3 train.py"),
    ("FAIL006", "[n1:42] *** Process received signal ***\n[n1:42] Signal: Aborted (6)"),
    ("FAIL005", "run.sh: line 3:  4711 Bus error               (core dumped) python3 train.py --bs 4"),
)  # fmt: skip
BEFORE_A_FIRST_STEP = (
    ("CFG010", "usage: fit.py [-h] [--lr LR]\nfit.py: error: ambiguous option: --num could match --num_a, --num_b"),
    ("CFG010", "Usage: fit.py [OPTIONS]\nTry 'fit.py --help' for help.\n\nError: No such option: --foo"),
    ("CFG010", "Usage: fit.py [OPTIONS]\n\nError: Missing option '--data'."),
    ("CFG010", "FATAL Flags parsing error: Unknown command line flag 'foo'"),
    ("CFG010", "Could not override 'trainer.foo'.\nTo append to your config use +trainer.foo=3"),
    ("CFG010", "usage: fit.py [-h]\nfit.py: error: unrecognized arguments: --local-rank=0"),
    ("FAIL020", "python: can't open file '/home/u/fit.py': [Errno 2] No such file or directory"),
    ("FAIL020", "/usr/bin/python3: can't find '__main__' module in 'fit'"),
    ("FAIL020", "slurmstepd: error: execve(): fit.sh: Permission denied"),
    ("FAIL020", "bash: ./fit.sh: No such file or directory"),
    ("FAIL020", "bash: torchrun: command not found"),
    ("FAIL020", "fit.sh: 7: python: not found"),
    ("FAIL020", "nohup: failed to run command 'accelerate': No such file or directory"),
    ("ENV005", "/usr/bin/python3: No module named torch.distributed.run"),
)  # fmt: skip
OF_EXCEPTIONS = (
    ("FAIL002", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 66706 got signal: 2"),
    ("FAIL002", "RuntimeError: DataLoader worker (pid 254328) is killed by signal: Hangup."),
    ("FAIL002", "RuntimeError: DataLoader worker (pid 254328) is killed by signal: Terminated."),
    ("MEM009", "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[2,64]"),
    ("MEM009", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 bytes"),
    ("MEM009", "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)"),
    ("FAIL014", "FileNotFoundError: [Errno 2] No such file or directory: 'runs/3/best.pth'"),
    ("FAIL014", "RuntimeError: Parent directory runs/7 does not exist."),
    ("FAIL016", "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'"),
    ("FAIL001", "TooFewSamples: 3 of 8"),
    ("FAIL001", "mylib.TooFewSamples"),
)  # fmt: skip


def read(folder, text):
    path = folder / "job.out"
    path.write_text(text, encoding="utf-8")
    return read_job_log([str(path)], MESSAGES)


def named(folder, text):
    cause = first_cause(read(folder, text))
    return "" if cause is None else "FAIL018" if cause.root is None else cause.root.code


@pytest.mark.parametrize(("code", "text"), OF_SHELLS_AND_SCHEDULERS)
def test_the_end_of_a_training_is_named(tmp_path, code, text):
    assert named(tmp_path, f"{STEP}{text}\n") == code
    assert named(tmp_path, f"{STEP}{text}\n{STEPS}") == ""


@pytest.mark.parametrize(("code", "text"), BEFORE_A_FIRST_STEP)
def test_a_program_that_never_began_is_named(tmp_path, code, text):
    assert named(tmp_path, f"Loading cuda/12.4\n{text}\n") == code
    assert named(tmp_path, f"{text}\n{ORDINARY}") == ""  # the script went on with another program


@pytest.mark.parametrize(("code", "text"), OF_EXCEPTIONS)
def test_an_exception_is_named(tmp_path, code, text):
    assert named(tmp_path, f"{STEP}{RAISED}{text}\n") == code
    assert named(tmp_path, f"{STEP}{RAISED}{text}\n{STEPS}") == ""


@pytest.mark.parametrize(
    "text",
    [
        "module: command not found",
        "slurm_script: line 9: conda: command not found",
        "bash: cd: /scratch/u: No such file or directory",
        "Killed workers are started again",
        "The job was not terminated",
        "Press Ctrl-C to stop the training",
        "Use SIGINT to save and exit",
        "No keyboard interrupt handler is set",
        "{'loss_nan_policy': 'raise'}",
        "Loss NaN checks are on",
        "the user may stop the run",
    ],
)
def test_words_alone_are_no_end(tmp_path, text):
    assert named(tmp_path, f"{text}\n{STEP}") == ""
    assert named(tmp_path, f"{STEP}{text}\n") == ""


@pytest.mark.parametrize(
    ("exit_code", "code", "text"),
    [
        (127, "FAIL020", "job.sh: line 9: mytrainer: command not found"),
        (127, "FAIL020", "job.sh: 9: mytrainer: not found"),
        (127, "FAIL020", "zsh: command not found: mytrainer"),
        (127, "FAIL020", "/usr/bin/env: 'python3.19': No such file or directory"),
        (127, "FAIL020", "job.sh: line 2: ./begin: No such file or directory"),
        (126, "FAIL020", "job.sh: line 2: ./begin: Permission denied"),
        (126, "FAIL020", "job.sh: ./begin: /opt/nowhere/python: bad interpreter: No such file or directory"),
    ],
)  # fmt: skip
def test_an_exit_code_bears_out_the_last_line_of_a_shell(tmp_path, exit_code, code, text):
    def cause(exit_code):
        (tmp_path / "job.out").write_text(f"module: command not found\n{text}\n", encoding="utf-8")
        return first_cause(read_job_log([str(tmp_path / "job.out")], MESSAGES, exit_code=exit_code))

    assert (cause(exit_code).root.code, cause(exit_code).root.line) == (code, 2)
    assert cause(1) is None and cause(None) is None


@pytest.mark.parametrize("kind", ["SyntaxError: invalid syntax", "IndentationError: unexpected indent"])
def test_a_program_that_does_not_compile_is_named_with_its_line(tmp_path, kind):
    text = f'start\n  File "/home/u/fit.py", line 12\n    def f(:\n          ^\n{kind}\n'
    root = first_cause(read(tmp_path, text)).root
    assert (root.exception, root.frame.path, root.frame.line) == (kind.partition(":")[0], "/home/u/fit.py", 12)


def test_the_last_program_of_a_script_is_judged(tmp_path):
    first = f"{RAISED}KeyError: 'winograd'\n"
    last = f"{RAISED}ZeroDivisionError: division by zero\n"
    cause = first_cause(read(tmp_path, f"{first}{ORDINARY}{last}"))
    assert cause.root.exception == "ZeroDivisionError"
    assert [item.exception for item in cause.of(LogRole.HANDLED)] == ["KeyError"]
    killed = first_cause(read(tmp_path, f"{first}{ORDINARY}{ORDINARY}Killed\n"))
    assert killed.root.kind == "sigkill"


def test_an_error_of_the_cleanup_does_not_replace_its_cause(tmp_path):
    last = f"{RAISED}KeyError: 'in the tracker'\n"
    cause = first_cause(read(tmp_path, f"{RAISED}ValueError: of the model\n\nsaving the logs\n{last}"))
    assert cause.root.exception == "ValueError"
    tracked = "".join(f"wandb: metric_{n} ▁▂▃\n" for n in range(80))
    cause = first_cause(read(tmp_path, f"{RAISED}ValueError: of the model\n\n{tracked}{last}"))
    assert cause.root.exception == "ValueError"


def test_another_rank_that_goes_on_does_not_replace_the_cause(tmp_path):
    rank = "".join(f"[rank0]: {line}\n" for line in f"{RAISED}ValueError: of the model".splitlines())
    cause = first_cause(read(tmp_path, f"{rank}{ORDINARY}{RAISED}KeyError: 3\n"))
    assert cause.root.exception == "ValueError"


def test_what_ray_lists_as_possible_is_no_crash(tmp_path):
    said = (
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. Some common causes "
        "include: (1) the process was killed by the OOM killer due to high memory usage, (2) ray stop --force was "
        "called, or (3) the worker crashed unexpectedly due to SIGSEGV or another unexpected error."
    )
    assert named(tmp_path, f"{STEP}{said}\n") == "FAIL018"


def test_a_child_that_began_while_its_parent_ended_only_follows(tmp_path):
    child = (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
        '  File "/usr/lib/python3.10/multiprocessing/spawn.py", line 126, in _main\n'
        "    self = reduction.pickle.load(from_parent)\n_pickle.UnpicklingError: pickle data was truncated\n"
    )
    assert named(tmp_path, f"{STEP}{RAISED}KeyboardInterrupt\n{child}") == "FAIL002"


@pytest.mark.parametrize("line", ["iter {}: loss nan, time 12.1ms", "step {} loss nan", "epoch {} train_loss\tnan"])
def test_a_loss_that_stays_nan_is_named(tmp_path, line):
    assert named(tmp_path, "".join(f"{line.format(n)}\n" for n in range(100, 140))) == "NUM002"
    once = f"{line.format(99)}\n".replace("nan", "2.5") + f"{line.format(100)}\n"
    after = "".join(f"{line.format(n)}\n".replace("nan", "2.1") for n in range(101, 140))
    assert named(tmp_path, f"{once}{after}") == ""


def test_samples_say_what_closes_a_log():
    closing = {(code, item.kind) for code, item in MESSAGES if item.closing}
    assert closing <= set(SAMPLES) and ("FAIL020", "no-command") in closing


def test_a_file_that_a_job_appends_to_is_judged_by_its_last_job(tmp_path):
    opening = "Loaded module: python3/3.7.5\nLoaded dependency [cudnn/v7.6]: cuda/10.0\nLoaded module: cudnn/v7.6\n"
    jobs = (f"{opening}{RAISED}{said}\n" for said in ("KeyError: 1", "TypeError: no", "ValueError: last"))
    cause = first_cause(read(tmp_path, "".join(jobs)))
    assert cause.root.exception == "ValueError"
    assert len(cause.of(LogRole.HANDLED)) == 2
    assert named(tmp_path, f"{opening}{RAISED}KeyError: 1\n{opening}epoch 1 is done\n") == ""


def test_lines_that_every_rank_opens_with_are_no_second_job(tmp_path):
    opening = "loading the model\nloading the tokenizer\nloading the data\n"
    assert named(tmp_path, f"{opening}{opening}{RAISED}KeyError: 1\nloading the data\n") == "FAIL001"


def test_lines_that_a_buffer_prints_twice_are_no_second_job(tmp_path):
    opening = (
        "[1580334905.974657] using a signal stack\n[1580334905.974719] library loaded\n[1580334905.974739] began\n"
    )
    assert named(tmp_path, f"{opening}{RAISED}KeyError: 1\n{opening}") == "FAIL001"


@pytest.mark.parametrize("text", ["sqlite3.IntegrityError: UNIQUE constraint", "zip2lib.core.PackError: no room"])
def test_an_exception_of_a_module_with_a_digit_is_no_node(tmp_path, text):
    assert named(tmp_path, f"{STEP}{RAISED}{text}\n") == "FAIL001"
    assert read(tmp_path, f"node17: {text}\n").events[0].node == "node17"
