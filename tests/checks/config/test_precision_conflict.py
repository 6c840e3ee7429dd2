import pytest
from jobs import launch_line, patient_of

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.config.precision_conflict import PrecisionConflict
from gpudoctor_rules.config import precision_conflict

ERROR, WARNING = Severity.ERROR, Severity.WARNING
HF = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\n"
DS = '{"zero_optimization": {"stage": 2}, %s}'


HUGGINGFACE = "from transformers import TrainingArguments\nargs = TrainingArguments('o', %s=True)\n"
LAUNCHED = {"ds.json": DS % '"fp16": {"enabled": true}', "other.json": DS % '"bf16": {"enabled": true}'}
ACCELERATED = """
    compute_environment: LOCAL_MACHINE
    distributed_type: DEEPSPEED
    deepspeed_config:
      deepspeed_config_file: ds.json
    num_processes: 2
    """
MODEL = """
    import torch
    from transformers import AutoModel, Trainer, TrainingArguments
    model = AutoModel.from_pretrained("gpt2", torch_dtype=%s)
    Trainer(model=model, args=TrainingArguments("o", bf16=True))
    """
UNRELATED = {
    "a.yaml": HF + "fp16: true\n", "b.yaml": HF + "bf16: true\n",
    "one.json": DS % '"bf16": {"enabled": true}', "two.json": DS % '"fp16": {"enabled": true}',
}  # fmt: skip
ON_THE_LINE = "deepspeed train.py --deepspeed ds.json --output_dir o --%s True"


def engine(text, arguments=""):
    """A DeepSpeed config, and training arguments that name it."""
    return {"ds.json": DS % text} | ({"hf.yaml": f"{HF}{arguments}: true\ndeepspeed: ds.json\n"} if arguments else {})


def enabled(half):
    return f'"{half}": {{"enabled": true}}'


@pytest.mark.parametrize(
    ("files", "line", "severities", "words"),
    [
        ({"train.py": HUGGINGFACE % "bf16", **LAUNCHED}, "deepspeed train.py --deepspeed ds.json", [ERROR], "ds.json"),
        ({"train.py": HUGGINGFACE % "fp16", "acc.yaml": ACCELERATED, "ds.json": DS % enabled("bf16")}, "accelerate launch --config_file acc.yaml train.py", [ERROR], "ds.json"),
        (UNRELATED, "", [], ""),
        ({"a.yaml": HF + "fp16: true\n", "ds.json": DS % '"fp16": {"enabled": false}'}, "", [WARNING], ""),  # the only pair
        (engine(enabled("bf16")), "", [], ""),
        (engine('"fp16": {"enabled": true}, "bf16": {"enabled": "auto"}'), "", [], ""),
        *(({"train.py": MODEL % dtype}, "", [], "") for dtype in ("torch.float32", "'auto'", "DTYPE")),
        (engine(enabled("fp16"), "bf16"), "", [ERROR], "ds.json says fp16.enabled=true, hf.yaml says bf16=true."),
        (engine(enabled("bf16"), "fp16"), "", [ERROR], "ds.json says bf16.enabled=true, hf.yaml says fp16=true."),
        (engine(enabled("fp16")), ON_THE_LINE % "bf16", [ERROR], "says --bf16=True"),
        (engine(enabled("bf16")), ON_THE_LINE % "fp16", [ERROR], "says --fp16=True"),
        *((engine(text, "bf16"), "", [], "") for text in (enabled("bf16"), '"fp16": {"enabled": "auto"}', '"fp16": {}')),
    ],
)  # fmt: skip
def test_sick_and_healthy_precision(files, line, severities, words) -> None:
    patient = patient_of(files, *([launch_line(line)] if line else []))
    found = examine(PrecisionConflict, patient)
    assert [finding.severity for finding in found] == severities
    for finding in found:
        assert words in finding.message and prescribe(precision_conflict, finding, patient)
        assert (finding.cost.breaks is not None) == (finding.severity is ERROR)
