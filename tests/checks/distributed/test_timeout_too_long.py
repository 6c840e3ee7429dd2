"""DIST010: timeouts of collectives so long that a hang is never reported."""

import pytest
from configs import config_patient
from jobs import launch_line, patient_of
from scripts import script_patient

from gpudoctor.model import Confidence, Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.distributed.timeout_too_long import TimeoutTooLong
from gpudoctor_rules.distributed.advice import ADVICE

HEAD = "from datetime import timedelta\nimport datetime\nimport torch.distributed as dist\nimport deepspeed\n"


@pytest.mark.parametrize(
    "text",
    [
        "model_name_or_path: m\nstage: sft\nper_device_train_batch_size: 1\nddp_timeout: 180000000\n",
        "trainer:\n  nccl_timeout: 600000\n",
        "distributed_timeout_minutes: 10000\n",
        "comm:\n  train_timeout_seconds: 100000\n",
    ],
)
def test_sick_keys_of_configs(text):
    patient = config_patient(text)
    [finding] = examine(TimeoutTooLong, patient)
    assert finding.severity is Severity.WARNING and finding.confidence is Confidence.SUSPECTED
    assert finding.evidence[0].line == text[: text.index("timeout")].count("\n") + 1
    [remedy] = prescribe(ADVICE, finding, patient)
    assert "7200" in remedy.title or "120" in remedy.title


@pytest.mark.parametrize(
    "call",
    [
        'dist.init_process_group("nccl", timeout=timedelta(days=7))',
        'dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=180000000))',
        "dist.new_group([0, 1], timeout=timedelta(1))",
        "deepspeed.init_distributed(timeout=timedelta(minutes=3000))",
        "PATIENCE = timedelta(hours=10, minutes=300)\ndist.init_process_group(timeout=PATIENCE)",
        "HOURS = 100\ndist.init_process_group(timeout=timedelta(hours=HOURS))",
        "dist.init_process_group(timeout=timedelta.max)",
    ],
)
def test_sick_timedeltas_of_scripts(call):
    [finding] = examine(TimeoutTooLong, script_patient(f"{HEAD}{call}\n"))
    assert finding.span is not None and "timeout" in finding.span.text


def test_sick_training_arguments_and_the_launch_line():
    text = "from transformers import TrainingArguments\nTrainingArguments('out', ddp_timeout=180_000_000)\n"
    [finding] = examine(TimeoutTooLong, script_patient(text))
    assert "50,000 h" in finding.message
    launch = launch_line("torchrun train.py --bf16 --ddp_timeout 180000000 --output_dir out")
    [finding] = examine(TimeoutTooLong, patient_of({}, launch))
    assert "--ddp_timeout 180000000" in finding.message


def test_sick_the_variable_of_deepspeed():
    [finding] = examine(TimeoutTooLong, make_patient(environment={"DEEPSPEED_TIMEOUT": "100000"}))
    assert finding.confidence is Confidence.CONFIRMED
    patient = script_patient('import os\nos.environ["DEEPSPEED_TIMEOUT"] = "100000"\n', environment={})
    [finding] = examine(TimeoutTooLong, patient)
    assert finding.span is not None and finding.span.line == 2


def test_the_limit_is_a_threshold():
    patient = config_patient("ddp_timeout: 7200\nper_device_train_batch_size: 1\n")
    assert not examine(TimeoutTooLong, patient)
    assert examine(TimeoutTooLong, patient, timeout=3600)


@pytest.mark.parametrize(
    "call",
    [
        'dist.init_process_group("nccl", timeout=timedelta(hours=2))',
        'dist.init_process_group("nccl", timeout=timedelta(hours=12))',
        "dist.init_process_group(timeout=timedelta(seconds=args.timeout))",
        "import requests\nrequests.get('http://x', timeout=timedelta(days=30))",
        "dist.init_process_group()",
        "retention = timedelta(days=30)",
    ],
)
def test_healthy_hours_and_other_timeouts(call):
    assert not examine(TimeoutTooLong, script_patient(f"{HEAD}{call}\n"))


@pytest.mark.parametrize(
    "text",
    [
        "ddp_timeout: 18000\n",
        "ddp_timeout: ${timeout}\n",
        "http:\n  timeout: 99999999\n",
        "distributed_timeout_minutes: 60\n",
    ],
)
def test_healthy_configs(text):
    assert not examine(TimeoutTooLong, config_patient(text))


def test_healthy_environment():
    assert not examine(TimeoutTooLong, make_patient(environment={"DEEPSPEED_TIMEOUT": "120"}))
    assert not examine(TimeoutTooLong, make_patient(environment={"DEEPSPEED_TIMEOUT": "soon"}))


def test_a_number_beyond_all_bounds_is_no_crash():
    [finding] = examine(TimeoutTooLong, config_patient(f"ddp_timeout: {'9' * 400}\nbf16: true\n"))
    assert "without end" in finding.message
