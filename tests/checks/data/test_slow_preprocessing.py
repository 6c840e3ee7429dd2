from dataclasses import replace

import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.data.slow_preprocessing import SlowPreprocessing
from gpudoctor_rules.data.slow_preprocessing import SlowPreprocessingRule

FOLDER = PATIENTS / "DATA002"
GUILTY = {
    "sick_pixels": (17, "pixels", Severity.WARNING),
    "sick_getpixel": (22, "pixels", Severity.WARNING),
    "sick_tokenises": (14, "tokens", Severity.NOTE),
}


@pytest.mark.parametrize("path", sick_scripts("DATA002"), ids=lambda path: path.stem)
def test_sick_script(path):
    [finding] = examine(SlowPreprocessing, script_patient(path))
    assert (finding.span.line, finding.fact("kind"), finding.severity) == GUILTY[path.stem]


@pytest.mark.parametrize("path", healthy_scripts("DATA002"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(SlowPreprocessing, script_patient(path)) == []


def test_healthy_single_epoch_of_the_sick_script():
    text = (FOLDER / "sick_tokenises.py").read_text("utf-8")
    assert examine(SlowPreprocessing, script_patient(text.replace("range(3)", "range(1)"))) == []
    # Cells by one counter only, or blocks of them, are work for the array library already.
    text = (FOLDER / "sick_pixels.py").read_text("utf-8")
    rows = text.replace("image[y, x].sum()", "image[y].sum()").replace("mask[y, x] = 1", "mask[y] = 1")
    assert examine(SlowPreprocessing, script_patient(rows)) == []


def test_sick_prompt_and_answer_are_one_finding():
    text = (FOLDER / "sick_tokenises.py").read_text("utf-8")
    line = next(line for line in text.splitlines() if "tokenizer(" in line and "=" in line)
    twice = text.replace(line, line + "\n" + line)
    [finding] = examine(SlowPreprocessing, script_patient(twice))
    assert len([item for item in finding.evidence if item.text == line.strip()]) == 2


def test_the_rule_names_processes_for_this_machine():
    patient = script_patient(FOLDER / "sick_tokenises.py", host=make_host(cpus_affinity=6))
    [finding] = examine(SlowPreprocessing, patient)
    [remedy] = prescribe(SlowPreprocessingRule, finding, patient)
    assert "num_proc=6" in remedy.title


def test_the_rule_answers_pixels_with_arrays():
    patient = script_patient(FOLDER / "sick_pixels.py")
    [finding] = examine(SlowPreprocessing, patient)
    assert [remedy.id for remedy in prescribe(SlowPreprocessingRule, finding, patient)] == ["DATA002-vectorise"]


def test_the_rule_answers_measured_lines_without_a_tokenizer():
    patient = script_patient(FOLDER / "sick_pixels.py")
    [finding] = examine(SlowPreprocessing, patient)
    measured = replace(finding, facts=(("kind", "lines"),))
    [remedy] = prescribe(SlowPreprocessingRule, measured, patient)
    assert remedy.id == "DATA002-once"
