import pytest
from jobs import launch_line, patient_of

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.config.batch_mismatch import BatchMismatch

ERROR, WARNING = Severity.ERROR, Severity.WARNING
ARGUMENTS = "from transformers import TrainingArguments\nargs = TrainingArguments('o', deepspeed='ds.json'%s)\n"
DS = '{"zero_optimization": {"stage": 2}, %s}'


@pytest.mark.parametrize(
    ("more", "engine", "found"),
    [
        (", per_device_train_batch_size=4", '"train_micro_batch_size_per_gpu": 2', 1),
        ("", '"train_micro_batch_size_per_gpu": 2', 1),  # transformers' default is 8
        (", gradient_accumulation_steps=4", '"gradient_accumulation_steps": 2', 1),
        (", per_device_train_batch_size=4", '"train_micro_batch_size_per_gpu": 4', 0),
        ("", '"train_micro_batch_size_per_gpu": 8', 0),
        (", per_device_train_batch_size=4", '"train_batch_size": 32', 0),
    ],
)
def test_sick_and_healthy_arguments_and_engine(more: str, engine: str, found: int) -> None:
    findings = examine(BatchMismatch, patient_of({"train.py": ARGUMENTS % more, "ds.json": DS % engine}))
    assert [finding.severity for finding in findings] == [ERROR] * found


@pytest.mark.parametrize(
    ("total", "ranks", "severities"),
    [(64, 4, [ERROR]), (64, 8, []), (32, 8, [WARNING])],  # model parallelism may explain the last
)
def test_sick_and_healthy_ranks_of_the_launch_line(total: int, ranks: int, severities: list[Severity]) -> None:
    engine = DS % f'"train_batch_size": {total}, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2'
    found = examine(BatchMismatch, patient_of({"ds.json": engine}, launch_line("x train.py", ranks=ranks)))
    assert [finding.severity for finding in found] == severities
    assert all(f"on {ranks} ranks are {8 * ranks}" in finding.message for finding in found)


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


@pytest.mark.parametrize(
    ("batch", "ranks", "severity"), [(2, None, Severity.NOTE), (2, 2, Severity.ERROR), (2, 4, None), (8, None, None)]
)
def test_completions_that_are_not_whole_groups(batch, ranks, severity):
    text = f"from trl import GRPOConfig\nargs = GRPOConfig(num_generations=8, per_device_train_batch_size={batch})\n"
    launch = launch_line("torchrun grpo.py", ranks=ranks) if ranks else None
    found = examine(BatchMismatch, patient_of({"grpo.py": text}, launch))
    assert [finding.severity for finding in found] == ([severity] if severity else [])
