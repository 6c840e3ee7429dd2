"""Logs too long for a row of cases.txt: many steps, many failures that were survived, several programs in turn."""

from dataclasses import replace

import pytest
from log_cases import found_in_log
from log_causes import MESSAGES, cause_of, named, raised, root_of, steps

from gpudoctor.analysis.job_log.first_cause import LogRole, first_cause
from gpudoctor.model import Confidence
from gpudoctor.model.unavailable import Unread
from gpudoctor.vitals.job_log import read_job_log

READS = "".join(f"reading shard {word}\n" for word in ["one", "two", "three", "four", "five", "six", "seven"])
LACKS = "FileNotFoundError: [Errno 2] No such file or directory: '/data/birds.npz'"
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 MiB (GPU 0; 39.42 GiB total capacity)"
RAISED = 'Traceback (most recent call last):\n  File "/home/u/fit.py", line 12, in <module>\n    main()\n'
ORDINARY = "".join(f"layer {'abcdefghijklmnopqrstuvwxyz'[n % 26] * (n + 1)} is on the card\n" for n in range(150))
"""What a program prints while it sets itself up."""


def looped(line, numbers=range(40)):
    return "".join(line.format(n=n) for n in numbers)


def test_bars():
    bar = "".join("\b" * 60 + "\r" * (n % 2) + f" {n}/300 [=>....] - ETA: 9:12 - loss: 0.4{n}" for n in range(40))
    assert named(bar) is None and named(bar + "\nKilled\n") == "FAIL002"
    with pytest.raises(Unread, match="not text"):
        named(bytes(range(8)) * 100)
    bars = "Epoch:  18%|##        | 280/1529 [07:35<22:03,  1.06s/it]\r" * 5
    assert named(f"{bars[:-1]}./fit.sh: line 33: 4711 Killed      python fit.py --epochs 3\n") == "FAIL002"
    assert named(f"{bars[:-1]}[rank0] saved\n") is None


def test_many_failures_that_the_training_goes_on_after():
    skipped = "".join(raised(OOM.format(n=10 * n) + " " + "x" * n) + steps(100 * n, 100 * n + 60) for n in range(1, 9))
    assert named(skipped) is None and named(skipped + raised(OOM.format(n=7))) == "MEM009"


def test_a_later_run_that_prints_its_settings_at_length():
    settings = looped('  "option_{n}": {n},\n', range(400))
    failed = raised(OOM.format(n=24))
    assert named(failed + settings + failed + settings + steps(0, 40)) is None
    assert named(failed + settings) == "MEM009"


SETTINGS = "".join(f"{name}: {name[::-1]}\n" for name in ("optimiser", "schedule", "corpus", "device", "folder"))
BEGUN = SETTINGS + "reading the corpus\n" + raised("KeyError: 'mask'")
THREAD = "Exception in thread Thread-1 (_produce):\n" + raised("AttributeError: no attribute r1c5")


def test_what_may_not_have_ended_the_job_is_probable(tmp_path):
    [sure] = found_in_log("FAIL001", tmp_path, BEGUN)
    [doubtful] = found_in_log("FAIL001", tmp_path, BEGUN + SETTINGS)
    [of_thread] = found_in_log("FAIL001", tmp_path, steps(0, 4) + THREAD)
    assert (sure.confidence, doubtful.confidence) == (Confidence.CONFIRMED, Confidence.PROBABLE)
    assert of_thread.confidence is Confidence.PROBABLE and "r1c5" in str(of_thread.message)
    assert "mask" in root_of(raised("KeyError: 'mask'") + THREAD).text


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


# Several programs in turn


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


# Other ranks
