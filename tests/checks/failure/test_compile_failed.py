from log_cases import STEPS, found_in_log
from log_samples import SAMPLES

CODE = "FAIL017"
TEXTS = [text for (code, _), text in SAMPLES.items() if code == CODE]


def test_sick_each_wording_is_found(tmp_path):
    for text in TEXTS:
        [finding] = found_in_log(CODE, tmp_path, f"step 7 loss 2.1\n{text}\n")
        assert finding.code == CODE and finding.cost.breaks
        assert finding.evidence[0].line in (2, 3)


def test_healthy_the_training_goes_on(tmp_path):
    for text in TEXTS:
        assert not found_in_log(CODE, tmp_path, f"step 7 loss 2.1\n{text}\n{STEPS}")


def test_healthy_another_exception_came_first(tmp_path):
    before = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    go()\nZeroDivisionError: division by zero\n\n'
    for text in TEXTS:
        assert not found_in_log(CODE, tmp_path, before + STEPS[:0] + text + "\n") or "UserWarning" in text
