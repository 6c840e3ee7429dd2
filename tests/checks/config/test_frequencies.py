import pytest
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.config.frequencies import Frequencies


def arguments(text):
    return script_patient(f"from transformers import TrainingArguments\nargs = TrainingArguments('out', {text})\n")


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
