import pytest
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.clip_misplaced import ClipMisplaced
from gpudoctor_rules.loop import clip_misplaced

GUILTY = {
    "sick_after_step": ("late", "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"),
    "sick_scaled": ("scaled", "torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)"),
    "sick_unscaled_too_late": ("scaled", "torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)"),
    "sick_before_backward": ("late", "nn.utils.clip_grad_norm_(netG.parameters(), 1.0)"),
}

LOOP = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {scaler}
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        optimizer.zero_grad()
        loss = model(x).mean()
        {body}
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def look(*body, scaler="scaler = torch.amp.GradScaler('cuda')"):
    text = LOOP.format(scaler=scaler, body="\n        ".join(body))
    return examine(ClipMisplaced, script_patient(text))


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP004")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP004"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    patient = script_patient(path)
    [finding] = examine(ClipMisplaced, patient)
    assert (finding.detail.how, finding.span.text) == GUILTY[path.stem]
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.SUSPECTED)
    [remedy] = prescribe(clip_misplaced, finding, patient)
    assert remedy.applicability is Applicability.UNSAFE
    assert remedy.steps
    assert finding.cost.breaks  # what it was written for does not happen


@pytest.mark.parametrize("path", healthy_scripts("LOOP004"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(ClipMisplaced, script_patient(path)) == []


def test_sick_orders():
    assert look("loss.backward()", "optimizer.step()", CLIP)[0].detail.how == "late"
    assert look(CLIP, "loss.backward()", "optimizer.step()")[0].detail.how == "late"
    scaled = look("scaler.scale(loss).backward()", CLIP, "scaler.step(optimizer)", "scaler.update()")
    assert scaled[0].detail.how == "scaled"


def test_healthy_with_a_scaler_that_is_off():
    body = ("scaler.scale(loss).backward()", CLIP, "scaler.step(optimizer)")
    assert look(*body, scaler="scaler = torch.amp.GradScaler('cuda', enabled=False)") == []
