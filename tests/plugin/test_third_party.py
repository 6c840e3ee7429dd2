"""A third-party package that adds a check and a rule: built, installed, found, run; and broken ones."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import command
import pytest

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "acme-gpudoctor"
version = "1.0"
dependencies = ["gpudoctor"]
[project.entry-points."gpudoctor.checks"]
acme = "acme_gpudoctor:checks"
[project.entry-points."gpudoctor.rules"]
acme = "acme_gpudoctor:rules"
[tool.hatch.build.targets.wheel]
packages = ["acme_gpudoctor"]
"""

MODULE = '''
"""ACME's house rules."""
from gpudoctor.model import (
    Applicability, Check, Code, Confidence, Effort, Reads, Remedy, Rule, Severity,
)

class Banned(Check):
    """The job runs in a folder that ACME wipes at night."""

    code = Code("ACME001")
    name = "wiped-folder"
    reads = frozenset({Reads.ENVIRONMENT})
    severity = Severity.ERROR

    def examine(self, patient):
        if patient.environment.get("ACME_FOLDER") == "/wiped":
            yield self.finding(
                "The job writes to /wiped.",
                evidence=(patient.environment.evidence("ACME_FOLDER"),),
                confidence=Confidence.CONFIRMED,
            )

class Move(Rule):
    """Answers ACME001."""

    answers = Code("ACME001")

    def prescribe(self, finding, patient):
        yield Remedy(
            id="ACME001-move", title="write to /kept", steps=("export ACME_FOLDER=/kept",),
            applicability=Applicability.SAFE, effort=Effort.SETTING,
        )

def checks():
    return [Banned]

def rules():
    return [Move]
'''


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The package, built with its real build backend."""
    source = tmp_path_factory.mktemp("source")
    (source / "acme_gpudoctor").mkdir()
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "acme_gpudoctor" / "__init__.py").write_text(MODULE)
    build = "from hatchling.build import build_wheel; print(build_wheel('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=True, timeout=60
    )
    return source / "dist" / done.stdout.split()[-1]


def install(wheel: Path, site: Path, module: str) -> Path:
    """Lay the wheel out as an installer would; with another module in it, as if it had been built from that."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    (site / "acme_gpudoctor" / "__init__.py").write_text(module)
    return site


def gpudoctor(site: Path, *words: str, start: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run with what is installed there."""
    return command.gpudoctor(*words, cwd=site, start=start, path=[str(site)], **variables)


@pytest.fixture
def acme(wheel, tmp_path):
    return install(wheel, tmp_path / "site", MODULE)


@pytest.mark.slow
def test_its_check_and_rule_work_like_ours(acme):
    sick = gpudoctor(acme, "check", "--format", "json", "--select", "ACME", start=True, ACME_FOLDER="/wiped")
    assert sick.returncode == 1, sick.stderr
    report = json.loads(sick.stdout)
    (finding,) = report["findings"]
    assert (finding["code"], finding["remedies"][0]["id"]) == ("ACME001", "ACME001-move")
    well = gpudoctor(acme, "check", "--select", "wiped-folder", ACME_FOLDER="/kept")
    assert well.returncode == 0, well.stderr


def test_it_is_listed_and_explained(acme):
    assert "wiped-folder" in gpudoctor(acme, "list").stdout
    explained = gpudoctor(acme, "explain", "ACME001")
    assert "ACME wipes at night" in explained.stdout


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise RuntimeError('no licence')", "could not be loaded: RuntimeError: no licence"),
        ("def checks(): return [int]\ndef rules(): return []", "which is not a Check class"),
        ("def checks(): return 3\ndef rules(): return []", "could not be loaded: TypeError"),
        (MODULE.replace('Code("ACME001")', 'Code("ENV001")'), "no code of its own"),
        (MODULE.replace('answers = Code("ACME001")', 'answers = Code("ACME009")'), "which no check has"),
    ],
)
def test_a_broken_plugin_is_a_sentence_and_the_rest_goes_on(wheel, tmp_path, module, said):
    site = install(wheel, tmp_path / "site", module)
    done = gpudoctor(site, "check", "--format", "json", "--verbose", "--select", "ENV010")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert any("acme-gpudoctor" in problem and said in problem for problem in report["problems"]), report["problems"]
    assert [item["outcome"] for item in report["outcomes"] if item["code"] == "ENV010"] == ["passed"]
