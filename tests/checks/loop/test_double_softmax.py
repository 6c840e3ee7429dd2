import ast

import pytest
from mending import gone, mended
from recordings import make_process, make_recording, make_steps, record
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.double_softmax import DoubleSoftmax
from gpudoctor_rules.loop.double_softmax import DoubleSoftmaxRule

GUILTY = {
    "sick_forward": ("softmax", "loss = criterion(output, target)"),
    "sick_sequential": ("softmax", "loss = loss_fn(model(x), y)"),
    "sick_variable": ("softmax", "loss = F.cross_entropy(probs, y)"),
    "sick_sigmoid": ("sigmoid", "loss = criterion(tagger(x), y)"),
    "sick_helper": ("softmax", "return self.criterion(out.view(-1, 3), y.view(-1))"),
}

LOOP = """
    import torch
    import torch.nn.functional as F
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader([1]):
        out = model(x)
        {loss}
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def look(loss):
    return examine(DoubleSoftmax, script_patient(LOOP.format(loss=loss)))


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP006")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP006"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    [finding] = examine(DoubleSoftmax, script_patient(path))
    assert (finding.detail.how, finding.span.text) == GUILTY[path.stem]
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.SUSPECTED)
    assert finding.cost.breaks


@pytest.mark.parametrize("path", healthy_scripts("LOOP006"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(DoubleSoftmax, script_patient(path)) == []


@pytest.mark.parametrize(
    ("loss", "severity"),
    [
        ("loss = F.cross_entropy(F.softmax(out, dim=1), y)", Severity.ERROR),
        ("loss = F.cross_entropy(input=out.softmax(-1), target=y)", Severity.ERROR),
        ("loss = F.cross_entropy(torch.log_softmax(out, 1), y)", Severity.NOTE),
        ("loss = F.nll_loss(torch.log(F.softmax(out, dim=1)), y)", Severity.WARNING),
        ("loss = F.nll_loss(out.softmax(1).log(), y)", Severity.WARNING),
    ],
)
def test_sick_calls(loss, severity):
    [finding] = look(loss)
    assert finding.severity is severity
    assert bool(finding.cost.breaks) == (severity is Severity.ERROR)


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(out, F.softmax(y, dim=1))",
        "loss = F.nll_loss(F.log_softmax(out, dim=1), y)",
        "loss = F.cross_entropy(torch.log(F.softmax(out, dim=1) + 1e-9), y)",
        "loss = F.cross_entropy(F.softmax(out, dim=0), y)",
        "loss = F.binary_cross_entropy(torch.sigmoid(out), y)",
        "loss = F.cross_entropy(torch.sigmoid(out), y)",
    ],
)
def test_healthy_calls(loss):
    assert look(loss) == []


def test_healthy_in_an_evaluation():
    text = """
    import torch, torch.nn.functional as F
    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                loss = F.cross_entropy(F.softmax(model(x), dim=1), y)
    """
    assert examine(DoubleSoftmax, script_patient(text)) == []


@pytest.mark.parametrize("name", sorted(GUILTY))
def test_the_edit_cures(name):
    path = next(path for path in sick_scripts("LOOP006") if path.stem == name)
    text = path.read_text(encoding="utf-8")
    patient = script_patient(path)
    [remedy] = prescribe(DoubleSoftmaxRule, examine(DoubleSoftmax, patient)[0], patient)
    assert remedy.applicability is Applicability.UNSAFE
    assert gone("LOOP006", text)
    ast.parse(mended(text, select="LOOP006"))


def test_the_loss_takes_the_logits_that_are_still_there():
    path = next(path for path in sick_scripts("LOOP006") if path.stem == "sick_variable")
    new = mended(path.read_text(encoding="utf-8"), select="LOOP006")
    assert "F.cross_entropy(logits, y)" in new
    assert "probs = torch.softmax(logits, dim=-1)" in new  # the metric keeps its own


def test_the_logarithm_is_mended():
    text = LOOP.format(loss="loss = F.nll_loss(torch.log(F.softmax(out, dim=1)), y)")
    import textwrap

    new = mended(textwrap.dedent(text), select="LOOP006")
    assert "F.nll_loss(F.log_softmax(out, dim=1), y)" in new


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
DIRECT = """
    import torch
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in torch.utils.data.DataLoader(range(10)):
        loss = torch.nn.functional.cross_entropy(torch.softmax(model(x), 1), y)
        loss.backward()
        optimizer.step()
"""


def recorded(text, losses, *made_by):
    seen = record("numeric", 3.0, kind="normalised", step=20, losses=losses, made_by=[list(item) for item in made_by],
                  path="/job/train.py", line=8)  # fmt: skip
    recording = make_recording(make_process(make_steps(100), records=[seen]))
    return examine(DoubleSoftmax, script_patient(text, recording=recording))


def test_sick_a_recorded_graph_shows_what_no_source_does():
    assert examine(DoubleSoftmax, script_patient(SPREAD)) == []
    [finding] = recorded(SPREAD, 24, ("softmax", 24))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.CONFIRMED)
    assert {10} <= {item.line for item in finding.evidence if hasattr(item, "line")}
    assert prescribe(DoubleSoftmaxRule, finding, script_patient(SPREAD))
    [finding] = recorded(SPREAD, 24, ("log_softmax", 24))
    assert finding.severity is Severity.NOTE


def test_healthy_recorded_graphs():
    assert recorded(SPREAD, 24) == []
    assert recorded(SPREAD, 24, ("softmax", 2)) == []


def test_a_recording_refutes_what_the_source_suspects_only_where_it_saw_losses():
    assert len(examine(DoubleSoftmax, script_patient(DIRECT))) == 1
    assert len(recorded(DIRECT, 3)) == 1
    assert recorded(DIRECT, 24) == []


FAMILIES = """
    import torch
    from torch import nn
    class Fitter:
        def __init__(self, rows):
            self.rule = nn.CrossEntropyLoss()
            self.rows = rows
        def fit(self):
            for x, y in torch.utils.data.DataLoader(self.rows):
                loss = self.rule(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    class Wide(Fitter):
        def __init__(self, rows, depth=1):
            super().__init__(rows)
            {wide}
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    class Scorer:
        def __init__(self):
            self.net = {scorer}
    Wide(torch.load("rows.pt")).fit()
    print(Scorer().net)
"""
SOFT, HARD = "nn.Sequential(nn.Linear(8, 4), nn.Softmax(dim=1))", "nn.Sequential(nn.Linear(8, 4), nn.ReLU())"


@pytest.mark.parametrize(
    ("wide", "scorer", "findings"),
    [
        (f"self.net = {SOFT}", HARD, 1),
        (f"self.net = {HARD}", SOFT, 0),
        ("self.net = nn.Linear(8, 4)", SOFT, 0),
        (f"self.net = {HARD} if depth else {HARD}", SOFT, 0),
    ],
)
def test_only_a_network_of_the_class_or_its_family_is_the_one_whose_loss_it_is(wide, scorer, findings):
    script = FAMILIES.format(wide=wide, scorer=scorer)
    assert len(examine(DoubleSoftmax, script_patient(script))) == findings


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
    return [(item, prescribe(DoubleSoftmaxRule, item, patient)) for item in examine(DoubleSoftmax, patient)]


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


@pytest.mark.parametrize(
    ("head", "said"),
    [("if True:", 0), ("for row in rows:", 1), ("def objective(row):", 1)],
)
def test_a_logarithm_that_is_taken_once_trains_nothing(head, said):
    text = f"import torch\nrows = [torch.ones(3)]\nrow = rows[0]\n{head}\n    low = torch.log(torch.softmax(row, 1))\n"
    assert len(examine(DoubleSoftmax, script_patient(text))) == said
