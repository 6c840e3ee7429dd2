import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.loop.clip_misplaced import ClipMisplaced
from gpudoctor_rules.loop import clip_misplaced

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


def test_sick_orders():
    assert look("loss.backward()", "optimizer.step()", CLIP)[0].detail.how == "late"
    assert look(CLIP, "loss.backward()", "optimizer.step()")[0].detail.how == "late"
    scaled = look("scaler.scale(loss).backward()", CLIP, "scaler.step(optimizer)", "scaler.update()")
    assert scaled[0].detail.how == "scaled"


@pytest.mark.parametrize(("scaled", "said"), [(40, 1), (0, 0)])
def test_clips_that_a_run_saw_before_the_unscaling(scaled, said):
    clips = record("clips", clips=40, scaled=scaled, limit=1.0, scale=65536.0, path="/job/train.py", line=6)
    patient = make_patient(recording=make_recording(make_process(make_steps(60), records=[clips])))
    found = examine(ClipMisplaced, patient) if said else []
    assert [(item.severity, item.span.line) for item in found] == [(Severity.ERROR, 6)] * said
    assert all("40 of 40 clips" in item.message and "scale of 65,536" in item.message for item in found)
    assert all(prescribe(clip_misplaced, item, patient) for item in found)
    if not said:
        with pytest.raises(Unavailable):
            examine(ClipMisplaced, patient)
