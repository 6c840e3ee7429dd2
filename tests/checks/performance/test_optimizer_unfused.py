import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_torch, prescribe
from gpudoctor_checks.performance.optimizer_unfused import OptimizerUnfused
from gpudoctor_rules.performance import optimizer_unfused

FOLDER = PATIENTS / "PERF005"
TITLES = {"sick_foreach_off": "fused=True", "sick_own_class": "_foreach_", "sick_by_hand": "torch.optim.SGD("}


@pytest.mark.parametrize("path", sick_scripts("PERF005"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(OptimizerUnfused, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(optimizer_unfused, finding, patient)
    assert TITLES[path.stem] in remedy.title


@pytest.mark.parametrize("path", healthy_scripts("PERF005"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(OptimizerUnfused, script_patient(path)) == []


def test_sick_default_of_an_old_torch():
    path = FOLDER / "healthy_default.py"
    [finding] = examine(OptimizerUnfused, script_patient(path, torch=make_torch("1.13.1+cu117")))
    [remedy] = prescribe(optimizer_unfused, finding, script_patient(path))
    assert "foreach=True" in remedy.title


def test_sick_edit_cures():
    text = (FOLDER / "sick_foreach_off.py").read_text("utf-8")
    assert gone("PERF005", text)
    after = mended(text, select="PERF005")
    assert "fused=True" in after and "foreach" not in after


def test_healthy_an_own_optimizer_that_no_default_chooses():
    script = (FOLDER / "sick_own_class.py").read_text()
    line = "    optimizer = Lion(model.parameters())"
    chosen = f"""    import argparse
    words = argparse.ArgumentParser()
    words.add_argument("--rule", default="sgd")
    if words.parse_args().rule == "lion":
    {line}
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
    assert line in script
    assert examine(OptimizerUnfused, script_patient(script.replace(line, chosen))) == []
    other = script.replace(line, chosen.replace('default="sgd"', 'default="lion"'))
    assert len(examine(OptimizerUnfused, script_patient(other))) == 1


BY_HAND = """
    import torch
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    for x in torch.utils.data.DataLoader(torch.randn(99, 8)):
        total = 0
        model(x.cuda()).sum().backward()
        with torch.no_grad():
            for name, p in model.named_parameters():
                {line}
        {step}
        model.zero_grad()
"""


@pytest.mark.parametrize(
    ("line", "step", "findings"),
    [
        ("p -= 0.1 * p.grad", "pass", 1),
        ("p.data.add_(p.grad, alpha=-0.1)", "pass", 1),
        ("total += (p.grad * p.grad).sum()", "optimizer.step()", 0),
        ("norms.add_(p.grad.norm())", "optimizer.step()", 0),
    ],
)
def test_only_a_line_that_changes_the_parameter_updates_it(line, step, findings):
    script = BY_HAND.format(line=line, step=step)
    found = [item for item in examine(OptimizerUnfused, script_patient(script)) if item.detail.kind == "hand"]
    assert len(found) == findings


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("[picture]", 0),
        ("(picture, backdrop)", 0),
        ("[head]", 1),
        ("[params]", 1),
        ("net.parameters()", 1),
        ("[{'params': net.parameters()}]", 1),
        ("list(net.parameters())", 1),
    ],
)
def test_an_optimizer_of_a_few_tensors_has_nothing_to_fuse(given, said):
    text = f"""
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).cuda()
        params, head = net.parameters(), {{"params": net[1].parameters(), "lr": 0.1}}
        picture = torch.zeros(3, 64, 64, device="cuda", requires_grad=True)
        backdrop = torch.zeros(3, 64, 64, device="cuda", requires_grad=True)
        optimizer = torch.optim.Adam({given}, lr=0.1, foreach=False)
        for step in range(10_000):
            optimizer.zero_grad()
            loss = net(picture.reshape(-1, 8) + backdrop.reshape(-1, 8)).square().mean()
            loss.backward()
            optimizer.step()
    """
    assert len(examine(OptimizerUnfused, script_patient(text))) == said
