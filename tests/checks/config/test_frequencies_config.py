"""CFG006 from config files."""

from configs import config_patient

from gpudoctor.testing import examine
from gpudoctor_checks.config.frequencies import Frequencies

HF = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\n"


def test_sick_evaluation_takes_its_period_from_logging() -> None:
    findings = examine(Frequencies, config_patient(HF + "eval_strategy: steps\nlogging_steps: 10\n"))
    assert [finding.message for finding in findings] == [
        "logging_steps=10 evaluates every 10 steps; the norm is 50 or more."
    ]
