import pytest
from jobs import memory_patient
from memory_jobs import config, script

from gpudoctor.model import Confidence, Resource, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, make_survey, prescribe
from gpudoctor_checks.memory.will_not_fit import WillNotFit
from gpudoctor_rules.memory import will_not_fit


def test_sick_config() -> None:
    """10 B a parameter in the step and 32 rows of 4,096 tokens without checkpointing: far beyond 80 GiB."""
    patient = memory_patient({"sft.yaml": config(batch=8, checkpointing=False)}, gpus=1)
    [finding] = examine(WillNotFit, patient)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.PROBABLE)
    assert finding.cost.breaks and finding.cost.bytes and finding.cost.bytes > 50 << 30
    assert finding.scarce == {Resource.DEVICE_MEMORY}
    assert finding.evidence[0].line == 1
    assert "8 rows of 4,096 tokens" in finding.message and "--gpu" in finding.message


def test_sick_script() -> None:
    [finding] = examine(WillNotFit, memory_patient({"train.py": script()}, "24GiB"))
    assert "mistral-7b" in finding.message and "optimizer step" in finding.message


def test_sick_even_at_the_least() -> None:
    """Nobody says how long the rows are: the weights and states alone are too much."""
    text = config("meta-llama/Llama-2-70b-hf").replace("max_seq_length: 4096\n", "")
    [finding] = examine(WillNotFit, memory_patient({"sft.yaml": text}))
    assert finding.confidence is Confidence.SUSPECTED
    assert "even with rows of 256 tokens" in finding.message


def test_sick_on_this_machines_smallest_gpu() -> None:
    small = make_gpu(1, name="NVIDIA A10", memory_total=24 << 30)
    survey = make_survey([make_gpu(), small])
    patient = memory_patient({"train.py": script()}, None, survey=survey)
    [finding] = examine(WillNotFit, patient)
    assert "this machine's GPU 1" in finding.message


@pytest.mark.parametrize(
    "files",
    [
        {"sft.yaml": config(batch=1)},
        {"train.py": script(seq=2048)},
        {"lora.yaml": config(batch=8, more="use_peft: true\nlora_r: 16")},
        # the length is not known, and short rows fit
        {"sft.yaml": config(batch=8).replace("max_seq_length: 4096\n", "")},
        # the model that is trained is not known here
        {"sft.yaml": config("acme/unheard-of-v3", batch=64)},
    ],
)
def test_healthy_jobs(files: dict[str, str]) -> None:
    try:
        assert examine(WillNotFit, memory_patient(files)) == []
    except Unavailable as reason:
        assert "unheard-of" in str(reason)


def test_healthy_frozen_parts_are_no_guess() -> None:
    text = script(batch=64) + "\nfor p in model.model.embed_tokens.parameters():\n    p.requires_grad = False\n"
    with pytest.raises(Unavailable, match="freezes a part"):
        examine(WillNotFit, memory_patient({"train.py": text}, "24GiB"))


def test_without_a_card_it_says_how_to_name_one() -> None:
    patient = memory_patient({"sft.yaml": config(batch=8)}, None, survey=make_survey([]))
    with pytest.raises(Unavailable, match="--gpu"):
        examine(WillNotFit, patient)
    with pytest.raises(Unavailable):
        examine(WillNotFit, make_patient())


def test_remedies_fit_and_say_what_they_give_back() -> None:
    patient = memory_patient({"sft.yaml": config(batch=8, checkpointing=False)})
    [finding] = examine(WillNotFit, patient)
    remedies = prescribe(will_not_fit, finding, patient)
    by_id = {remedy.id: remedy for remedy in remedies}
    off = by_id["MEM004-checkpointing-layer"]
    assert off.title.startswith("use gradient checkpointing: ") and off.title.endswith("fits")
    assert off.effect and off.effect.quantity == "memory" and off.effect.low > 100 << 30
    [edit] = off.edits
    assert (edit.line, edit.new_text, edit.expected) == (8, "true", "false")  # type: ignore[union-attr]
    assert "--fit" in by_id["MEM004-search"].steps[0]


def test_several_changes_together_where_none_is_enough() -> None:
    patient = memory_patient({"sft.yaml": config(batch=8, checkpointing=False)}, "24GiB")
    [finding] = examine(WillNotFit, patient)
    titles = [remedy.title for remedy in prescribe(will_not_fit, finding, patient)]
    assert any(" and " in title and title.endswith("fits") for title in titles), titles
