import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Confidence, Severity, Unavailable
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.double_softmax import DoubleSoftmax
from gpudoctor_rules.advice import advice

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
