import pytest
from jobs import job_files, job_patient, launch_line, patient_of
from mending import gone
from some import some

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


@pytest.mark.parametrize("engine", ['"amp": {"enabled": true}, "bf16": {"enabled": true}', '"amp": {"enabled": true}'])
def test_sick_apex(engine: str) -> None:
    [finding] = examine(PrecisionConflict, patient_of({"ds.json": DS % engine}))
    assert finding.severity is ERROR


@pytest.mark.parametrize(
    "engine", ['"bf16": {"enabled": true}', '"fp16": {"enabled": true}, "bf16": {"enabled": "auto"}']
)
def test_healthy_engines(engine: str) -> None:
    assert examine(PrecisionConflict, patient_of({"ds.json": DS % engine})) == []


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


@pytest.mark.parametrize(
    "name",
    ["configs-sick_both_halves", "configs-sick_engine", "configs-sick_sections", "source-sick_both",
     "source-sick_dict", "source-sick_loaded_in_half"],
)  # fmt: skip
def test_the_mend_cures(name: str) -> None:
    [path] = SICK[name]
    assert gone("CFG001", path.read_text("utf-8"), path.name)


def test_every_finding_has_a_remedy() -> None:
    for paths in some(SICK.values()):
        patient = job_patient(paths)
        for finding in some(examine(PrecisionConflict, patient)):
            [remedy] = prescribe(precision_conflict, finding, patient)
            assert remedy.steps


def test_sick_the_other_half_is_named(tmp_path, monkeypatch, capsys):
    """fp16 in the engine's file and bf16=True in the call: both are said, and the machine is not blamed."""
    from gpudoctor.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text('{"fp16": {"enabled": true}}')
    (tmp_path / "train.py").write_text(
        "from transformers import Trainer, TrainingArguments\n"
        'args = TrainingArguments(output_dir="out", bf16=True, deepspeed="ds.json")\n'
        "Trainer(model=None, args=args).train()\n"
    )
    assert main(["check", "train.py", "--select", "CFG001"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "ds.json says fp16.enabled=true, train.py:2 says bf16=True." in printed
    assert "train.py will fail or give a wrong result (1 error)." in printed


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
