"""Messages of logs from TOML: a plugin's file, what is wrong with one, the cues, and who does not read them."""

import pytest

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.engine.registry import Registry
from gpudoctor.model import Bearing, Code, Confidence, LogMessage
from gpudoctor.model.message_files import read_messages
from gpudoctor.vitals.job_log import read_job_log

ROWS = """
[macros]
CARD = '(?:GPU|NPU) ?\\d{1,2}'

[[ACME001]]  # the library that says it
kind = "gone"
match = ['{CARD} left the building', '''{EXITED}77\\b|the (?P<who>janitor|
    porter) took it''']
say = "A card is gone[: the {who} has it]."
as = "symptom probable everywhere"
cue = ["exit", "code"]
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    def made(name, rows):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "log_messages.toml").write_text(rows, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        return name

    return made


class Gone(LogCheck):
    """A card is gone."""

    code = Code("ACME001")
    name = "gone"
    log_messages = (LogMessage(kind="python", pattern="written in Python, too", text="In Python."),)
    log_messages_file = "log_messages.toml"


def test_a_plugin_lists_messages_in_python_and_in_a_file(package, monkeypatch, tmp_path):
    monkeypatch.setattr(Gone, "__module__", package("acme_checks", ROWS) + ".gone")
    registry = Registry(checks={Gone.code: Gone}, rules={})
    [(_, first), (_, second)] = registry.log_messages()
    assert (first.kind, second.kind) == ("python", "gone")
    assert (second.bearing, second.confidence, second.everywhere) == (Bearing.SYMPTOM, Confidence.PROBABLE, True)
    (tmp_path / "job.out").write_text("the porter took it\n", encoding="utf-8")
    [event] = read_job_log([str(tmp_path / "job.out")], registry.log_messages()).events
    assert (event.code, event.kind, event.values) == ("ACME001", "gone", (("who", "porter"),))


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ('[[X1]]\nkind = "a"\nmatch = "gone away"\nas = "loud"', "loud"),
        ('[[X1]]\nkind = "a"\nmatch = "{NOTHING} went away"', "NOTHING"),
    ],
)
def test_a_file_that_is_wrong_says_where(package, rows, wrong):
    name = package(f"wrong_{wrong.lower()}", rows)
    with pytest.raises(ValueError, match=rf"wrong_.*log_messages\.toml: X1: .*{wrong}"):
        read_messages(name, "log_messages.toml")
