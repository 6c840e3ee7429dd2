from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.data.padding_waste import PaddingWaste
from gpudoctor_rules.advice import advice
from gpudoctor_rules.data.items import padding_waste

FOLDER = PATIENTS / "DATA006"


def test_healthy_where_nothing_would_pad_later():
    text = (FOLDER / "sick_map.py").read_text("utf-8").replace("    processing_class=tokenizer,\n", "")
    patient = script_patient(text)
    [finding] = examine(PaddingWaste, patient)
    assert prescribe((padding_waste, *advice("data")), finding, patient)[0].edits == ()


def test_healthy_length_on_the_command_line():
    assert examine(PaddingWaste, script_patient(FOLDER / "sick_collate.py", ["--max_length", "128"])) == []
