import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.data.padding_waste import PaddingWaste
from gpudoctor_rules.advice import advice
from gpudoctor_rules.data.items import padding_waste

FOLDER = PATIENTS / "DATA006"
GUILTY = {"sick_map": (9, "tokenizer"), "sick_collate": (17, "collate")}


@pytest.mark.parametrize("path", sick_scripts("DATA006"), ids=lambda path: path.stem)
def test_sick_script(path):
    [finding] = examine(PaddingWaste, script_patient(path))
    assert (finding.span.line, finding.detail.how) == GUILTY[path.stem]
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize("path", healthy_scripts("DATA006"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(PaddingWaste, script_patient(path)) == []


@pytest.mark.parametrize(("name", "new"), [("sick_map", "padding=False"), ("sick_collate", "padding=True")])
def test_sick_tokenizer_is_mended(name, new):
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    assert mended(text, unsafe=False, select="DATA006") == text
    assert new in mended(text, select="DATA006")
    assert gone("DATA006", text)


def test_healthy_where_nothing_would_pad_later():
    text = (FOLDER / "sick_map.py").read_text("utf-8").replace("    processing_class=tokenizer,\n", "")
    patient = script_patient(text)
    [finding] = examine(PaddingWaste, patient)
    assert prescribe((padding_waste, *advice("data")), finding, patient)[0].edits == ()


def test_healthy_length_on_the_command_line():
    assert examine(PaddingWaste, script_patient(FOLDER / "sick_collate.py", ["--max_length", "128"])) == []


def test_sick_at_the_users_threshold():
    assert len(examine(PaddingWaste, script_patient(FOLDER / "healthy_dynamic.py"), max_length=64)) == 1
