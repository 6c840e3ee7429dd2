import pytest
from jobs import job_files, job_patient, patient_of

from gpudoctor.model import Severity
from gpudoctor.model.signs.packages import ArgumentFields
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.config.known_keys import distance, meant
from gpudoctor_checks.config.unknown_key import UnknownKey
from gpudoctor_rules.config import unknown_key

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR
SICK = dict(job_files("CFG005", "sick"))
INSTALLED = ArgumentFields(
    versions={"transformers": "9.0"},
    fields={"TrainingArguments": frozenset({"output_dir", "learning_rate", "brand_new_option"})},
)


def arguments(text: str) -> dict[str, str]:
    return {"train.py": f"from transformers import TrainingArguments\na = TrainingArguments('o', {text})\n"}


@pytest.mark.parametrize(
    ("text", "severities"),
    [("future_option=1", [ERROR]), ("brand_new_option=1", []), ("gradient_acumulation_step=2", [ERROR])],
)
def test_sick_what_the_installed_version_does_not_have(text, severities) -> None:
    found = examine(UnknownKey, patient_of(arguments(text), argument_fields=INSTALLED))
    assert [finding.severity for finding in found] == severities


def test_sick_far_keys_of_a_strict_reader_are_a_note() -> None:
    text = "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ntemplate: t\nwhatever_this_is: 1\n"
    [finding] = examine(UnknownKey, patient_of({"a.yaml": text}))
    assert finding.severity is NOTE


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


def test_healthy_two_neighbours_tell_nothing() -> None:
    assert meant("warmup_stepa", ("warmup_steps", "warmup_stepb")) is None


@pytest.mark.parametrize(
    ("one", "other", "far"), [("ab", "ba", 1), ("abc", "ab", 1), ("a", "b", 1), ("abcd", "xbcy", 2)]
)
def test_distances(one: str, other: str, far: int) -> None:
    assert distance(one, other) == far


def test_the_remedy_names_the_key() -> None:
    patient = job_patient(SICK["configs-sick_llama_factory"])
    [finding] = examine(UnknownKey, patient)
    [remedy] = prescribe(unknown_key, finding, patient)
    assert remedy.title == "replace cutof_len by cutoff_len"


def test_healthy_a_file_that_speaks_its_own_language() -> None:
    own = "".join(f"learning_rat{index}: 1\n" for index in range(300))
    text = "output_dir: o\nnum_train_epochs: 1\nlogging_steps: 5\n" + own
    assert examine(UnknownKey, patient_of({"a.yaml": text})) == []


def test_sick_two_slips_in_a_call_are_only_suspected() -> None:
    [finding] = examine(UnknownKey, patient_of(arguments("gradient_acumulation_step=2")))
    assert finding.severity is WARNING
