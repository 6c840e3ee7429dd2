import pytest
from jobs import memory_patient
from memory_jobs import config, script

from gpudoctor.model import Confidence, Resource, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, make_survey
from gpudoctor_checks.memory.will_not_fit import WillNotFit


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


def test_without_a_card_it_says_how_to_name_one() -> None:
    patient = memory_patient({"sft.yaml": config(batch=8)}, None, survey=make_survey([]))
    with pytest.raises(Unavailable, match="--gpu"):
        examine(WillNotFit, patient)
    with pytest.raises(Unavailable):
        examine(WillNotFit, make_patient())


def test_sick_on_this_machines_smallest_gpu() -> None:
    small = make_gpu(1, name="NVIDIA A10", memory_total=24 << 30)
    survey = make_survey([make_gpu(), small])
    patient = memory_patient({"train.py": script()}, None, survey=survey)
    [finding] = examine(WillNotFit, patient)
    assert "this machine's GPU 1" in finding.message
