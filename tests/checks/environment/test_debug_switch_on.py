"""ENV010: debugging switches in the environment and in the script."""

import json
from pathlib import Path

import pytest
from scripts import script_patient

import gpudoctor_checks.environment
from gpudoctor.model import Confidence, Severity
from gpudoctor.model.signs.job import Environment
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.environment.debug_switch_on import DebugSwitchOn
from gpudoctor_rules.environment.host import debug_switch_on

TABLE = json.loads(
    (Path(gpudoctor_checks.environment.__file__).parent / "debug_switches.json").read_text(encoding="utf-8")
)["switches"]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["name"])
def test_sick_every_switch_of_the_table(row):
    value = row["on"][0] if isinstance(row["on"], list) else "1"
    patient = make_patient(environment={row["name"]: value, "PATH": "/bin"})
    [finding] = examine(DebugSwitchOn, patient)
    assert finding.severity is Severity(row["severity"])
    assert finding.confidence is Confidence.CONFIRMED
    assert row["cost"] in finding.message
    [remedy] = prescribe(debug_switch_on, finding, patient)
    assert row["name"] in remedy.title


EXPORTED = Environment(variables={"CUDA_LAUNCH_BLOCKING": "1"}, exports={"CUDA_LAUNCH_BLOCKING": ("job.sbatch", 12)})


@pytest.mark.parametrize(
    ("environment", "step"),
    [
        ({"NCCL_DEBUG": "info"}, "export NCCL_DEBUG=WARN"),  # turned down and not off
        (EXPORTED, "delete the export of CUDA_LAUNCH_BLOCKING in job.sbatch, line 12"),
    ],
)
def test_sick_the_step_says_what_to_do_where(environment, step):
    patient = make_patient(environment=environment)
    [finding] = examine(DebugSwitchOn, patient)
    assert [remedy.steps for remedy in prescribe(debug_switch_on, finding, patient)] == [(step,)]


@pytest.mark.parametrize(
    "line",
    [
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        'os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "1")',
        'env["CUDA_LAUNCH_BLOCKING"] = "1"',
        'def main(): env["CUDA_LAUNCH_BLOCKING"] = "1"\nif __name__ == "__main__": main()',
    ],
)
def test_sick_set_by_the_script(line):
    patient = script_patient(f"import os\nfrom os import environ as env\n{line}\n", environment={})
    [finding] = examine(DebugSwitchOn, patient)
    assert finding.confidence is Confidence.SUSPECTED
    assert finding.span is not None and finding.span.line == 3
    [remedy] = prescribe(debug_switch_on, finding, patient)
    assert "line 3" in remedy.steps[0]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"CUDA_LAUNCH_BLOCKING": "0"},
        {"NCCL_DEBUG": "VERSION", "TORCH_DISTRIBUTED_DEBUG": "INFO"},
        {"TORCH_DISTRIBUTED_DEBUG": "OFF", "PYTHONMALLOC": "malloc", "PYTHONUNBUFFERED": "1"},
    ],
)
def test_healthy_environments(variables):
    assert examine(DebugSwitchOn, make_patient(environment=variables)) == []


@pytest.mark.parametrize(
    "text",
    [
        'import os\nif args.debug:\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n',
        'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "0"\n',
        'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = args.blocking\n',
        'import os\nprint(os.environ.get("CUDA_LAUNCH_BLOCKING", "1"))\n',
    ],
)
def test_healthy_scripts(text):
    assert examine(DebugSwitchOn, script_patient(text, environment={})) == []
