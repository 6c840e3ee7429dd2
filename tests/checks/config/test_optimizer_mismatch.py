import pytest
from jobs import patient_of

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.config.optimizer_mismatch import OptimizerMismatch

ERROR, WARNING = Severity.ERROR, Severity.WARNING
HF = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\ndeepspeed: ds.json\n"
DS = '{"zero_optimization": {"stage": 2}, %s}'


@pytest.mark.parametrize(
    ("arguments", "engine", "found"),
    [
        ("weight_decay: 0.01", '"optimizer": {"type": "AdamW", "params": {"weight_decay": 0.1}}', 1),
        ("max_grad_norm: 1.0", '"gradient_clipping": 0.5', 1),
        ("warmup_steps: 100", '"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 500}}', 1),
        ("learning_rate: 1e-4", '"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.001}}', 1),
        ("optim: adafactor", '"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}', 1),
        ("weight_decay: 0.1", '"optimizer": {"type": "AdamW", "params": {"weight_decay": 1e-1}}', 0),
        ("max_grad_norm: 1.0", '"gradient_clipping": "auto"', 0),
        ("warmup_steps: 0", '"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 500}}', 0),
        ("learning_rate: 1e-4", '"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.0001}}', 0),
        ("optim: adamw_torch_fused", '"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}', 0),
        ("seed: 1", '"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}', 0),  # whose default is not known
    ],
)
def test_sick_and_healthy_arguments(arguments: str, engine: str, found: int) -> None:
    patient = patient_of({"a.yaml": HF + arguments + "\n", "ds.json": DS % engine})
    assert len(examine(OptimizerMismatch, patient)) == found
