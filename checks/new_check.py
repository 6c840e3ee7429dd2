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

_CHECK = '''"""{code} {name}."""

from collections.abc import Iterator

{imports}

class {klass}(Check):
    """(The ailment in one sentence, as the user would say it).

    What it finds:
        (Which value, call or part of a run; from which limit on.)
    Why it hurts:
        (What the user loses: time, memory, a right result. Say how much, with the source.)
    How it knows:
        (Which reading, source or hook; what it cannot see.)
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

    def examine(self, patient: Patient) -> Iterator[Finding]:
{body}'''
_SOURCE = '            source="(who says so: a page, a paper, a measurement of ours)",'
_PARTS = {
    "machine": {
        "reads": "ENVIRONMENT",
        "imports": """from gpudoctor.model import Check, Code, Confidence, Finding, Measurement, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.gpu import answering
""",
        "threshold": f"""        Threshold(
            name="watts",
            default=200.0,
            unit="W",
{_SOURCE}
            meaning="A lower power limit is a finding.",
        ),""",
        "body": """        # `answering` leaves out cards that do not report the value; without a driver the check is skipped.
        for gpu, limit in answering(patient.gpus, lambda gpu: gpu.power_limit):
            if limit < self.limit("watts"):
                yield self.finding(
                    f"GPU {gpu.index} may draw {limit:.0f} W.",
                    evidence=(
                        Measurement(
                            name=f"gpu{gpu.index}_power_limit",
                            value=limit,
                            unit="W",
                            reproduce=f"nvidia-smi -i {gpu.index} --query-gpu=power.limit --format=csv",
                        ),
                    ),
                    confidence=Confidence.CONFIRMED,
                    subject=f"GPU {gpu.index}",
                )
""",
        "helpers": "from gpudoctor.testing import examine, make_gpu, make_patient, prescribe\n",
        "test": """
def test_sick_one_of_two_cards():
    patient = make_patient(gpus=[make_gpu(0, power_limit=150.0), make_gpu(1, power_limit=700.0)])
    [finding] = examine(KLASS, patient)
    assert finding.subject == "GPU 0" and "150 W" in finding.message
    assert prescribe(advice("FOLDER"), finding, patient)


def test_healthy_near_the_threshold():
    assert examine(KLASS, make_patient(gpus=[make_gpu(power_limit=200.0)])) == []
""",
    },
    "source": {
        "reads": "SOURCE",
        "imports": '''from gpudoctor.analysis.source.call_frequency import calls_in_training, often
from gpudoctor.model import Check, Code, Confidence, Finding, Patient, Reads, Severity, Threshold

_CALLS = frozenset({"torch.cuda.ipc_collect"})
"""Full names, whatever they are imported as."""
''',
        "threshold": f"""        Threshold(
            name="steps",
            default=10.0,
            unit="{{steps}}",
{_SOURCE}
            meaning="A call more often than once in this many steps is a finding.",
        ),""",
        "body": """        # The calls of each training loop, in the order of a pass, through the functions that it calls. Code that
        # no training loop reaches is not among them, nor a call whose period is not known.
        for calls in calls_in_training(
            patient.source, lambda item: item.call.name in _CALLS, every=self.limit("steps"), distinct=True
        ):
            for item in calls:
                yield self.finding(
                    f"{item.call.name}() runs {often(item.period)}.",
                    evidence=(item.event.span,),
                    confidence=Confidence.SUSPECTED,
                    subject=f"{item.event.span.path}:{item.event.span.line}",
                )
""",
        "helpers": "from scripts import script_patient\n\nfrom gpudoctor.testing import examine, prescribe\n",
        "test": '''
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
    return examine(KLASS, script_patient(LOOP.replace("LINE", line)))


def test_sick_in_each_step():
    [finding] = look("torch.cuda.ipc_collect()")
    assert finding.span.line == 13
    assert prescribe(advice("FOLDER"), finding, script_patient(LOOP))


def test_healthy_at_a_long_period():
    assert look("if step % 100 == 0: torch.cuda.ipc_collect()") == []
''',
    },
    "recording": {
        "reads": "RECORDING",
        "imports": """from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Threshold
""",
        "threshold": f"""        *Threshold.note_and_warning(
            "(Saves) that take this share of a recorded run are",
            noted=0.05,
            warned=0.1,
{_SOURCE}
        ),""",
        "body": """        run = demanded(patient)  # the steady steps; too few of them skip the check with that reason
        seen = of_run.price(patient, run, wanted=lambda site: site.what == "torch.save")
        severity = seen.level(self)  # by share_noted and share_warned
        if severity is not None:
            yield seen.finding(
                self,
                f"{seen.what} takes {seen.words}{seen.of_a_step}{seen.where}.",
                name="save_share",
                severity=severity,
            )
""",
        "helpers": """from recordings import make_process, make_recording, make_steps, site

from gpudoctor.testing import examine, make_patient, prescribe
""",
        "test": '''
def look(seconds):
    """The findings on 200 steps of 10 ms in which so many seconds go to torch.save altogether."""
    steps = make_steps(200, other=seconds / 200)
    calls = site("other", "torch.save", seconds, 200)
    return examine(KLASS, make_patient(recording=make_recording(make_process(steps, records=[calls]))))


def test_sick_in_each_step():
    [finding] = look(0.5)
    assert finding.message.startswith("torch.save takes")
    assert prescribe(advice("FOLDER"), finding, make_patient(recording=make_recording()))


def test_healthy_below_the_threshold():
    assert look(0.01) == []
''',
    },
}
_ROW = '\n[[{code}-remove]]\ntitle = "(begin with a verb: remove, set, move)"\nsteps = ["(the command or the line to paste)"]\n'
"""The row that is added to the topic's advice."""


def folders() -> dict[str, str]:
    """Topic to the folder of its checks."""
    ours = [check for check in load_registry().checks.values() if check.__module__.startswith("gpudoctor_checks.")]
    return {topic_of(check.code): check.__module__.split(".")[1] for check in ours}


def texts(code: str, name: str, kind: str, folder: str) -> dict[Path, str]:
    """The new files and what they hold."""
    module, klass, parts = name.replace("-", "_"), "".join(part.capitalize() for part in name.split("-")), _PARTS[kind]
    ours = f"from gpudoctor_checks.{folder}.{module} import {klass}\nfrom gpudoctor_rules.advice import advice\n\n"
    test = parts["helpers"] + ours + parts["test"].replace("KLASS", klass).replace("FOLDER", folder)
    return {
        ROOT / "checks/gpudoctor_checks" / folder / f"{module}.py": _CHECK.format(
            code=code, name=name, klass=klass, **parts
        ),
        ROOT / "tests/checks" / folder / f"test_{module}.py": test,
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
