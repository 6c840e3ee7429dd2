"""Makes the files of a new check and its tests, and adds its advice to the table and its name to the catalogue.

    make new-check CODE=GPU013 NAME=fan-stopped KIND=machine
    python checks/new_check.py GPU013 fan-stopped --kind machine

KIND is where the ailment shows: `machine` (GPUs, host, environment), `source` (a training script) or `recording`
(a run). Each comes with an example that works and whose tests pass; replace it. What is in parentheses
is for you to write: `tests/test_catalogue.py` fails while it is there. `checks/README.md` has a walk for each kind.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import topic_of

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("machine", "source", "recording")
_END = '}  # fmt: skip\n"""The contract with users\' settings'
"""Where the names in tests/test_catalogue.py end."""

_PAGE = '''    """{title}.

    What it finds:
        {finds}
    Why it hurts:
        (What the user loses: time, memory, a right result. Say how much, with the source.)
    How it knows:
        {knows}
    False alarms:
        (What resembles it and is healthy, and why this check is silent there. Write a test for each.)
    Remedies:
        (What helps, in the order of its worth. The rule prints them with this machine's numbers.)
    References:
        - (The page of the library, the driver or the paper that says so.)
    """

    code = Code("{code}")
    name = "{name}"
    reads = frozenset({{Reads.{reads}}})
    severity = Severity.WARNING
    thresholds = (
{threshold}
    )
'''
_THRESHOLD = """        Threshold(
            name="{limit}",
            default={default},
            unit="{unit}",
            source="(who says so: a page, a paper, a measurement of ours)",
            meaning="{meaning}",
        ),"""
_SHARE = """        *Threshold.note_and_warning(
            "(Saves) that take this share of a recorded run are",
            noted=0.05,
            warned=0.1,
            source="(who says so: a page, a paper, a measurement of ours)",
        ),"""

_CHECK = {
    "machine": '''"""{code} {name}."""

from collections.abc import Iterator

from gpudoctor.model import Check, Code, Confidence, Finding, Measurement, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.gpu import answering


class {klass}(Check):
{page}
    def examine(self, patient: Patient) -> Iterator[Finding]:
        # `answering` leaves out cards that do not report the value; without a driver the check is skipped.
        for gpu, limit in answering(patient.gpus, lambda gpu: gpu.power_limit):
            if limit < self.limit("watts"):
                yield self.finding(
                    f"GPU {{gpu.index}} may draw {{limit:.0f}} W.",
                    evidence=(
                        Measurement(
                            name=f"gpu{{gpu.index}}_power_limit",
                            value=limit,
                            unit="W",
                            reproduce=f"nvidia-smi -i {{gpu.index}} --query-gpu=power.limit --format=csv",
                        ),
                    ),
                    confidence=Confidence.CONFIRMED,
                    subject=f"GPU {{gpu.index}}",
                )
''',
    "source": '''"""{code} {name}."""

from collections.abc import Iterator

from gpudoctor.analysis.source.call_frequency import calls_in_training, often
from gpudoctor.model import Check, Code, Confidence, Finding, Patient, Reads, Severity, Threshold

_CALLS = frozenset({{"torch.cuda.ipc_collect"}})
"""Full names, whatever they are imported as."""


class {klass}(Check):
{page}
    def examine(self, patient: Patient) -> Iterator[Finding]:
        # The calls of each training loop, in the order of a pass, through the functions that it calls. Code that
        # no training loop reaches is not among them, nor a call whose period is not known.
        for calls in calls_in_training(
            patient.source, lambda item: item.call.name in _CALLS, every=self.limit("steps"), distinct=True
        ):
            for item in calls:
                yield self.finding(
                    f"{{item.call.name}}() runs {{often(item.period)}}.",
                    evidence=(item.event.span,),
                    confidence=Confidence.SUSPECTED,
                    subject=f"{{item.event.span.path}}:{{item.event.span.line}}",
                )
''',
    "recording": '''"""{code} {name}."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Threshold


class {klass}(Check):
{page}
    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)  # the steady steps; too few of them skip the check with that reason
        seen = of_run.price(patient, run, wanted=lambda site: site.what == "torch.save")
        severity = seen.level(self)  # by share_noted and share_warned
        if severity is not None:
            yield seen.finding(
                self,
                f"{{seen.what}} takes {{seen.words}}{{seen.of_a_step}}{{seen.where}}.",
                name="save_share",
                severity=severity,
            )
''',
}

_WORDS = {
    "machine": {
        "finds": "(A GPU, a limit, a package of this machine; from which value on.)",
        "knows": "(Which reading of the driver or the system; which cards and systems do not have it.)",
        "reads": "ENVIRONMENT", "limit": "watts", "default": "200.0", "unit": "W",
        "meaning": "A lower power limit is a finding.",
    },
    "source": {
        "finds": "(Which call, keyword or order of statements in a training loop; how often.)",
        "knows": "(From the source alone: what it cannot see.)",
        "reads": "SOURCE", "limit": "steps", "default": "10.0", "unit": "{{steps}}",
        "meaning": "A call more often than once in this many steps is a finding.",
    },
    "recording": {
        "finds": "(What a run has measured; from which share of a step on.)",
        "knows": "(From a recording: which hooks and columns; what it needs to be seen.)",
        "reads": "RECORDING", "limit": "", "default": "", "unit": "", "meaning": "",
    },
}  # fmt: skip

_ROW = """
[[{code}-remove]]
title = "(begin with a verb: remove, set, move)"
steps = ["(the command or the line to paste)"]
"""
"""The row that is added to the topic's advice."""

_TEST = {
    "machine": """from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.{folder}.{module} import {klass}
from gpudoctor_rules.advice import advice


def test_sick_one_of_two_cards():
    patient = make_patient(gpus=[make_gpu(0, power_limit=150.0), make_gpu(1, power_limit=700.0)])
    [finding] = examine({klass}, patient)
    assert finding.subject == "GPU 0" and "150 W" in finding.message
    [remedy] = prescribe(advice("{folder}"), finding, patient)
    assert remedy.steps


def test_healthy_near_the_threshold():
    assert examine({klass}, make_patient(gpus=[make_gpu(power_limit=200.0)])) == []
""",
    "source": '''from scripts import script_patient

from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.{folder}.{module} import {klass}
from gpudoctor_rules.advice import advice

LOOP = """
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x, y) in enumerate(DataLoader(dataset, batch_size=32)):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    LINE
"""


def look(line):
    return examine({klass}, script_patient(LOOP.replace("LINE", line)))


def test_sick_in_each_step():
    [finding] = look("torch.cuda.ipc_collect()")
    assert finding.span.line == 13
    [remedy] = prescribe(advice("{folder}"), finding, script_patient(LOOP))
    assert remedy.steps


def test_healthy_at_a_long_period():
    assert look("if step % 100 == 0: torch.cuda.ipc_collect()") == []


def test_healthy_without_it():
    assert look("pass") == []
''',
    "recording": '''from recordings import make_process, make_recording, make_steps, site

from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.{folder}.{module} import {klass}
from gpudoctor_rules.advice import advice


def look(seconds):
    """The findings on 200 steps of 10 ms in which so many seconds go to torch.save altogether."""
    steps = make_steps(200, other=seconds / 200)
    calls = site("other", "torch.save", seconds, 200)
    return examine({klass}, make_patient(recording=make_recording(make_process(steps, records=[calls]))))


def test_sick_in_each_step():
    [finding] = look(0.5)
    assert finding.message.startswith("torch.save takes")
    [remedy] = prescribe(advice("{folder}"), finding, make_patient(recording=make_recording()))
    assert remedy.steps


def test_healthy_below_the_threshold():
    assert look(0.01) == []
''',
}


def folders() -> dict[str, str]:
    """Topic to the folder of its checks."""
    ours = [check for check in load_registry().checks.values() if check.__module__.startswith("gpudoctor_checks.")]
    return {topic_of(check.code): check.__module__.split(".")[1] for check in ours}


def texts(code: str, name: str, kind: str, folder: str) -> dict[Path, str]:
    """The new files and what they hold."""
    module = name.replace("-", "_")
    words = {
        "code": code, "name": name, "folder": folder, "module": module,
        "klass": "".join(part.capitalize() for part in name.split("-")),
    }  # fmt: skip
    title = "(The ailment in one sentence, as the user would say it)"
    threshold = (_SHARE if kind == "recording" else _THRESHOLD).format(**_WORDS[kind])
    words["page"] = _PAGE.format(title=title, threshold=threshold, **words, **_WORDS[kind])
    return {
        ROOT / "checks/gpudoctor_checks" / folder / f"{module}.py": _CHECK[kind].format(**words),
        ROOT / "tests/checks" / folder / f"test_{module}.py": _TEST[kind].format(**words),
    }


def problem(code: str, name: str, catalogue: str, paths: list[Path]) -> str:
    """Why no check of this code and name can be made; "" where one can."""
    if not paths or not re.fullmatch(r"[A-Z]+\d{3}", code):
        return f"{code}: a code is one of {', '.join(sorted(folders()))} and three digits, such as GPU013"
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        return f"{name}: a name is in kebab case, such as fan-stopped"
    if f'"{code}"' in catalogue:
        return f"{code} exists; codes are never reused. Take the topic's next free number"
    if f'"{name}"' in catalogue:
        return f"{name} exists"
    there = [str(path.relative_to(ROOT)) for path in paths if path.exists()]
    return f"{', '.join(there)}: already there" if there else ""


def main() -> int:
    """Write the files, make the pages, run the tests of the new check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("code", help="a topic and the next free number: GPU013")
    parser.add_argument("name", help="the ailment in kebab case: fan-stopped")
    parser.add_argument("--kind", choices=KINDS, default="source", help="where it shows (default: source)")
    arguments = parser.parse_args()
    path = ROOT / "tests" / "test_catalogue.py"
    catalogue = path.read_text(encoding="utf-8")
    folder = folders().get(arguments.code.rstrip("0123456789"))
    new = texts(arguments.code, arguments.name, arguments.kind, folder) if folder is not None else {}
    wrong = problem(arguments.code, arguments.name, catalogue, list(new))
    if wrong:
        print(f"new-check: {wrong}", file=sys.stderr)
        return 2
    for file, text in new.items():
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}")
    table = ROOT / "rules/gpudoctor_rules" / f"{folder}.toml"
    with table.open("a", encoding="utf-8") as stream:
        stream.write(_ROW.format(code=arguments.code))
    path.write_text(catalogue.replace(_END, f'    "{arguments.code}": "{arguments.name}",\n{_END}', 1), "utf-8")
    print(f"added a row to {table.relative_to(ROOT)}, and the name to {path.relative_to(ROOT)}")
    subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py")], check=True)
    test = next(file for file in new if "test_" in file.name)
    os.environ["GPUDOCTOR_UPDATE_WORDS"] = "1"  # what the example says joins said.txt
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", str(test)], check=False)
    print("next: replace the example, write what is in parentheses, then `make words docs quick`")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
