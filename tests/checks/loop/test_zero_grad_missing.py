import pytest
from edits import apply_edits
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.zero_grad_missing import ZeroGradMissing
from gpudoctor_rules.loop import zero_grad_missing

GUILTY = {
    "sick_plain": "optimizer.step()",
    "sick_once_an_epoch": "scaler.step(optimizer)",
    "sick_class": "self.optimizer.step()",
    "sick_generator": "opt_g.step()",
}

LOOP = """
    import torch
    {imports}
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for step, x in enumerate(loader):
        {before}
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        {after}
"""


def look(before="pass", after="pass", imports="pass"):
    return examine(ZeroGradMissing, script_patient(LOOP.format(before=before, after=after, imports=imports)))


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP001")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP001"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    [finding] = examine(ZeroGradMissing, script_patient(path))
    assert finding.span.text == GUILTY[path.stem]
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.SUSPECTED)
    assert finding.cost.breaks


@pytest.mark.parametrize("path", healthy_scripts("LOOP001"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(ZeroGradMissing, script_patient(path)) == []


@pytest.mark.parametrize("before", ["pass", "if step == 0: optimizer.zero_grad()"])
def test_sick_loops(before):
    assert len(look(before=before)) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("optimizer.zero_grad()", "pass"),
        ("pass", "optimizer.zero_grad(set_to_none=True)"),
        ("model.zero_grad()", "pass"),
        ("[p.grad.zero_() for p in model.parameters()]", "pass"),
        ("for p in model.parameters(): p.grad = None", "pass"),
        ("if step % 1 == 0: optimizer.zero_grad()", "pass"),
        ("reset(optimizer)", "pass"),
    ],
)
def test_healthy_loops(before, after):
    assert look(before, after, imports="from somewhere import reset") == []


def test_healthy_without_a_step():
    text = LOOP.format(imports="pass", before="pass", after="pass").replace("optimizer.step()", "pass")
    assert examine(ZeroGradMissing, script_patient(text)) == []


@pytest.mark.parametrize("name", sorted(GUILTY))
def test_the_rule_cures(name):
    path = next(path for path in sick_scripts("LOOP001") if path.stem == name)
    patient = script_patient(path)
    [finding] = examine(ZeroGradMissing, patient)
    [remedy] = prescribe(zero_grad_missing, finding, patient)
    assert remedy.applicability is Applicability.UNSAFE  # the updates change: that is the point
    cured = apply_edits(path.read_text(), remedy.edits)
    assert examine(ZeroGradMissing, script_patient(cured)) == []


CLOCK, TARGET = "time.perf_counter()", "wanted = torch.randint(0, 3, (size,)).cuda()"


XLA = """
    import torch
    import torch_xla.core.xla_model as xm

    model = torch.nn.Linear(4, 1).to(xm.xla_device())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        {clear}
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        {step}
"""


@pytest.mark.parametrize(
    ("clear", "step", "found"),
    [
        ("pass", "optimizer.step(); xm.mark_step()", 1),
        ("optimizer.zero_grad()", "optimizer.step(); xm.mark_step()", 0),
        ("optimizer.zero_grad()", "xm.optimizer_step(optimizer)", 0),
        ("pass", "xm.optimizer_step(optimizer)", 0),  # it has the optimizer: what it does there was not read
    ],
)
def test_torch_xla_steps_and_never_clears(clear, step, found):
    assert len(examine(ZeroGradMissing, script_patient(XLA.format(clear=clear, step=step)))) == found
