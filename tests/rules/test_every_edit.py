"""Every rule that carries edits, on sick cases of its code: the result parses, the finding is gone, once is enough.

Of each code so many cases, spread over all there are; the tests of the checks mend the others.
"""

import contextlib
import functools
import inspect
import io
import json
import os
import re
import shutil
from collections import Counter
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest
from mending import fixed_machine, known_plugins

from gpudoctor.cli import main
from gpudoctor.engine.registry import load_registry
from gpudoctor.model.signs.packages import Packages
from gpudoctor.vitals.packages import read_packages

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENTS = ROOT / "tests" / "patients"
REGISTRY = load_registry()
SIMPLE = {".py", ".json", ".yaml", ".yml", ".toml"}
CASES_OF_ONE = 1


def makes_edits(function) -> bool:
    """Whether the source of a function, or of one of its module that it calls, makes an edit."""
    called = [function.__globals__.get(name) for name in function.__code__.co_names]
    near = [item for item in called if inspect.isfunction(item) and item.__module__ == function.__module__]
    return "edits=" in inspect.getsource(function) or any(makes_edits(item) for item in near if item is not function)


@functools.cache
def with_edits() -> list[str]:
    """Codes whose function makes an edit."""
    homes = {rule.home for rules in REGISTRY.rules.values() for rule in rules if not rule.reads_logs}
    marked = [item for home in homes for item in vars(import_module(home)).values() if hasattr(item, "answers")]
    return sorted({str(code) for item in marked if makes_edits(item) for code in item.answers})


def sick_cases() -> list[tuple[str, Path]]:
    cases = []
    for kind in ("source", "configs"):
        for folder in sorted((PATIENTS / kind).glob("*")):
            found = [path for path in sorted(folder.glob("sick*")) if path.suffix in SIMPLE]
            spread = found[:: -(-len(found) // CASES_OF_ONE) or 1]
            cases += [(folder.name, path) for path in spread]
    codes = set(with_edits())
    return [(code, path) for code, path in cases if code in codes]


def check(name: str, code: str, *flags: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(["check", name, "--select", code, "--fail-on", "never", "--quiet", *flags])
    return out.getvalue(), err.getvalue()


def said_of(name: str, code: str) -> Counter[str]:
    """What is said, without its numbers (a line inserted above moves them), and how often."""
    report = json.loads(check(name, code, "--format", "json")[0])
    return Counter(re.sub(r"\d+", "#", item["message"]) for item in report["findings"] if item["code"] == code)


def test_at_least_20_codes_have_an_edit():
    assert len(with_edits()) >= 20, with_edits()


@pytest.fixture
def inside(tmp_path):
    """A scratch folder on a fixed machine, whose plugins and packages are read once for all cases."""
    before = os.getcwd()
    os.chdir(tmp_path)
    with fixed_machine(), known_plugins(), patch("gpudoctor.vitals.packages.read_packages", installed):
        yield tmp_path
    os.chdir(before)


@functools.cache
def _installed() -> Packages:
    return read_packages()


def installed(*_: object) -> Packages:
    return _installed()


@pytest.mark.parametrize(("code", "path"), sick_cases(), ids=lambda item: item.name if isinstance(item, Path) else item)
def test_the_edit_cures(code, path, inside):
    for other in path.parent.iterdir():  # modules and configs beside it
        if other.is_file():
            shutil.copy(other, inside / other.name)
    name = path.name
    before = said_of(name, code)
    _, said = check(name, code, "--fix", "--unsafe")
    after_text = (inside / name).read_bytes()
    applied = [line for line in said.splitlines() if "gpudoctor: fixed" in line]
    if not applied:
        assert after_text == path.read_bytes()
        return
    if path.suffix == ".py":
        compile(after_text, name, "exec")
    after = said_of(name, code)
    # A cured ailment may uncover a smaller one of the same code; what was said before must be gone.
    assert before - after, f"{code} is still found after its own edit"
    files = sorted(item.name for item in inside.iterdir())
    for _ in range(4):  # edits that met another one are for the next run
        text = (inside / name).read_bytes()
        _, said = check(name, code, "--fix", "--unsafe")
        if "gpudoctor: fixed" not in said:
            break
    assert (inside / name).read_bytes() == text, "a settled file changes no more"
    assert sorted(item.name for item in inside.iterdir()) == files
