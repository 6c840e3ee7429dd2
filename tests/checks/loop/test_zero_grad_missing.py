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


SPEED = """
    import time, torch
    def {name}(steps, data):
        layer = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        begin = time.perf_counter()
        for {loop}:
            layer(torch.ones(4, 8)).mean().backward()
            optimizer.step()
        print(time.perf_counter() - begin)
    {name}(100, [1])
"""


@pytest.mark.parametrize(
    ("name", "loop", "severity"),
    [
        ("benchmark_layer", "i in range(steps)", Severity.NOTE),
        ("layer_speed", "_ in range(500)", Severity.NOTE),
        ("fit", "i in range(steps)", Severity.ERROR),
        ("benchmark_layer", "x in data", Severity.ERROR),
    ],
)
def test_a_loop_in_a_function_that_measures_trains_nothing(name, loop, severity):
    [finding] = examine(ZeroGradMissing, script_patient(SPEED.format(name=name, loop=loop)))
    assert finding.severity is severity
    assert (finding.cost.breaks is not None) == (severity is Severity.ERROR)


NOISE = """
    import time, torch
    def look(layer, data, table, physics):
        criterion = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for size in range(8, 512, 8):
            begin = {clock}
            inputs = torch.ones(size, 8).cuda()
            {target}
            cost = {cost}
            cost.backward()
            optimizer.step()
            table[size] = {clock} - begin
        {after}
    look(torch.nn.Linear(8, 3).cuda(), [], {{}}, None)
"""
COST = "criterion(layer(inputs), wanted)"
CLOCK, TARGET = "time.perf_counter()", "wanted = torch.randint(0, 3, (size,)).cuda()"


@pytest.mark.parametrize(
    ("clock", "target", "after", "severity"),
    [
        (CLOCK, TARGET, "print(table)", Severity.NOTE),
        ("torch.cuda.max_memory_allocated()", "wanted = torch.rand(size, 3, device='cuda')", "pass", Severity.NOTE),
        ("len(data)", TARGET, "pass", Severity.ERROR),
        (CLOCK, "wanted = data[size].cuda()", "pass", Severity.ERROR),
        (CLOCK, TARGET, "torch.save(layer.state_dict(), 'x.pt')", Severity.ERROR),
        (CLOCK, TARGET, "layer.eval(); print(layer(inputs))", Severity.ERROR),
        (CLOCK, "wanted = torch.randn(size, 8).cuda(); inputs = inputs + wanted", "pass", Severity.ERROR),
    ],
)
def test_a_loop_that_measures_on_random_targets_trains_nothing(clock, target, after, severity):
    [finding] = examine(
        ZeroGradMissing, script_patient(NOISE.format(clock=clock, target=target, after=after, cost=COST))
    )
    assert finding.severity is severity
    assert (finding.cost.breaks is not None) == (severity is Severity.ERROR)


@pytest.mark.parametrize(
    ("cost", "severity"),
    [
        ("torch.nn.functional.cross_entropy(layer(inputs), target=wanted)", Severity.NOTE),
        ("physics(layer, wanted)", Severity.ERROR),
        ("criterion(layer(wanted), inputs)", Severity.ERROR),
    ],
)
def test_points_drawn_at_random_for_another_loss_may_train(cost, severity):
    script = NOISE.format(clock=CLOCK, target=TARGET, after="pass", cost=cost)
    [finding] = examine(ZeroGradMissing, script_patient(script))
    assert finding.severity is severity


CLEARED_BEFORE = """
    import torch
    from elsewhere import Roads, joined, roads_of
    from torch.utils.data import DataLoader
    from torch_geometric.loader import DataLoader as GraphLoader

    data = Roads("roads.tsv")

    def stack(items):
        return torch.stack(items)

    class Crossing:
        def __init__(self, items):
            self.ends = items

    loader = {loader}
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

    def one_epoch():
        net.train()
        {before}
        for batch in loader:
            loss = torch.nn.functional.mse_loss(net(batch.ends), batch.lengths)
            loss.backward()
            optimizer.step()

    for epoch in range(200):
        one_epoch()
"""


@pytest.mark.parametrize(
    ("loader", "before", "severities"),
    [
        ("DataLoader(data, batch_size=16, collate_fn=joined)", "optimizer.zero_grad()", [Severity.NOTE]),
        ("DataLoader(data, batch_size=16, collate_fn=Crossing)", "net.zero_grad()", [Severity.NOTE]),
        ("GraphLoader(data, batch_size=16)", "optimizer.zero_grad()", [Severity.NOTE]),
        ("DataLoader(data, batch_size=len(data))", "optimizer.zero_grad()", []),
        ("DataLoader(data, batch_size=16, collate_fn=joined)", "pass", [Severity.ERROR]),
        ("DataLoader(data, batch_size=16, collate_fn=stack)", "optimizer.zero_grad()", [Severity.ERROR]),
        ("DataLoader(data, batch_size=16)", "optimizer.zero_grad()", [Severity.ERROR]),
        ("DataLoader(data, batch_size=len(data))", "pass", [Severity.ERROR]),
    ],
)
def test_a_clear_before_a_loop_of_what_may_be_one_batch(loader, before, severities):
    script = CLEARED_BEFORE.format(loader=loader, before=before)
    assert [finding.severity for finding in examine(ZeroGradMissing, script_patient(script))] == severities


ANEW = """
    import torch
    from elsewhere import energy, loader

    start = torch.randn(8, requires_grad=True)
    net = torch.nn.Linear(8, 1)
    for x in loader:
        {make}
        loss = energy(net(x), start)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("make", "found"),
    [
        ("z = torch.randn(8, requires_grad=True); optimizer = torch.optim.Adam([z], lr=0.1)", 0),
        ("net = torch.nn.Linear(8, 1); optimizer = torch.optim.Adam(net.parameters(), lr=0.1)", 0),
        ("optimizer = torch.optim.Adam(net.parameters(), lr=0.1)", 1),
        ("z = torch.randn(8, requires_grad=True); optimizer = torch.optim.Adam([z, start], lr=0.1)", 1),
    ],
)
def test_parameters_that_a_pass_makes_anew_have_no_old_gradients(make, found):
    assert len(examine(ZeroGradMissing, script_patient(ANEW.format(make=make)))) == found


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
