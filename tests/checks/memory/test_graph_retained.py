import pytest
from scripts import script_patient, sick_scripts

from gpudoctor.model import Applicability
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.memory.graph_retained import GraphRetained
from gpudoctor_rules.advice import advice

LOOP = """
    import torch
    model = torch.nn.Linear(8, 1)
    criterion = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    total, kept, history, seen = 0, [], {{}}, set()
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, x)
        loss.backward()
        optimizer.step()
        {statement}
"""


def look(statement):
    return examine(GraphRetained, script_patient(LOOP.format(statement=statement)))


@pytest.mark.parametrize(
    "statement", ["total += loss", "total = total + loss", "kept.append(loss)", "history['sum'] += loss"]
)
def test_sick_statements(statement):
    [finding] = look(statement)
    assert finding.evidence


@pytest.mark.parametrize(
    "statement",
    [
        "total += out.max(1).indices.sum()",
        "best = out.topk(5); kept.append(best[1])",
        "total += loss.new_tensor(3)",
        "total += loss.item()",
        "total += loss.detach().cpu().mean()",
        "total += float(loss)",
        "total += (out.argmax(1) == x.argmax(1)).sum()",
        "total += x.sum()",
        "kept.append(loss.detach())",
        "kept = [loss]",
        "history['last'] = loss",
        "value = loss.item(); kept.append(value)",
        "loss = loss.detach(); total += loss",
        "kept.append(loss); kept.clear()",
        "if step == 0: kept.append(loss)",
        "kept.append(f'{loss:.3f}')",
        "kept.append(helper(out))",
    ],
)
def test_healthy_statements(statement):
    assert look(statement) == []


STEP_LOSSES = """
    import torch
    net = torch.nn.Linear(6, 6)
    optimizer = torch.optim.Adam(net.parameters())

    def rollout(x, costs):
        for _ in range(4):
            x = net(x)
            costs.append(x.square().mean())

    def main(loader):
        for x in loader:
            costs = []
            rollout(x, costs)
            optimizer.zero_grad()
            torch.stack(costs).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize("name", ["sick_total", "sick_history", "step_losses"])
def test_no_edit_cuts_a_graph_that_a_backward_pass_may_need(name):
    script = next((path for path in sick_scripts("MEM003") if path.stem == name), STEP_LOSSES)
    patient = script_patient(script)
    findings = examine(GraphRetained, patient)
    assert bool(findings) is (name != "step_losses"), "a new list for each step keeps nothing"
    for finding in findings:
        [remedy] = prescribe(advice("memory"), finding, patient)
        assert (remedy.edits, remedy.applicability) == ((), Applicability.DISPLAY_ONLY)
        assert ".detach()" in remedy.steps[0] and "backward" in remedy.steps[-1]
