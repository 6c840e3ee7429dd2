import pytest
from jobs import job_files, job_patient, launch_line, patient_of

from gpudoctor.model import Severity, TextEdit
from gpudoctor.testing import examine, prescribe
from gpudoctor.vitals.configs import parse
from gpudoctor_checks.config.batch_mismatch import BatchMismatch
from gpudoctor_rules.config import batch_mismatch

ERROR, WARNING = Severity.ERROR, Severity.WARNING
SICK = dict(job_files("CFG002", "sick"))
ARGUMENTS = "from transformers import TrainingArguments\nargs = TrainingArguments('o', deepspeed='ds.json'%s)\n"
DS = '{"zero_optimization": {"stage": 2}, %s}'


@pytest.mark.parametrize(
    ("more", "engine"),
    [
        (", per_device_train_batch_size=4", '"train_micro_batch_size_per_gpu": 2'),
        ("", '"train_micro_batch_size_per_gpu": 2'),  # transformers' default is 8
        (", gradient_accumulation_steps=4", '"gradient_accumulation_steps": 2'),
        (", per_device_train_batch_size=6", '"train_batch_size": 32'),
    ],
)
def test_sick_arguments_and_engine(more: str, engine: str) -> None:
    [finding] = examine(BatchMismatch, patient_of({"train.py": ARGUMENTS % more, "ds.json": DS % engine}))
    assert finding.severity is ERROR


@pytest.mark.parametrize(
    ("more", "engine"),
    [
        (", per_device_train_batch_size=4", '"train_micro_batch_size_per_gpu": 4'),
        (", per_device_train_batch_size=4", '"train_micro_batch_size_per_gpu": "auto"'),
        ("", '"train_micro_batch_size_per_gpu": 8'),
        (", per_device_train_batch_size=BATCH", '"train_micro_batch_size_per_gpu": 4'),
        (", **options", '"train_micro_batch_size_per_gpu": 4'),
        (", per_device_train_batch_size=4", '"train_batch_size": 32'),
        (", gradient_accumulation_steps=1", '"gradient_accumulation_steps": 1'),
    ],
)
def test_healthy_arguments_and_engine(more: str, engine: str) -> None:
    assert examine(BatchMismatch, patient_of({"train.py": ARGUMENTS % more, "ds.json": DS % engine})) == []


def test_sick_ranks_of_the_launch_line() -> None:
    engine = DS % '"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2'
    sick = patient_of({"ds.json": engine}, launch_line("deepspeed --num_gpus 4 train.py", ranks=4))
    assert examine(BatchMismatch, sick)[0].severity is ERROR
    [finding] = examine(BatchMismatch, sick)
    assert "on 4 ranks are 32" in finding.message


def test_healthy_ranks_of_the_launch_line() -> None:
    engine = DS % '"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2'
    assert examine(BatchMismatch, patient_of({"ds.json": engine}, launch_line("x train.py", ranks=8))) == []


def test_sick_an_options_default_is_only_suspected() -> None:
    script = """
        import argparse
        from transformers import TrainingArguments
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch", type=int, default=4)
        options = parser.parse_args()
        args = TrainingArguments("o", deepspeed="ds.json", per_device_train_batch_size=options.batch)
        """
    engine = DS % '"train_micro_batch_size_per_gpu": 2'
    [finding] = examine(BatchMismatch, patient_of({"train.py": script, "ds.json": engine}))
    assert finding.severity is WARNING


ACCELERATE = """
    compute_environment: LOCAL_MACHINE
    distributed_type: DEEPSPEED
    deepspeed_config:
      gradient_accumulation_steps: {steps}
      zero_stage: 2
    num_processes: 2
    """
SCRIPT = "from accelerate import Accelerator\naccelerator = Accelerator(gradient_accumulation_steps=4)\n"


def test_sick_accelerate() -> None:
    patient = patient_of({"train.py": SCRIPT, "acc.yaml": ACCELERATE.format(steps=8)})
    [finding] = examine(BatchMismatch, patient)
    assert finding.severity is WARNING


@pytest.mark.parametrize("steps", [4, "auto"])
def test_healthy_accelerate(steps: object) -> None:
    patient = patient_of({"train.py": SCRIPT, "acc.yaml": ACCELERATE.format(steps=steps)})
    assert examine(BatchMismatch, patient) == []


def test_the_remedy_is_auto_and_cures() -> None:
    paths = SICK["configs-sick_pair"]
    patient = job_patient(paths)
    [finding] = examine(BatchMismatch, patient)
    [remedy] = prescribe(batch_mismatch, finding, patient)
    [edit] = remedy.edits
    assert isinstance(edit, TextEdit)
    engine = next(path for path in paths if path.suffix == ".json")
    lines = engine.read_text("utf-8").split("\n")
    line = lines[edit.line - 1]
    lines[edit.line - 1] = line[: edit.column - 1] + edit.new_text + line[edit.end_column - 1 :]
    cured = parse(str(engine), "\n".join(lines))
    assert cured.value("train_micro_batch_size_per_gpu") == "auto"


def test_sick_ranks_that_model_parallelism_may_explain() -> None:
    engine = DS % '"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2'
    [finding] = examine(BatchMismatch, patient_of({"ds.json": engine}, launch_line("x train.py", ranks=8)))
    assert finding.severity is WARNING


CHAT = """
    import argparse, deepspeed
    from transformers import AutoModelForCausalLM
    parser = argparse.ArgumentParser()
    parser.add_argument("--per_device_train_batch_size", type=int, default=16)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    args = deepspeed.add_config_arguments(parser).parse_args()
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    engine, *_ = deepspeed.initialize(args=args, model=model)
    """
PURE = CHAT.replace("from transformers import AutoModelForCausalLM", "from local import AutoModelForCausalLM")


@pytest.mark.parametrize("script", [CHAT, PURE])
def test_nobody_compares_or_fills_in_the_config_of_a_program_that_starts_deepspeed_itself(script: str) -> None:
    line = "deepspeed main.py --per_device_train_batch_size 4 --deepspeed_config ds.json"
    job = launch_line(line, ranks=2)
    engine = DS % '"train_micro_batch_size_per_gpu": 2'
    assert examine(BatchMismatch, patient_of({"main.py": script, "ds.json": engine}, job)) == []


def test_the_remedy_names_who_reads_auto() -> None:
    patient = patient_of({"train.py": ARGUMENTS % "", "ds.json": DS % '"train_micro_batch_size_per_gpu": 2'})
    [finding] = examine(BatchMismatch, patient)
    [remedy] = prescribe(batch_mismatch, finding, patient)
    assert "transformers" in remedy.steps[0] and remedy.edits
