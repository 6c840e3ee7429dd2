import pytest
from jobs import job_files, launch_line, patient_of

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.config.precision_conflict import PrecisionConflict
from gpudoctor_rules.config import precision_conflict

ERROR, WARNING = Severity.ERROR, Severity.WARNING
SICK = dict(job_files("CFG001", "sick"))
HF = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\n"
DS = '{"zero_optimization": {"stage": 2}, %s}'


def test_sick_the_launch_line_links_script_and_file() -> None:
    files = {
        "train.py": "from transformers import TrainingArguments\nargs = TrainingArguments('o', bf16=True)\n",
        "ds.json": DS % '"fp16": {"enabled": true}',
        "other.json": DS % '"bf16": {"enabled": true}',
    }
    patient = patient_of(files, launch_line("deepspeed train.py --deepspeed ds.json"))
    [finding] = examine(PrecisionConflict, patient)
    assert finding.severity is ERROR
    assert "ds.json" in finding.message


def test_sick_through_the_accelerate_config() -> None:
    files = {
        "train.py": "from transformers import TrainingArguments\nargs = TrainingArguments('o', fp16=True)\n",
        "ds.json": DS % '"bf16": {"enabled": true}',
        "acc.yaml": """
            compute_environment: LOCAL_MACHINE
            distributed_type: DEEPSPEED
            deepspeed_config:
              deepspeed_config_file: ds.json
            num_processes: 2
            """,
    }
    patient = patient_of(files, launch_line("accelerate launch --config_file acc.yaml train.py"))
    assert len(examine(PrecisionConflict, patient)) == 1


def test_healthy_unrelated_files_are_not_compared() -> None:
    patient = patient_of(
        {
            "a.yaml": HF + "fp16: true\n",
            "b.yaml": HF + "bf16: true\n",
            "one.json": DS % '"bf16": {"enabled": true}',
            "two.json": DS % '"fp16": {"enabled": true}',
        }
    )
    assert examine(PrecisionConflict, patient) == []


def test_sick_the_only_pair_is_only_suspected() -> None:
    patient = patient_of({"a.yaml": HF + "fp16: true\n", "ds.json": DS % '"fp16": {"enabled": false}'})
    [finding] = examine(PrecisionConflict, patient)
    assert finding.severity is WARNING
    assert finding.cost.breaks is None


@pytest.mark.parametrize(
    ("engine", "severities"),
    [
        ('"amp": {"enabled": true}, "bf16": {"enabled": true}', [ERROR]),
        ('"amp": {"enabled": true}', [ERROR]),
        ('"bf16": {"enabled": true}', []),
        ('"fp16": {"enabled": true}, "bf16": {"enabled": "auto"}', []),
    ],
)
def test_sick_and_healthy_engines(engine: str, severities: list[Severity]) -> None:
    patient = patient_of({"ds.json": DS % engine})
    found = examine(PrecisionConflict, patient)
    assert [finding.severity for finding in found] == severities
    assert all(prescribe(precision_conflict, finding, patient) for finding in found)


def test_sick_scaler_around_an_engine() -> None:
    script = """
        import deepspeed, torch
        engine, _, loader, _ = deepspeed.initialize(model=torch.nn.Linear(2, 2), config="ds.json")
        scaler = torch.cuda.amp.GradScaler()
        for batch in loader:
            loss = engine(batch).sum()
            engine.backward(scaler.scale(loss))
            engine.step()
        """
    [finding] = examine(PrecisionConflict, patient_of({"train.py": script}))
    assert finding.severity is WARNING


@pytest.mark.parametrize("dtype", ["torch.float32", "'auto'", "DTYPE"])
def test_healthy_dtypes(dtype: str) -> None:
    script = f"""
        import torch
        from transformers import AutoModel, Trainer, TrainingArguments
        model = AutoModel.from_pretrained("gpt2", torch_dtype={dtype})
        Trainer(model=model, args=TrainingArguments("o", bf16=True))
        """
    assert examine(PrecisionConflict, patient_of({"train.py": script})) == []


@pytest.mark.parametrize(("engine", "arguments"), [("fp16", "bf16"), ("bf16", "fp16")])
def test_sick_halves_of_which_each_side_writes_one(engine, arguments) -> None:
    ds = DS % f'"{engine}": {{"enabled": true}}'
    patient = patient_of({"hf.yaml": f"{HF}{arguments}: true\ndeepspeed: ds.json\n", "ds.json": ds})
    [finding] = examine(PrecisionConflict, patient)
    assert finding.message == f"ds.json says {engine}.enabled=true, hf.yaml says {arguments}=true."
    assert finding.severity is ERROR
    line = launch_line(f"deepspeed train.py --deepspeed ds.json --output_dir o --{arguments} True")
    [finding] = examine(PrecisionConflict, patient_of({"ds.json": ds}, line))
    assert f"says --{arguments}=True" in finding.message


@pytest.mark.parametrize("engine", ['"bf16": {"enabled": true}', '"fp16": {"enabled": "auto"}', '"fp16": {}'])
def test_healthy_halves_that_agree(engine) -> None:
    ds = {"hf.yaml": f"{HF}bf16: true\ndeepspeed: ds.json\n", "ds.json": DS % engine}
    assert examine(PrecisionConflict, patient_of(ds)) == []
