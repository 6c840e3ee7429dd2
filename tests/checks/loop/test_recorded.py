"""Checks of loops on recordings."""

import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Applicability, Confidence, Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.loop.clip_misplaced import ClipMisplaced
from gpudoctor_checks.loop.double_softmax import DoubleSoftmax
from gpudoctor_checks.loop.silent_broadcast import SilentBroadcast
from gpudoctor_checks.loop.zero_grad_missing import ZeroGradMissing
from gpudoctor_rules.advice import advice
from gpudoctor_rules.loop import clip_misplaced, zero_grad_missing

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


SPREAD = """
    import torch
    from chosen import build

    def one(model, criterion, optimizer, x, y):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

    model, criterion = build(torch.nn.Softmax(-1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in torch.utils.data.DataLoader(build(None)):
        one(model, criterion, optimizer, x, y)
"""


def recorded(text, losses, *made_by):
    seen = record("numeric", 3.0, kind="normalised", step=20, losses=losses, made_by=[list(item) for item in made_by],
                  path="/job/train.py", line=8)  # fmt: skip
    recording = make_recording(make_process(make_steps(100), records=[seen]))
    return examine(DoubleSoftmax, script_patient(text, recording=recording))


def test_sick_a_recorded_graph_shows_what_no_source_does():
    with pytest.raises(Unavailable):
        examine(DoubleSoftmax, script_patient(SPREAD))
    [finding] = recorded(SPREAD, 24, ("softmax", 24))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.CONFIRMED)
    assert prescribe(advice("loop"), finding, script_patient(SPREAD))
    [finding] = recorded(SPREAD, 24, ("log_softmax", 24))
    assert finding.severity is Severity.NOTE


def test_healthy_recorded_graphs():
    assert recorded(SPREAD, 24) == []
    assert recorded(SPREAD, 24, ("softmax", 2)) == []


COLUMNS = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in torch.utils.data.DataLoader(range(10)):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""


def broadcast(*shapes, text=COLUMNS):
    seen = record("numeric", 3.0, kind="broadcast", step=20, losses=24, shapes=list(shapes), path="/job/train.py",
                  line=7)  # fmt: skip
    recording = make_recording(make_process(make_steps(100), records=[seen]))
    patient = script_patient(text, recording=recording)
    return [(item, prescribe(advice("loop"), item, patient)) for item in examine(SilentBroadcast, patient)]


def test_sick_a_column_of_outputs():
    [(finding, [remedy])] = broadcast([[3, 1], [3, 3], 1], [[24, 1], [24, 24], 20])
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "(24, 1) and the targets (24)" in finding.message and "576 pairs" in finding.message
    assert finding.span.text == "loss = torch.nn.functional.mse_loss(model(x), y)"
    assert remedy.title.startswith("use output.squeeze(1)")


def test_sick_a_column_of_targets():
    [(finding, [remedy])] = broadcast([[24], [24, 24], 20])
    assert "(24) and the targets (24, 1)" in finding.message
    assert remedy.title.startswith("use target.squeeze(1)")


@pytest.mark.parametrize("shapes", [[], [[[8, 1], [8, 8], 1]]])
def test_healthy_once_is_no_habit(shapes):
    assert broadcast(*shapes) == []


def test_healthy_without_a_recording_it_is_skipped():
    with pytest.raises(Unavailable):
        examine(SilentBroadcast, make_patient())


def uncleared(found, steps=100):
    """The findings on a run some of whose steps began with the gradients of the last one."""
    seen = record(
        "numeric", 3.0, step=steps - 1, kind="uncleared", steps=steps, found=found, path="/job/train.py", line=21
    )
    return examine(ZeroGradMissing, make_patient(recording=make_recording(make_process(records=[seen]))))


@pytest.mark.parametrize(("found", "steps"), [(80, 100), (20, 20)])
def test_sick_gradients_that_are_never_cleared(found, steps):
    [finding] = uncleared(found, steps)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.CONFIRMED)
    assert finding.span.line == 21 and finding.cost.breaks
    [remedy] = prescribe(zero_grad_missing, finding, make_patient())
    assert remedy.applicability is Applicability.UNSAFE  # the updates change: that is the point


@pytest.mark.parametrize(("found", "steps"), [(0, 100), (79, 100), (19, 19)])
def test_healthy_gradients_that_are_cleared_or_gathered_now_and_then(found, steps):
    assert uncleared(found, steps) == []
