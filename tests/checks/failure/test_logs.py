"""Checks of failures on logs."""

import pytest
from log_cases import STEPS, each_wording_is_found, found_in_log, silent_behind_another_exception

LAUNCHER = """E0321 02:07:08.123 11 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 3 (pid: 77) of binary: /opt/env/bin/python
[rank0]: RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:38272
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""


def test_sick_a_log_of_consequences_says_which_evidence_decides(tmp_path):
    [finding] = found_in_log("FAIL018", tmp_path, "step 7 loss 2.1\n" + LAUNCHER)
    assert finding.confidence.value == "suspected"
    assert "the rank that left first" in finding.message and "killed process" in finding.detail.needed


def test_healthy_the_cause_is_in_the_log(tmp_path):
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    go()\nZeroDivisionError: x\n\n'
    assert not found_in_log("FAIL018", tmp_path, text + LAUNCHER)


def test_healthy_a_training_that_goes_on(tmp_path):
    assert not found_in_log("FAIL018", tmp_path, "step 7 loss 2.1\n" + LAUNCHER + STEPS)


CODES = [*(f"FAIL{number:03}" for number in (*range(7, 18), 20)), "ENV015", "ENV017", "CFG010"]


@pytest.mark.parametrize("code", CODES)
def test_sick_each_wording_is_found(code, tmp_path):
    each_wording_is_found(code, tmp_path)


@pytest.mark.parametrize("code", CODES)
def test_healthy_another_exception_came_first(code, tmp_path):
    """Nor is anything found where the training goes on: tests/job_log/test_messages.py."""
    silent_behind_another_exception(code, tmp_path)


MAKE = "make: *** [train] Error 1\n"
SICK = [
    ("[2024-05-02 10:00:07] ERROR trainer: shard 7 of the index is not usable\n", 4),
    ("frobnicator: error: shard 7 holds no rows\n", 4),
    ("The frobnicator could not be started with these settings\n", 4),
    ('{"level": "error", "msg": "quota of frobnicators used up"}\n', 4),
    ("E1121 10:00:07.1 77 frob.cc:12] index is gone\nE1121 10:00:08.2 77 frob.cc:13] leaving\n", 4),
]


@pytest.mark.parametrize(("end", "line"), SICK)
def test_sick_a_log_that_ends_with_an_error_of_unknown_words(tmp_path, end, line):
    [finding] = found_in_log("FAIL019", tmp_path, "loading\nstep 1 loss 2.1\nstep 2 loss 2.0\n" + end)
    assert finding.confidence.value == "suspected" and finding.severity.value == "warning"
    assert finding.evidence[0].line == line


def test_sick_before_what_follows_from_it(tmp_path):
    text = "loading\nfatal: the frobnicator did not start\n" + MAKE
    [finding] = found_in_log("FAIL019", tmp_path, text)
    assert finding.severity.value == "error" and finding.evidence[0].line == 2
    assert not found_in_log("FAIL018", tmp_path, text)


@pytest.mark.parametrize(
    "end", ["step 3 loss 1.9\n", "saving the model\nuploading it\ncleaning up\ngoodbye\n", "Training finished.\n"]
)
def test_healthy_what_follows_shows_that_it_went_on(tmp_path, end):
    text = "step 1 loss 2.1\nstep 2 loss 2.0\nERROR trainer: one shard is not usable\n"
    assert not found_in_log("FAIL019", tmp_path, text + end)


@pytest.mark.parametrize(
    "line",
    [
        "mean absolute error: 0.031",
        "WARNING the cache could not be written",
        "ERROR could not reach the tracker, retrying in 5 s",
        "Error rate 0.02",
        "fatal: not a git repository (or any of the parent directories): .git",
        "could not find a cache; falling back to the slow path",
    ],
)
def test_healthy_lines_that_are_no_error_of_the_job(tmp_path, line):
    assert not found_in_log("FAIL019", tmp_path, f"step 1 loss 2.1\nstep 2 loss 2.0\n{line}\n")


def test_sick_a_traceback_that_the_end_of_the_log_cuts(tmp_path):
    text = 'step 1 loss 2.1\nTraceback (most recent call last):\n  File "a.py", line 3, in f\n    go()\n'
    [finding] = found_in_log("FAIL019", tmp_path, text + '  File "b.py", line 7, in go\n    return bag[3]\n')
    assert finding.evidence[0].line == 5 and "b.py" in finding.message and "before its exception" in finding.message


FRAME = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    go()\n'


@pytest.mark.parametrize(
    "text",
    [
        f"{STEPS}{FRAME}ZeroDivisionError: x\nERROR trainer: the job ends\n",  # the cause has known words
        FRAME + STEPS,  # frames of a dump before the next steps
        "loading\nERROR frob: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n",
    ],
)
def test_healthy_known_words_and_dumps(tmp_path, text):
    assert not found_in_log("FAIL019", tmp_path, text)
