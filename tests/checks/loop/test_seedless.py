import ast

import pytest
from configs import configs
from mending import gone, mended
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.seedless import Seedless
from gpudoctor_rules.loop.seedless import SeedlessRule


@pytest.mark.parametrize("path", sick_scripts("LOOP008"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    [finding] = examine(Seedless, script_patient(path))
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize("path", healthy_scripts("LOOP008"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(Seedless, script_patient(path)) == []


def test_healthy_with_a_seed_in_the_config():
    path = sick_scripts("LOOP008")[-1]
    assert examine(Seedless, script_patient(path, configs=configs("training: {seed: 7, lr: 0.1}"))) == []
    assert len(examine(Seedless, script_patient(path, configs=configs("training: {lr: 0.1}")))) == 1


def test_the_rule_names_each_generator():
    path = next(path for path in sick_scripts("LOOP008") if path.stem == "sick_lightning")
    patient = script_patient(path)
    [remedy] = prescribe(SeedlessRule, examine(Seedless, patient)[0], patient)
    assert [line.split("(")[0] for line in remedy.steps] == ["torch.manual_seed", "numpy.random.seed"]
    assert remedy.applicability is Applicability.UNSAFE


@pytest.mark.parametrize("path", sick_scripts("LOOP008"), ids=lambda path: path.stem)
def test_the_edit_cures(path):
    text = path.read_text(encoding="utf-8")
    assert gone("LOOP008", text)
    new = mended(text, select="LOOP008")
    ast.parse(new)
    assert new.count("torch.manual_seed(0)") == 1
    assert new.index("torch.manual_seed(0)") > new.index("import torch")
