"""Checks of memory on jobs that can be estimated, and on sources."""

import pytest
from jobs import memory_patient
from memory_jobs import config, script
from scripts import script_patient

from gpudoctor.model import Confidence, Resource, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, make_survey, prescribe
from gpudoctor_checks.memory.checkpointing_unneeded import CheckpointingUnneeded
from gpudoctor_checks.memory.graph_retained import GraphRetained
from gpudoctor_checks.memory.headroom_unused import HeadroomUnused
from gpudoctor_checks.memory.will_not_fit import WillNotFit
from gpudoctor_rules.memory import checkpointing_unneeded

SMALL = "Qwen/Qwen2.5-0.5B"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("sft.yaml", config(SMALL, batch=2, seq=1024), 8), ("train.py", script(SMALL, batch=2), 16)],
)
def test_sick_jobs(name: str, text: str, line: int) -> None:
    patient = memory_patient({name: text})
    [finding] = examine(CheckpointingUnneeded, patient)
    assert finding.severity is Severity.WARNING
    assert finding.evidence[0].line == line
    [remedy] = prescribe(checkpointing_unneeded, finding, patient)
    assert len(remedy.edits) == 1


@pytest.mark.parametrize(
    "text",
    [
        config(SMALL, batch=2, seq=1024, checkpointing=False),
        config(SMALL, batch=32, seq=4096),  # it does not fit without
        config(SMALL, batch=2).replace("max_seq_length: 4096\n", ""),  # the length is a guess
        config(SMALL, batch=2, seq=1024).replace("torch_dtype: bfloat16\n", ""),  # the type is a guess
    ],
)
def test_healthy_jobs(text: str) -> None:
    assert examine(CheckpointingUnneeded, memory_patient({"sft.yaml": text})) == []


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("sft.yaml", config(SMALL, batch=1, seq=2048, checkpointing=False), 3),
        ("train.py", script(SMALL, batch=2, checkpointing=False), 14),
    ],
)
def test_sick_jobs_with_headroom(name: str, text: str, line: int) -> None:
    [finding] = examine(HeadroomUnused, memory_patient({name: text}))
    assert finding.severity is Severity.NOTE
    assert finding.evidence[0].line == line
    assert "micro batch of" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        config(SMALL, batch=16, seq=2048, checkpointing=False),  # most of the card
        config(SMALL, batch=1, seq=512, checkpointing=False),  # PERF007's
        config(SMALL, batch=1, seq=2048, checkpointing=True),  # MEM008's
        config(SMALL, batch=1, checkpointing=False).replace("max_seq_length: 4096\n", ""),
    ],
)
def test_healthy_jobs_without_headroom(text: str) -> None:
    assert examine(HeadroomUnused, memory_patient({"sft.yaml": text})) == []


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
def test_healthy_jobs_that_fit(files: dict[str, str]) -> None:
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


LOOP = """
    import torch
    model = torch.nn.Linear(8, 1)
    criterion = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    total, kept, history, seen = 0, [], {{}}, set()
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, x)
        loss.backward()
        optimizer.step()
        {statement}
"""


def look(statement):
    return examine(GraphRetained, script_patient(LOOP.format(statement=statement)))


@pytest.mark.parametrize(
    "statement", ["total += loss", "total = total + loss", "kept.append(loss)", "history['sum'] += loss"]
)
def test_sick_statements(statement):
    [finding] = look(statement)
    assert finding.evidence


@pytest.mark.parametrize(
    "statement",
    [
        "total += out.max(1).indices.sum()",
        "total += loss.item()",
        "total += float(loss)",
        "total += (out.argmax(1) == x.argmax(1)).sum()",
        "total += x.sum()",
        "kept.append(loss.detach())",
        "kept = [loss]",
        "loss = loss.detach(); total += loss",
        "kept.append(loss); kept.clear()",
        "if step == 0: kept.append(loss)",
        "kept.append(helper(out))",
    ],
)
def test_healthy_statements(statement):
    assert look(statement) == []


def test_sick_over_gpus_that_nobody_counts() -> None:
    """More of them may hold it, so it is a warning, with the number that was taken."""
    files = {"sft.yaml": config(batch=64, more="fsdp: full_shard auto_wrap")}
    [finding] = examine(WillNotFit, memory_patient(files, "40GiB"))
    assert finding.severity is Severity.WARNING and finding.cost.breaks is None
    assert "even with 8 GPUs" in finding.message
    [counted] = examine(WillNotFit, memory_patient(files, "40GiB", gpus=8))
    assert counted.severity is Severity.ERROR and "8 GPUs, 64 rows" in counted.message
