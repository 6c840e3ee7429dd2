"""The checks that consist of the messages which a log has."""

import pytest
from log_cases import each_wording_is_found, silent_behind_another_exception

CODES = [*(f"FAIL{number:03}" for number in (*range(7, 18), 20)), "ENV015", "ENV017", "CFG010"]


@pytest.mark.parametrize("code", CODES)
def test_sick_each_wording_is_found(code, tmp_path):
    each_wording_is_found(code, tmp_path)


@pytest.mark.parametrize("code", CODES)
def test_healthy_another_exception_came_first(code, tmp_path):
    """Nor is anything found where the training goes on: tests/job_log/test_messages.py."""
    silent_behind_another_exception(code, tmp_path)
