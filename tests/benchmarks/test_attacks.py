"""The attacks on the masker and on the expressions, as far as they are quick; and that they can find a fault."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def attack(monkeypatch):
    """Imports modules of the attacks by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield lambda name: importlib.import_module(f"attack.{name}")
    for name in [name for name in sys.modules if name == "attack" or name.startswith("attack.")]:
        del sys.modules[name]


def broken(attempts):
    return [f"{attempt.name}: {attempt.broken}" for attempt in attempts if attempt.broken is not None]


@pytest.mark.parametrize("seed", [1, 20261122])
def test_no_secret_is_missed_and_nothing_harmless_is_masked(attack, tmp_path, seed):
    tried = list(attack("secrets").attempts(seed, tmp_path))
    groups = [attempt.group for attempt in tried]
    assert groups.count("secrets in arguments and texts") >= 1128
    assert groups.count("false masks of harmless arguments") >= 300
    assert broken(tried) == []


def test_a_secret_that_is_left_counts_as_broken(attack):
    secrets = attack("secrets")
    assert secrets.leaves("the key is abcdefgh12 here", "abcdefgh12") == "abcdefg"
    assert secrets.leaves("the key is *** here", "abcdefgh12") is None


def test_every_expression_is_linear_for_the_first_strings_that_attack_it(attack):
    expressions = attack("expressions")
    found = expressions.collect()
    assert len(found) > 700
    assert "FAIL002 sigkill" in {item.place for item in found}  # wordings of log messages
    suspects = [item for item in found if expressions.broken(item, 3)]
    again = [item for item in suspects if all(expressions.broken(item, 3) for _ in range(2))]  # a busy machine
    assert [(item.place, item.pattern) for item in again] == []


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"a+b", r"(?:\.{1,2}/+|[^\s]+/+)+x", r"\s*:\s*\n?\s*x", r"(\w+\s?)*:$"])
def test_the_audit_finds_expressions_that_are_worse_than_linear(attack, pattern):
    expressions = attack("expressions")
    expressions.LIMIT = 0.3
    written = expressions.Written("a test", pattern)
    assert any(expressions.broken(written, 20) for _ in range(3))  # a busy machine hides a growth once


def test_the_audit_reads_how_an_expression_is_used(attack, tmp_path):
    expressions = attack("expressions")
    expressions.ROOT = tmp_path
    module = tmp_path / "module.py"
    module.write_text(
        "import re\n"
        "_START: object = re.compile(r'a+b')\n"
        "_ELSEWHERE = re.compile('c', re.IGNORECASE)\n"
        "def f(text, name):\n"
        "    call(_ELSEWHERE)\n"
        "    return _START.match(text), re.search(rf'x{name}+', text)\n"
    )
    written = {item.pattern: item for item in expressions._of_module(module)}
    assert written["a+b"].anchored and not written["c"].anchored and written["c"].flags == 2
    assert not written["xword+"].anchored
