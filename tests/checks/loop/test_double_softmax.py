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
    assert {10} <= {item.line for item in finding.evidence if hasattr(item, "line")}
    assert prescribe(advice("loop"), finding, script_patient(SPREAD))
    [finding] = recorded(SPREAD, 24, ("log_softmax", 24))
    assert finding.severity is Severity.NOTE


def test_healthy_recorded_graphs():
    assert recorded(SPREAD, 24) == []
    assert recorded(SPREAD, 24, ("softmax", 2)) == []


SOFT, HARD = "nn.Sequential(nn.Linear(8, 4), nn.Softmax(dim=1))", "nn.Sequential(nn.Linear(8, 4), nn.ReLU())"


LIKELIHOOD = """
    import torch
    from torch.nn import functional as F
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in torch.utils.data.DataLoader(range(10)):
        loss = F.nll_loss(F.log_softmax(model(x), dim=0), y)
        loss.backward()
        optimizer.step()
"""


def unnormalised(losses, *made_by):
    seen = record("numeric", 3.0, kind="unnormalised", step=20, losses=losses, path="/job/train.py", line=8,
                  made_by=[list(item) for item in made_by])  # fmt: skip
    recording = make_recording(make_process(make_steps(100), records=[seen]))
    patient = script_patient(LIKELIHOOD, recording=recording)
    return [(item, prescribe(advice("loop"), item, patient)) for item in examine(DoubleSoftmax, patient)]


@pytest.mark.parametrize(
    ("how", "words", "title"),
    [
        ("dimension", "log_softmax over another dimension", "apply log_softmax over the classes"),
        ("softmax", "probabilities without their logarithm", "use cross_entropy on the scores"),
        ("scores", "scores that no log_softmax has normalised", "use cross_entropy on the scores"),
    ],
)
def test_sick_what_nll_loss_is_given_is_no_log_probability(how, words, title):
    [(finding, [remedy])] = unnormalised(24, (how, 24))
    assert finding.severity is Severity.ERROR and finding.cost.breaks and words in finding.message
    assert finding.span.line == 7 and remedy.title == title


def test_healthy_one_of_many_losses_is_given_something_else():
    assert unnormalised(64, ("scores", 10)) == []
    assert unnormalised(6, ("scores", 6)) == []
