import pytest
from jobs import job_files, job_patient, patient_of

from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.numerics.fp16_unsafe import Fp16Unsafe
from gpudoctor_rules.advice import advice
from gpudoctor_rules.numerics import fp16_unsafe

SICK, HEALTHY = dict(job_files("NUM006", "sick")), dict(job_files("NUM006", "healthy"))


LOOP = """
    import torch
    from torch.utils.data import DataLoader
    {more}
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in DataLoader([]):
        optimizer.zero_grad()
        with {context}:
            loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        {backward}
        optimizer.step()
    """


@pytest.mark.parametrize(
    "context", ["torch.cuda.amp.autocast()", 'torch.autocast("cuda")', "torch.amp.autocast('cuda')"]
)
def test_sick_contexts(context: str) -> None:
    text = LOOP.format(more="", context=context, backward="loss.backward()")
    assert len(examine(Fp16Unsafe, patient_of({"train.py": text}))) == 1


@pytest.mark.parametrize(
    ("more", "context", "backward"),
    [
        ("", "torch.autocast('cpu')", "loss.backward()"),
        ("", "torch.autocast(model.device.type)", "loss.backward()"),
        ("", "torch.cuda.amp.autocast(enabled=False)", "loss.backward()"),
        ("from utils import NativeScaler", "torch.cuda.amp.autocast()", "NativeScaler()(loss, optimizer)"),
        ("import deepspeed", "torch.cuda.amp.autocast()", "loss.backward()"),
    ],
)
def test_healthy_contexts(more: str, context: str, backward: str) -> None:
    text = LOOP.format(more=more, context=context, backward=backward)
    assert examine(Fp16Unsafe, patient_of({"train.py": text})) == []


def test_the_rule_knows_cards_without_bf16() -> None:
    paths = SICK["configs-sick_t5"]
    patient = job_patient(paths, gpus=[make_gpu(name="Tesla T4", compute_capability=(7, 5))])
    [finding] = examine(Fp16Unsafe, patient)
    [remedy] = prescribe((fp16_unsafe, *advice("numerics")), finding, patient)
    assert "float32" in remedy.title
    assert remedy.edits == ()
