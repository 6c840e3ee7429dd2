import pytest
from jobs import memory_patient
from memory_jobs import config, script

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.performance.batch_too_small import BatchTooSmall
from gpudoctor_rules.memory import greater_batch

SMALL = "Qwen/Qwen2.5-0.5B"
FACTORY = """
model_name_or_path: Qwen/Qwen2.5-0.5B
stage: sft
finetuning_type: lora
lora_rank: 8
lora_target: all
template: qwen
dataset: alpaca
cutoff_len: 512
per_device_train_batch_size: 1
gradient_accumulation_steps: 16
bf16: true
output_dir: out
"""


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("sft.yaml", config(SMALL, batch=1, seq=512), 3),
        ("train.py", script(SMALL, batch=1, seq=512), 14),
        ("lora.yaml", FACTORY, 9),
    ],
)
def test_sick_jobs(name: str, text: str, line: int) -> None:
    patient = memory_patient({name: text})
    [finding] = examine(BatchTooSmall, patient)
    assert finding.severity is Severity.NOTE
    assert finding.evidence[0].line == line
    assert "512 tokens at a time" in finding.message
    assert all(remedy.edits for remedy in prescribe(greater_batch, finding, patient))


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        (config(SMALL, batch=8, seq=512), "A100 80GB"),  # 4,096 tokens
        (config(SMALL, batch=1, seq=512, more="use_peft: true\nlora_r: 16"), "3.4GiB"),  # no room for a second row
        (config(SMALL, batch=1).replace("max_seq_length: 4096\n", ""), "A100 80GB"),
    ],
)
def test_healthy_jobs(text: str, gpu: str) -> None:
    assert examine(BatchTooSmall, memory_patient({"sft.yaml": text}, gpu)) == []
