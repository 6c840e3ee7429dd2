from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.performance.attention_eager import AttentionEager

FOLDER = PATIENTS / "PERF006"


def test_healthy_when_the_scores_are_wanted():
    text = (FOLDER / "sick_from_pretrained.py").read_text("utf-8") + "print(model.config.output_attentions)\n"
    assert examine(AttentionEager, script_patient(text)) == []
