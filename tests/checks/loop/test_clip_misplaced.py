from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.loop.clip_misplaced import ClipMisplaced

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


def test_healthy_with_a_scaler_that_is_off():
    body = ("scaler.scale(loss).backward()", CLIP, "scaler.step(optimizer)")
    assert look(*body, scaler="scaler = torch.amp.GradScaler('cuda', enabled=False)") == []
