import pytest
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.memory.graph_retained import GraphRetained
from gpudoctor_rules.memory import graph_retained

GUILTY = {
    "sick_total": "total_loss += loss",
    "sick_history": 'self.history["loss"].append(loss)',
    "sick_moving_average": "smooth = 0.98 * smooth + 0.02 * loss",
    "sick_meter": "self.sum += value * n",
    "sick_lightning": "self.losses.append(loss)",
}

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


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("MEM003")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("MEM003"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    [finding] = examine(GraphRetained, script_patient(path))
    assert finding.span.text.startswith(GUILTY[path.stem])
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.SUSPECTED)


@pytest.mark.parametrize("path", healthy_scripts("MEM003"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(GraphRetained, script_patient(path)) == []


@pytest.mark.parametrize(
    "statement",
    [
        "total += loss",
        "total += loss * x.size(0)",
        "total = total + loss",
        "kept.append(out.max(1)[0])",
        "kept.append(torch.maximum(out, x))",
        "total += loss.mean()",
        "total += loss.cpu()",
        "total += criterion(out, x)",
        "kept.append(loss)",
        "kept.append(out)",
        "kept.append((step, loss))",
        "kept.append({'loss': loss, 'step': step})",
        "kept += [loss]",
        "kept.extend([loss, out])",
        "history[step] = loss",
        "kept = kept + [loss]",
        "kept.append(dict(loss=loss))",
        "total = torch.cat([total, out])",
        "history['sum'] += loss",
        "value = loss; kept.append(value)",
        "probability = torch.softmax(out, 1); kept.append(probability)",
        "if step % 10 == 0: kept.append(out)",
    ],
)
def test_sick_statements(statement):
    [finding] = look(statement)
    assert finding.evidence


UNREAD = """
    import torch
    from elsewhere import build, helper, loader
    model, optimizer = build()
    total, aux_total, kept = 0, 0, []
    for batch in loader:
        optimizer.zero_grad()
        loss, logs = helper(model, batch)
        aux = helper(batch)
        full = loss + 0.1 * aux
        full.backward()
        optimizer.step()
        {statement}
"""


@pytest.mark.parametrize("statement", ["total += loss", "total += full", "aux_total += aux"])
def test_sick_when_only_the_backward_tells(statement):
    assert len(examine(GraphRetained, script_patient(UNREAD.format(statement=statement)))) == 1


SHARED = """
    import torch
    from elsewhere import build, drawn, loader, measure
    model, optimizer = build()
    right = total = 0
    for x, y, other in loader:
        share = drawn(x)
        out = model(x)
        loss = share * measure(out, y) + (1 - share) * measure(out, other)
        guess = out.data.argmax(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {statement}
"""


@pytest.mark.parametrize(
    ("statement", "findings"),
    [
        ("right += share * guess.eq(y).cpu().sum().float() + (1 - share) * (guess == other).sum()", 0),
        ("right += share", 0),
        ("total += loss", 1),
        ("total += share * measure(out, y) + loss", 1),
        ("total += loss.item() if right else loss", 0),
        ("total += loss if isinstance(loss, float) else float(loss.detach())", 0),
        ("total += 2 * loss if right else loss", 1),
    ],
)
def test_the_factor_of_a_computed_loss_brings_no_graph(statement, findings):
    assert len(examine(GraphRetained, script_patient(SHARED.format(statement=statement)))) == findings


@pytest.mark.parametrize("statement", ["kept.append(logs)", "total += loss.item()", "total += float(aux)"])
def test_healthy_when_nothing_tells(statement):
    assert examine(GraphRetained, script_patient(UNREAD.format(statement=statement))) == []


@pytest.mark.parametrize(
    "statement",
    [
        "total += out.max(1).indices.sum()",
        "total += torch.max(out, 1)[1].sum()",
        "best = out.topk(5); kept.append(best[1])",
        "total += loss.new_tensor(3)",
        "total += loss.item()",
        "total += loss.detach()",
        "total += loss.detach().cpu().mean()",
        "total += loss.data",
        "total += float(loss)",
        "total += loss.item() * x.size(0)",
        "total += (out.argmax(1) == x.argmax(1)).sum()",
        "total += x.sum()",
        "kept.append(x)",
        "kept.append(loss.detach())",
        "kept.append(loss.cpu().detach().numpy())",
        "kept = [loss]",
        "history['last'] = loss",
        "value = loss.item(); kept.append(value)",
        "loss = loss.detach(); total += loss",
        "kept.append(loss); kept.clear()",
        "if step == 0: kept.append(loss)",
        "total += 1",
        "kept.append(step)",
        "kept.append(out.shape)",
        "kept.append(f'{loss:.3f}')",
        "kept.append(helper(out))",
    ],
)
def test_healthy_statements(statement):
    assert look(statement) == []


def test_healthy_micro_batches_of_one_step():
    text = """
        def forward_backward(model, batches):
            outputs = []
            for batch in batches:
                loss = model(batch).mean()
                loss.backward()
                outputs.append(loss)
            return outputs
    """
    assert examine(GraphRetained, script_patient(text)) == []


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
    assert findings
    for finding in findings:
        [remedy] = prescribe(graph_retained, finding, patient)
        assert (remedy.edits, remedy.applicability) == ((), Applicability.DISPLAY_ONLY)
        assert ".detach()" in remedy.title and "backward" in remedy.steps[-1]


@pytest.mark.parametrize(
    "statement", ["kept.append((step, loss))", "kept.append(dict(loss=loss))", "kept = kept + [loss]", "kept += [loss]"]
)
def test_the_rule_leaves_a_display_to_a_person(statement):
    patient = script_patient(LOOP.format(statement=statement))
    [finding] = examine(GraphRetained, patient)
    [remedy] = prescribe(graph_retained, finding, patient)
    assert remedy.edits == ()
    assert remedy.applicability is Applicability.DISPLAY_ONLY


SCORED = """
    import torch
    from elsewhere import loader

    class Meter:
        def __init__(self):
            self.sums = {{}}

        def update(self, scores):
            for name in range(3):
                self.sums[name] += scores[name]

    def run(model, criterion, optimizer):
        total, meter = 0, Meter()
        for x, y in loader:
            optimizer.zero_grad()
            out, hidden = model(x)
            loss, aux_loss, scores = criterion(out, y)
            loss.backward()
            optimizer.step()
            {statement}
"""


@pytest.mark.parametrize(
    ("statement", "findings"),
    [
        ("total += scores[0]", 0),
        ("meter.update(scores)", 0),
        ("total += scores", 0),
        ("total += aux_loss", 1),
        ("total += hidden", 1),
        ("meter.update(hidden)", 1),
    ],
)
def test_what_a_loss_function_gives_beside_the_loss_may_be_numbers(statement, findings):
    assert len(examine(GraphRetained, script_patient(SCORED.format(statement=statement)))) == findings


@pytest.mark.parametrize(
    ("made", "keeps", "findings"),
    [
        ("Running()", "kept.append(loss)", 0),
        ("[]", "kept.append(loss, count=x.size(0))", 0),
        ("[]", "kept.append(loss)", 1),
        ("collections.deque()", "kept.append(loss)", 1),
    ],
)
def test_an_append_of_a_librarys_own_class_is_its_business(made, keeps, findings):
    text = (
        LOOP.format(statement=keeps)
        .replace("total, kept", "total, other")
        .replace(
            "total, other",
            f"from somelib.meters import Running\n    import collections\n    kept = {made}\n    total, other",
        )
    )
    assert len(examine(GraphRetained, script_patient(text))) == findings


ARMS = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(loader, train):
        kept, total = [], 0
        for x in loader:
            out = model(x)
            loss = out.mean()
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                {trained}
            else:
                {evaluated}
        return kept

    for epoch in range(10):
        run(torch.utils.data.DataLoader(torch.randn(1000, 8)), True)
        run(torch.utils.data.DataLoader(torch.randn(1000, 8)), False)
"""


@pytest.mark.parametrize(
    ("trained", "evaluated", "findings"),
    [("pass", "kept.append(out)", 0), ("kept.append(out)", "pass", 1)],
    ids=["healthy", "sick"],
)
def test_the_arm_without_a_backward_is_no_training_step(trained, evaluated, findings):
    text = ARMS.format(trained=trained, evaluated=evaluated)
    assert len(examine(GraphRetained, script_patient(text))) == findings


BOTH = """
    import torch

    def measure(out, y):
        errors = (out - y).pow(2).mean(0)
        shown = {shown}
        return errors.mean(), shown

    class Sums:
        def __init__(self):
            self.all = {{}}

        def update(self, errors):
            for part in range(4):
                self.all[part] += errors[part]

    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sums = Sums()
    for x, y in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        loss, errors = measure(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sums.update(errors)
"""


@pytest.mark.parametrize(("shown", "found"), [("errors.cpu().detach().numpy()", 0), ("errors * 2", 1)])
def test_each_result_of_a_function_is_told_apart(shown, found):
    assert len(examine(GraphRetained, script_patient(BOTH.format(shown=shown)))) == found


LAYERED = """
    import torch
    from torch import nn

    total = torch.zeros(())

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.drop = nn.Linear(8, 8), nn.Dropout(0.1)
            self.kept = []

        def add(self, drop, out):
            return drop(out)

        def forward(self, x):
            out = self.dense(x)
            {statement}
            return out

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block() for _ in range(3)])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.load("x.pt"), batch_size=4):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "statement", ["out = self.add(self.drop, out)", "out = out + self.dense(out)", "out = torch.cat([out, x])"]
)
def test_healthy_a_method_called_add_and_names_of_the_call(statement):
    assert examine(GraphRetained, script_patient(LAYERED.format(statement=statement))) == []


@pytest.mark.parametrize("statement", ["self.kept.append(out)", "global total; total = total + out.mean()"])
def test_sick_a_layer_that_keeps_its_outputs(statement):
    assert len(examine(GraphRetained, script_patient(LAYERED.format(statement=statement)))) == 1


MODULE = """
    import collections
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(8, 8)
            self.kept = {container}

        def forward(self, x):
            out = self.first(x)
            {keep}
            return {result}

        def reset(self):
            self.kept = []

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, x):
            return self.net(x)

    model = {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        optimizer.zero_grad()
        {loss}
        loss.backward()
        optimizer.step()
        {after}
"""
KEEPING = {
    "container": "[]", "keep": "self.kept.append(out)", "result": "out", "model": "Net()",
    "loss": "loss = model(torch.randn(4, 8)).sum()", "after": "pass",
}  # fmt: skip


@pytest.mark.parametrize("model", ["Net()", "Outer()"])
@pytest.mark.parametrize(
    "loss",
    [
        "loss = model(torch.randn(4, 8)).sum()",
        "loss = model(torch.randn(4, 8)).pow(2).mean()",
        "out = model(torch.randn(4, 8)); loss = out.sum()",
        "loss = torch.nn.functional.mse_loss(model(torch.randn(4, 8)), torch.zeros(4, 8))",
    ],
)
def test_sick_module_that_keeps_its_outputs(model, loss):
    [finding] = examine(GraphRetained, script_patient(MODULE.format(**KEEPING | {"model": model, "loss": loss})))
    assert finding.detail.target == "self.kept" and finding.detail.value == "out"


@pytest.mark.parametrize(
    "healthy",
    [
        {"keep": "self.kept.append(out.detach())"},
        {"keep": "self.kept = [out]"},
        {"keep": "self.kept.append(out)", "container": "collections.deque(maxlen=8)"},
        {"keep": "self.kept.append(out); self.kept.clear()"},
        {"after": "model.kept.clear()"},
        {"after": "model.kept = []"},
        {"after": "model.reset()"},
        {"model": "Outer()", "after": "model.net.kept.clear()"},
        {"model": "Outer()", "after": "model.net.reset()"},
        {"result": "torch.stack(self.kept).sum(0)"},
        {"loss": "model(torch.randn(4, 8)); loss = torch.stack(model.kept).sum()"},
        {"keep": "pass"},
    ],
)
def test_healthy_module_whose_outputs_do_not_stay(healthy):
    assert examine(GraphRetained, script_patient(MODULE.format(**KEEPING | healthy))) == []


BRANCHES = """
    import torch
    from elsewhere import Options, loader

    class Agent:
        def __init__(self, learned, imagine):
            self.learned = learned
            self.imagine = imagine
            self.rate = 0.9
            self.net = torch.nn.Linear(8, 1).cuda()
            self.warmth = torch.nn.Parameter(torch.zeros(1))
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def penalty(self, x):
            if self.imagine:
                return self.net(x).mean()
            return {otherwise}

        def fit(self):
            kept, total = [], 0.0
            rate = self.rate
            for x, y in loader:
                extra = 0.0
                if self.learned:
                    rate = torch.sigmoid(self.warmth)
                if self.imagine:
                    extra = self.net(x).mean()
                if self.learned:
                    aux = self.net(x).mean()
                else:
                    aux = self.net(y).sum()
                error = ((self.net(x) - rate * y) ** 2).mean()
                sum_of_all = error + 0.1 * extra + aux
                self.optimizer.zero_grad()
                sum_of_all.backward()
                self.optimizer.step()
                {statement}

    options = Options()
    Agent(options.learned, options.imagine).fit()
"""


@pytest.mark.parametrize(
    ("statement", "otherwise", "findings"),
    [
        ("kept.append(rate.item() if self.learned else rate)", "0.0", 0),
        ("kept.append(extra if isinstance(extra, float) else extra.item())", "0.0", 0),
        ("kept.append(rate)", "0.0", 0),
        ("kept.append(extra)", "0.0", 0),
        ("total += self.penalty(x)", "0.0", 0),
        ("total += self.penalty(x)", "self.net(x).mean().item()", 0),
        ("total += self.penalty(x)", "self.net(x).sum()", 1),
        ("kept.append(aux)", "0.0", 1),
        ("kept.append(error)", "0.0", 1),
        ("kept.append(sum_of_all)", "0.0", 1),
    ],
)
def test_a_value_is_named_only_where_every_branch_gives_it_a_graph(statement, otherwise, findings):
    script = BRANCHES.format(statement=statement, otherwise=otherwise)
    assert len(examine(GraphRetained, script_patient(script))) == findings


@pytest.mark.parametrize(("backward", "findings"), [("extra.backward()", 1), ("(error + extra).backward()", 0)])
def test_what_a_backward_is_called_on_has_a_graph_on_every_branch(backward, findings):
    script = BRANCHES.format(statement="kept.append(extra)", otherwise="0.0")
    script = script.replace("sum_of_all.backward()", backward)
    assert len(examine(GraphRetained, script_patient(script))) == findings


@pytest.mark.parametrize("statement", ["kept.append(extra)", "total += extra"])
def test_healthy_a_number_that_is_only_logged_and_a_tensor_where_a_switch_is_on(statement):
    script = BRANCHES.format(statement=statement, otherwise="0.0")
    script = script.replace("error + 0.1 * extra + aux", "error")
    assert examine(GraphRetained, script_patient(script)) == []


NORMS = """
    import math
    import torch
    from torch import nn

    def norm_of(parameters):
        total = 0
        for parameter in parameters:
            total += parameter.grad.norm() ** 2
        return math.sqrt(total)

    class Critic:
        def __init__(self):
            self.net = nn.Linear(4, 1)
            self.optimizer = torch.optim.Adam(self.net.parameters())
            self.limit = 1.0
        def update(self, x, y):
            loss = ((self.net(x) - y) ** 2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            if self.limit:
                norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.limit)
            else:
                norm = norm_of(self.net.parameters())
            self.optimizer.step()
            return loss, norm

    critic, told = Critic(), {"loss": 0, "norm": 0}
    for x, y in torch.utils.data.DataLoader(torch.randn(1000, 2, 4)):
        loss, norm = critic.update(x, y)
        told["loss"] += loss.item()
        told["norm"] += NORM
"""


def test_a_norm_of_gradients_that_comes_with_a_loss_has_no_graph():
    assert examine(GraphRetained, script_patient(NORMS.replace("NORM", "norm"))) == []
    [finding] = examine(GraphRetained, script_patient(NORMS.replace("NORM", "loss")))
    assert finding.message.startswith("told['norm'] adds up loss with its autograd graph")


MIXED = """
    import torch
    from torch import nn

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 3)
            self.share = nn.Parameter(torch.zeros(1))
        def forward(self, x):
            share = SHARE
            index = torch.randperm(x.size(0))
            return self.net(share * x + (1 - share) * x[index]), index, share

    model = Mixed()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    right = torch.zeros(1)
    for x, y in torch.utils.data.DataLoader(torch.randn(1000, 2, 4)):
        optimizer.zero_grad()
        out, index, share = model(x)
        loss = share * nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        _, best = out.max(1)
        right += share * best.eq(y).sum().float() + (1 - share) * best.eq(y[index]).sum().float()
"""


def test_of_several_outputs_of_a_network_only_what_it_computed_has_a_graph():
    drawn = MIXED.replace("SHARE", "torch.distributions.Beta(0.2, 0.2).sample()")
    assert examine(GraphRetained, script_patient(drawn)) == []
    learned = MIXED.replace("SHARE", "torch.sigmoid(self.share)")
    [finding] = examine(GraphRetained, script_patient(learned))
    assert finding.message.startswith("right adds up share * ")


def test_a_sum_of_integers_has_no_graph():
    text = LOOP.format(statement="total += loss").replace(
        "total, kept, history, seen = 0, [], {}, set()", "total = torch.zeros([], dtype=DTYPE)"
    )
    assert examine(GraphRetained, script_patient(text.replace("DTYPE", "torch.int"))) == []
    assert len(examine(GraphRetained, script_patient(text.replace("DTYPE", "torch.float32")))) == 1


MEASURED = """
    import torch
    from data import load, network
    def loss_of(out, target):
        return torch.nn.functional.cross_entropy(out, target)
    {switch}
    def test(model, data, masks):
        out = model(data.x)
        losses = []
        for mask in masks:
            loss = loss_of(out[mask], data.y[mask])
            losses.append(loss)
        return losses, out
    data = load()
    model = network().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    history = []
    for epoch in range(1000):
        loss = loss_of(model(data.x), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        (first, second), _ = test(model, data, [data.train, data.valid])
        history.append(second)
"""


@pytest.mark.parametrize(("switch", "found"), [("@torch.no_grad()", 0), ("", 1)])
def test_a_function_that_is_called_under_no_grad_gives_no_graph(switch, found):
    assert len(examine(GraphRetained, script_patient(MEASURED.format(switch=switch)))) == found


OF_MATH = """
    {head}
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)
        def forward(self, x):
            out = self.layer(x)
            loss = out.mean()
            return loss, 10 * log10(1 / torch.nn.functional.mse_loss(out, x))
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    kept = []
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        optimizer.zero_grad()
        loss, score = model(x.cuda())
        loss.backward()
        optimizer.step()
        kept.append(score)
"""


@pytest.mark.parametrize(("head", "found"), [("from math import log10", 0), ("from torch import log10", 1)])
def test_a_function_of_math_gives_a_number(head, found):
    assert len(examine(GraphRetained, script_patient(OF_MATH.format(head=head)))) == found
