import textwrap

import pytest
from scripts import script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.loop.eval_mode_misuse import EvalModeMisuse

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
    assert [f.severity for f in look()] == [Severity.NOTE]
    assert [f.severity for f in look(layer="torch.nn.ReLU()")] == [Severity.NOTE]  # both modes are the same
    assert [f.severity for f in look(tail="if epoch % 2 == 0: model.eval()")] == [Severity.NOTE]


@pytest.mark.parametrize(
    ("head", "severity"),
    [
        ("for x, y in loader:", Severity.WARNING),
        ("for at, (x, y) in enumerate(loader):\n        if at >= 200: break", Severity.WARNING),
        ("for at, (x, y) in enumerate(loader):\n        if at >= 5: break", Severity.NOTE),
        ("for _, (x, y) in zip(range(4), loader):", Severity.NOTE),
        ("for x, y in loader:\n        if x.size(0) < 3: continue", Severity.WARNING),
    ],
)
def test_a_graph_for_a_few_batches_is_a_note(head, severity):
    path = next(path for path in sick_scripts("LOOP002") if path.stem == "sick_no_grad")
    text = path.read_text(encoding="utf-8").replace("for x, y in loader:", head)
    [finding] = examine(EvalModeMisuse, script_patient(text))
    assert (finding.detail.how, finding.severity) == ("graph", severity)


SALIENCY = """
import torch
from torch import nn
from torch.utils.data import DataLoader
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    net.eval()
    x.requires_grad_()
    net(x).gather(1, y.view(-1, 1)).sum().backward()
    LEARN
"""


@pytest.mark.parametrize(("learn", "found"), [("print(x.grad.abs().max())", 0), ("opt.step()", 1)])
def test_gradients_of_the_input_train_nothing(learn, found):
    said = examine(EvalModeMisuse, script_patient(SALIENCY.replace("LEARN", learn)))
    assert len([item for item in said if item.detail.how == "training"]) == found


def test_a_network_of_another_file_in_a_program_that_only_scores(tmp_path):
    (tmp_path / "encoder.py").write_text(
        textwrap.dedent("""
        from torch import nn

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 4)

            def forward(self, x):
                return self.inner(x)
        """)
    )
    path = tmp_path / "score.py"
    path.write_text(
        textwrap.dedent("""
        from encoder import Encoder

        def evaluate(loader):
            net, seen = Encoder(), []
            for x, y in loader:
                seen.append(net(x))
            return seen
        """)
    )
    [finding] = examine(EvalModeMisuse, script_patient(path))
    assert finding.detail.how == "graph"


UNFINISHED = """
    import torch
    net = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=4):
        torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
        optimizer.step()
    for x, y in torch.utils.data.DataLoader(torch.load("more.pt"), batch_size=4):
        {line}
        losses = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
"""


@pytest.mark.parametrize(("line", "found"), [("optimizer.zero_grad()", 0), ("net.eval()", 1)])
def test_a_loop_that_clears_gradients_is_no_evaluation(line, found):
    assert len(examine(EvalModeMisuse, script_patient(UNFINISHED.format(line=line)))) == found
