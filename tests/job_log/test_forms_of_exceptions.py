"""Forms in which a program prints the exception that ended it, and the same after which it goes on."""

import json

import pytest
from log_causes import named, raised, root_of

READS = "".join(f"reading shard {word}\n" for word in ("one", "two", "three", "four", "five", "six", "seven"))
SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"


def field(level, failure):
    return json.dumps({"level": level, "event": "part 3 failed", "exception": raised(failure).strip()}) + "\n"


@pytest.mark.parametrize(("failure", "code"), [(SHAPES, "FAIL013"), ("KeyError: 'mask'", "FAIL001")])
def test_a_traceback_in_a_field_of_json(tmp_path, failure, code):
    line, informs = json.dumps({"level": "info", "event": "part 1"}) + "\n", '{"level": "info"}\n' * 9
    assert named(tmp_path, line + field("error", failure)) == code
    assert failure in root_of(tmp_path, line + field("error", failure)).text
    assert named(tmp_path, field("warning", failure) + informs) is None
    assert named(tmp_path, field("error", failure) + informs) is None


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'a.txt'", "FAIL016"),
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "FAIL013"),
        ("AttributeError", "'NoneType' object has no attribute 'status'", "FAIL001"),
    ],
)
def test_a_message_in_the_line_behind_its_exception(tmp_path, name, message, code):
    short = f"fit.py 46 look\nopen(name)\n\n{name}:\n{message}\n"
    assert named(tmp_path, READS + short) == code
    assert named(tmp_path, READS + short.replace(f"{name}:", "look:")) != "FAIL001"


@pytest.mark.parametrize("line", ["[2025-01-01 10:00:00,000][build][ERROR] - ", "2025-01-01 10:00:00 ERROR "])
def test_the_last_word_of_a_logger(tmp_path, line):
    said = f"{line}the fit failed: {SHAPES.partition(': ')[2]}\n"
    assert named(tmp_path, READS + said) == "FAIL013"
    assert named(tmp_path, READS + said + READS) is None
    assert named(tmp_path, READS + f"{line}the plot is empty\n") is None


def test_an_error_that_hydra_names_in_one_line(tmp_path):
    said = "Error executing job with overrides: []\nError instantiating 'data.Birds' : [Errno 2] No such file or directory: 'a'\n"
    assert named(tmp_path, READS + said + "full_key: data\n\nSet the variable HYDRA_FULL_ERROR=1\n") == "FAIL016"
    assert named(tmp_path, READS + said + READS + READS) is None


def test_a_loose_exception_of_a_request(tmp_path):
    request = "[2025-01-01 10:00:00,000] ERROR in app: Exception on /draw [GET]\n"
    assert named(tmp_path, request + "ValueError: no such picture\n") in (None, "FAIL018")
    assert named(tmp_path, "reading\n" + "ValueError: no such picture\n") == "FAIL001"
