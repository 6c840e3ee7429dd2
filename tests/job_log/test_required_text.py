"""What a pattern requires is in every text that it matches."""

import re

import pytest

from gpudoctor.vitals.job_log.required_text import NOTHING_REQUIRED, required_text

REQUIRED = {
    "Killed": {("Killed",)},
    "exit ?code:? 9|SIG(?:KILL|TERM)": {("code", "exit"), ("KILL", "SIG"), ("SIG", "TERM")},
    "(?i)Out of Memory": {("out of memory",)},
    r"loss:? (?:is )?\[?nan\b": {("loss", "nan")},
    "ab+c{0,2}de{2}f(gh)?": {("ab", "de")},
    r"Xid \(PCI:[^)]+\): \d+": {("): ", "Xid (PCI:")},
}


@pytest.mark.parametrize(("pattern", "branches"), REQUIRED.items())
def test_the_literals_of_each_alternative(pattern, branches):
    assert {tuple(sorted(branch)) for branch in required_text(pattern).branches} == branches


@pytest.mark.parametrize("pattern", [r"\d+", "a|b.*", "", r"(?P<a>x)(?P=a)", r"\x41BC", "abc|(?:d|ef)?", "[abc"])
def test_nothing_is_required_where_nothing_is_certain(pattern):
    assert required_text(pattern) == NOTHING_REQUIRED


@pytest.mark.parametrize("text", ["job 7 Killed", "exit code 9", "exitcode: 9", "a SIGTERM", "nothing"])
def test_a_text_that_matches_is_never_refused(text):
    for pattern in REQUIRED:
        required = required_text(pattern)
        data = text.encode()
        assert not re.search(pattern, text) or required.may_match(text)
        assert required.may_match(text) == required.may_match_bytes(data, data.lower())
