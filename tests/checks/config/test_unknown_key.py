import pytest
from jobs import patient_of

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.config.known_keys import meant
from gpudoctor_checks.config.unknown_key import UnknownKey

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR


def arguments(text: str) -> dict[str, str]:
    return {"train.py": f"from transformers import TrainingArguments\na = TrainingArguments('o', {text})\n"}


@pytest.mark.parametrize(("text", "severities"), [("future_option=1", []), ("gradient_acumulation_steps=2", [ERROR])])
def test_sick_and_healthy_names_of_a_call(text, severities) -> None:
    assert [finding.severity for finding in examine(UnknownKey, patient_of(arguments(text)))] == severities


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("learing_rate", "learning_rate"),
        ("leanring_rate", "learning_rate"),
        ("learningrate", "learning_rate"),
        ("learning-rate", "learning_rate"),
        ("use_lora", None),
        ("learn", None),
        ("rate", None),
        ("learning_rate2", None),
    ],
)
def test_sick_and_healthy_words(key: str, known: str | None) -> None:
    assert meant(key, ("learning_rate", "use_dora", "lr")) == known
