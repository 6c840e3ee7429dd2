from log_cases import STEPS, found_in_log

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
