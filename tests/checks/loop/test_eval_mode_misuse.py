import ast

import pytest
from mending import gone, mended
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.eval_mode_misuse import EvalModeMisuse
from gpudoctor_rules.loop.eval_mode_misuse import EvalModeMisuseRule

GUILTY = {
    "sick_no_grad": ("graph", "out = model(x.to(device))"),
    "sick_no_eval": ("mode", "for images, target in val_loader:"),
    "sick_left_in_eval": ("training", "self.model.eval()"),
    "sick_left_in_eval_periodic": ("training", "net.eval()"),
}


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP002")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP002"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    patient = script_patient(path)
    [finding] = examine(EvalModeMisuse, patient)
    assert (finding.fact("how"), finding.span.text) == GUILTY[path.stem]
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.SUSPECTED)
    [remedy] = prescribe(EvalModeMisuseRule, finding, patient)
    safe = finding.fact("how") == "graph"  # the metric stays the same, only the graph goes
    assert (remedy.applicability is Applicability.SAFE) == safe


@pytest.mark.parametrize("path", healthy_scripts("LOOP002"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(EvalModeMisuse, script_patient(path)) == []


LOOP = """
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), {layer})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for epoch in range(3):
        {head}
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        {tail}
"""


def look(layer="torch.nn.Dropout(0.1)", head="pass", tail="model.eval()"):
    return examine(EvalModeMisuse, script_patient(LOOP.format(layer=layer, head=head, tail=tail)))


def test_sick_loops():
    assert [f.severity for f in look()] == [Severity.WARNING]
    assert [f.severity for f in look(layer="torch.nn.ReLU()")] == [Severity.NOTE]  # both modes are the same
    assert [f.severity for f in look(tail="if epoch % 2 == 0: model.eval()")] == [Severity.WARNING]


@pytest.mark.parametrize(
    "change",
    [
        {"head": "model.train()"},
        {"tail": "model.eval(); model.train()"},
        {"tail": "if epoch == 2: model.eval()"},
        {"tail": "other.eval()"},
        {"tail": "model[1].eval()"},
        {"tail": "pass"},
    ],
)
def test_healthy_loops(change):
    assert look(**change) == []


@pytest.mark.parametrize("name", sorted(GUILTY))
def test_the_edit_cures(name):
    path = next(path for path in sick_scripts("LOOP002") if path.stem == name)
    text = path.read_text(encoding="utf-8")
    assert gone("LOOP002", text)
    new = mended(text, select="LOOP002")
    ast.parse(new)
    assert mended(new, select="LOOP002") == new


def test_gradients_alone_are_switched_off_without_asking():
    path = next(path for path in sick_scripts("LOOP002") if path.stem == "sick_no_grad")
    assert "@torch.no_grad()\ndef validate" in mended(
        path.read_text(encoding="utf-8"), unsafe=False, select="LOOP002"
    )
