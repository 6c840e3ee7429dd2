import pytest
from edits import apply_edits
from scripts import healthy_scripts, script_patient, sick_scripts
from some import some

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.config.frequencies import Frequencies
from gpudoctor_rules.config import frequencies

NOTE = Severity.NOTE

EXPECTED = {
    "sick_training_arguments": {"logging_steps": NOTE, "eval_steps": NOTE, "save_steps": NOTE},
    "sick_argparse": {"logging_steps": NOTE, "save_steps": NOTE},
    "sick_lightning": {"every_n_train_steps": NOTE, "log_every_n_steps": NOTE, "val_check_interval": NOTE},
    "sick_longer_than_run": {"logging_steps": NOTE, "eval_steps": NOTE},
}


def arguments(text):
    return script_patient(f"from transformers import TrainingArguments\nargs = TrainingArguments('out', {text})\n")


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("CFG006")} == set(EXPECTED)


@pytest.mark.parametrize("path", [*sick_scripts("CFG006"), *healthy_scripts("CFG006")], ids=lambda path: path.stem)
def test_sick_and_healthy_scripts(path):
    findings = examine(Frequencies, script_patient(path))
    assert {finding.detail.key: finding.severity for finding in findings} == EXPECTED.get(path.stem, {})
    assert all(str(finding.detail.key) in finding.span.text for finding in findings)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("logging_steps=9", 1),
        ("logging_steps=1, gradient_accumulation_steps=16", 1),
        ("save_steps=49", 1),
        ("eval_strategy='steps', eval_steps=49", 1),
        ("evaluation_strategy='steps', eval_steps=1", 1),
        ("logging_steps=10", 0),
        ("logging_steps=2, gradient_accumulation_steps=8", 0),
        ("save_steps=50", 0),
        ("eval_strategy='steps', eval_steps=50", 0),
        ("eval_steps=1", 0),
        ("logging_strategy='epoch', logging_steps=1", 0),
        ("save_strategy=STRATEGY, save_steps=1", 0),
        ("logging_steps=STEPS", 0),
        ("max_steps=-1, logging_steps=500", 0),
        ("save_steps=1000, max_steps=500", 0),
        ("eval_strategy='steps', eval_steps=0.001, max_steps=10000", 0),
        ("**options", 0),
    ],
)
def test_sick_and_healthy_arguments(text, found):
    assert len(examine(Frequencies, arguments(text))) == found


@pytest.mark.parametrize(("steps", "severity"), [(9, Severity.WARNING), (10, NOTE), (49, NOTE)])
def test_sick_saves_every_few_steps_are_a_warning(steps, severity):
    check = Frequencies()
    [finding] = check.examine(arguments(f"save_steps={steps}"))
    assert finding.severity is severity


def test_sick_at_the_users_threshold():
    assert len(examine(Frequencies, arguments("logging_steps=10"), log_period=20)) == 1


def test_never_is_said():
    [finding] = examine(Frequencies, arguments("logging_steps=500, max_steps=200"))
    assert "longer than the run of 200 steps" in finding.message


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("logging_steps=1", "logging_steps=50"),
        ("logging_steps=500, max_steps=200", "logging_steps=10"),
        ("save_steps=1", "save_steps=500"),
        ("save_steps=1, max_steps=1000", "save_steps=50"),
    ],
)
def test_the_rule_names_the_period(text, title):
    patient = arguments(text)
    [finding] = examine(Frequencies, patient)
    [remedy] = prescribe(frequencies, finding, patient)
    assert remedy.title == title
    cured = apply_edits(patient.source.scripts[0].text, remedy.edits)
    assert examine(Frequencies, script_patient(cured)) == []


def test_the_rule_leaves_a_default_elsewhere_to_a_person():
    path = next(path for path in sick_scripts("CFG006") if path.stem == "sick_argparse")
    patient = script_patient(path)
    for finding in some(examine(Frequencies, patient)):
        [remedy] = prescribe(frequencies, finding, patient)
        assert remedy.edits == ()
