"""Loss, gradients and weights: what is read of them, when it is known, and that nothing waits for it."""

import math

import pytest
from packages import need
from probed import run_script

from gpudoctor.analysis.run.curves import first_bad
from gpudoctor.vitals.recording.reader import read_recording

need("torch")

LOOP = """
{before}
model = {model}
optimizer = {optimizer}
for step, (x, y) in enumerate(DataLoader(data({rows}), batch_size=8)):
    {clear}
    out = model(x)
    loss = {loss}
    loss.backward()  # backward
    {after}
    optimizer.step()  # step
"""
HEALTHY = {
    "before": "", "model": "net()", "optimizer": "torch.optim.SGD(model.parameters(), lr=0.1)", "rows": 320,
    "clear": "optimizer.zero_grad()", "loss": "F.cross_entropy(out, y)", "after": "",
}  # fmt: skip


def train(tmp_path, settings=None, **places):
    return run_script(tmp_path, LOOP.format(**{**HEALTHY, **places}), settings=settings)


def numeric(told, kind):
    return [record for record in told.of("numeric") if record["kind"] == kind]


def test_a_healthy_training_has_norms_and_nothing_else(tmp_path):
    told = train(tmp_path).rank
    norms = numeric(told, "norms")
    assert norms[0]["step"] == 0
    assert (norms[0]["first_name"], norms[0]["last_name"]) == ("0", "2")
    assert norms[0]["norm"] == pytest.approx(math.hypot(norms[0]["first"], norms[0]["last"]), rel=1e-5)
    assert {record["kind"] for record in told.of("numeric")} == {"norms", "normalised", "labels"}
    read = [norm for norm in told.steps("grad_norm") if norm == norm]
    assert len(read) >= 12
    assert not told.of("lost")


@pytest.mark.parametrize(
    ("call", "times"), [("torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)", 1), ("optimizer.zero_grad()", 0)]
)
def test_that_the_program_clips_is_told_once(tmp_path, call, times):
    assert len(numeric(train(tmp_path, after=call).rank, "clips")) == times


def test_clipping_tells_the_norm_before_it(tmp_path):
    run = train(tmp_path, after="print(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01).item())")
    told = run.rank
    assert told.steps("grad_norm") == pytest.approx([float(word) for word in run.result.stdout.split()], rel=1e-5)
    assert sum(told.steps("optimizer")) > 0


@pytest.mark.parametrize("late", [False, True])
def test_a_bad_gradient_is_found_in_its_step(tmp_path, late):
    """The loss of that step is finite, and so are the weights before it."""
    run = train(
        tmp_path,
        loss="F.cross_entropy(out, y) + (((out - out) ** 2).sum().sqrt() if step >= 21 else 0)",
        settings={"late": late},
        rows=960,
        before="import time",
        after="time.sleep(0.01)" if late else "",
    )
    first = min(numeric(run.rank, "nan-gradients"), key=lambda record: record["step"])
    assert (first["step"], first["value"], first["line"]) == (21, "nan", run.line("backward"))
    if not late:
        assert first["parameters"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert first["all"] is True
    assert numeric(run.rank, "nan-loss")[0]["step"] == 22


def test_a_loss_that_is_no_number_is_told_once_a_time(tmp_path):
    run = train(
        tmp_path, loss="F.cross_entropy(out, y) + (0 * torch.tensor(float('inf')) if step in (7, 8, 9, 20) else 0)"
    )
    told = run.rank
    assert [record["step"] for record in numeric(told, "nan-loss")] == [7, 20]
    assert math.isnan(told.steps("loss")[7])
    assert told.steps("loss")[6] == told.steps("loss")[6]


def test_late_numbers_find_their_steps(tmp_path):
    run = train(
        tmp_path, settings={"late": True}, rows=640, before="import time", after="print(loss.item()); time.sleep(0.02)"
    )
    losses = run.rank.steps("loss")
    said = [float(word) for word in run.result.stdout.split()]
    assert len(losses) == 80
    known = [(found, truth) for found, truth in zip(losses, said, strict=True) if found == found]
    assert len(known) >= 30  # what is on its way at the end is not waited for
    assert all(found == pytest.approx(truth, rel=1e-6) for found, truth in known)
    assert numeric(run.rank, "norms")
    assert not run.rank.of("lost")


def test_dead_parameters_are_named(tmp_path):
    told = train(
        tmp_path,
        before="class Two(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a, self.b = net(), net()\n"
        "        self.c = nn.Linear(3, 3)\n    def forward(self, x):\n        return self.a(x) + self.c(self.b(x)).mul(0)\n",
        model="Two()",
        loss="F.cross_entropy(out, y)",
        rows=800,
    ).rank
    dead = numeric(told, "dead")[-1]
    assert dead["parameters"] == [f"b.{n}" for n in ("0.weight", "0.bias", "2.weight", "2.bias")] + [
        "c.weight",
        "c.bias",
    ]
    assert dead["none"] == []
    assert dead["steps"] >= 12
    assert dead["share"] == pytest.approx((195 + 12) / (2 * 195 + 12))
    assert not numeric(told, "frozen")


@pytest.mark.parametrize(
    ("optimizer", "share"),
    [
        ("torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)", 1.0),
        ("torch.optim.SGD(model.parameters(), lr=0.0)", None),  # a rate of zero
    ],
)
def test_weights_that_no_step_moves_are_frozen(tmp_path, optimizer, share):
    told = train(tmp_path, before="import copy", optimizer=optimizer).rank
    frozen = numeric(told, "frozen")
    assert [record["share"] for record in frozen[-1:]] == ([share] if share else [])
    if share:
        assert (
            told.one("optimizer")["missing"] == frozen[-1]["parameters"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
        )


@pytest.mark.parametrize(
    ("clear", "after", "found"),
    [
        ("pass", "", True),
        ("optimizer.zero_grad()", "", False),
        ("[p.grad.zero_() for p in model.parameters() if p.grad is not None]", "", False),
    ],
)
def test_gradients_that_are_never_cleared(tmp_path, clear, after, found):
    run = train(tmp_path, clear=clear, after=after)
    uncleared = numeric(run.rank, "uncleared")
    if found:
        record = uncleared[-1]
        assert record["found"] == record["steps"] == 39
        assert record["line"] == run.line("step")
    else:
        assert not uncleared


@pytest.mark.parametrize("fused", [False, True])
def test_steps_that_the_scaler_leaves_out_are_counted_whoever_does_it(tmp_path, fused):
    """A fused optimizer is called, and leaves the step out inside: its gradients were bad, and no harm came of it."""
    told = run_script(
        tmp_path,
        f"""
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), fused={fused})
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        x, y = data(32).tensors
        for step in range(30):
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(x), y)).backward()
            if step in (0, 15):
                model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
        """,
    ).rank
    assert [(one["scale"], one["skipped"]) for one in numeric(told, "scaler")] == [(1024, 0), (512, 1), (256, 2)]
    assert max(loss for loss in told.steps("loss") if loss == loss) < 10  # as before it was scaled
    process = read_recording(str(tmp_path / "recording")).ranks[0]
    assert len(told.steps("index")) == 30
    assert len(numeric(told, "nan-gradients")) == 2 * fused
    assert first_bad(process, "nan-gradients") is None


@pytest.mark.parametrize(
    ("evaluate", "kinds"),
    [
        (
            "model.eval()\n    with torch.no_grad():\n        [model(x) for x, y in validation]\n    model.train()",
            set(),
        ),
        (
            "model.eval()  # eval\n    with torch.no_grad():\n        [model(x) for x, y in validation]",
            {"eval-training"},
        ),
        ("with torch.no_grad():\n        [model(x) for x, y in validation]  # call", {"train-evaluation"}),
        ("model.eval()\n    [model(x) for x, y in validation]  # call\n    model.train()", {"grad-evaluation"}),
    ],
)
def test_modes_that_do_not_go_with_their_work(tmp_path, evaluate, kinds):
    run = run_script(
        tmp_path,
        f"""
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
training, validation = DataLoader(data(64), batch_size=8), DataLoader(data(256), batch_size=16)
for epoch in range(4):
    for x, y in training:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    {evaluate}
""",
    )
    modes = numeric(run.rank, "mode")
    assert {record["kind_of"] for record in modes} == kinds
    if "eval-training" in kinds:
        assert modes[-1]["line"] == run.line("eval")
        assert modes[-1]["affected"] == ["Dropout"]
        assert (modes[-1]["steps"], modes[-1]["of"]) == (24, 32)
    elif kinds:
        assert modes[-1]["line"] == run.line("call")
    assert sum(run.rank.steps("evaluation")) > 0


SCORER = """
class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5)), nn.Linear(16, 3)
    def forward(self, x):
        return self.head(self.body(x))
    def predict(self, x):
        return self.head(self.body(x)).argmax(1)  # part
model = Scorer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
users = torch.randn(40, 1, 8)
for epoch in range(4):
    model.train()
    for x, y in DataLoader(data(64), batch_size=8):
        {before}
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    [{call}(user) for user in users]  # call
"""


@pytest.mark.parametrize("call", ["model", "model.predict"])
def test_an_evaluation_that_keeps_its_graphs(tmp_path, call):
    """It has no loader, and may call the parts of the model instead of the whole."""
    run = run_script(tmp_path, SCORER.format(before="pass", call=call))
    modes = numeric(run.rank, "mode")
    assert {record["kind_of"] for record in modes} == {"grad-evaluation"}
    assert modes[-1]["line"] == run.line("call" if call == "model" else "part")
    assert sum(run.rank.steps("evaluation")) > 0


def test_a_teacher_with_gradients_is_told(tmp_path):
    run = run_script(
        tmp_path,
        """
        model, teacher = net(), net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(data(320), batch_size=8):
            target = teacher(x).softmax(dim=1)  # teacher
            optimizer.zero_grad()
            F.kl_div(model(x).log_softmax(dim=1), target, reduction="batchmean").backward()
            optimizer.step()
        """,
    )
    (mode, *_) = numeric(run.rank, "mode")
    assert (mode["kind_of"], mode["line"]) == ("teacher-grad", run.line("teacher"))
    assert mode["reached"] is True and mode["training"] is True
    assert not numeric(run.rank, "frozen")
    assert not numeric(run.rank, "dead")


@pytest.mark.parametrize(("step", "told"), [("pass", True), ("optimizer.step()", False)])
def test_an_optimizer_that_never_steps(tmp_path, step, told):
    run = run_script(
        tmp_path,
        f"""
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for x, y in DataLoader(data(200), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # here
            {step}
        """,
    )
    found = numeric(run.rank, "unstepped")
    assert bool(found) is told
    if told:
        assert found[0]["backwards"] == 25 and found[0]["line"] == run.line("here")


TWO = """
    maker, critic = nn.Linear(8, 8), nn.Linear(8, 1)
    first = torch.optim.Adam(maker.parameters(), lr=0.01)  # here
    second = torch.optim.Adam(critic.parameters(), lr=0.01)
    for step in range(30):
        fake = maker(torch.randn(16, 8))
        second.zero_grad()
        critic(fake).mean().backward()
        second.step()
        fake = maker(torch.randn(16, 8))
        first.zero_grad()
        {update}
"""


@pytest.mark.parametrize(
    ("update", "told"),
    [
        ("(-critic(fake.detach())).mean().backward(); first.step()", True),
        ("if step % 10 == 9: (-critic(fake)).mean().backward()\n        first.step()", False),
        ("(-critic(fake)).mean().backward(); step < 10 and first.zero_grad(); first.step()", False),
    ],
)
def test_one_of_two_optimizers_that_finds_no_gradient(tmp_path, update, told):
    run = run_script(tmp_path, TWO.format(update=update))
    found = numeric(run.rank, "idle")
    assert bool(found) is told
    if told:
        assert [item["steps"] for item in found] == [20, 30]
        assert (found[0]["model"], found[0]["called"], found[0]["line"]) == ("Linear", True, run.line("here"))
        assert found[0]["shared"] is False


def test_a_single_optimizer_without_gradients_keeps_them_elsewhere(tmp_path):
    run = run_script(
        tmp_path,
        """
        model = net()
        flat = torch.cat([p.detach().flatten() for p in model.parameters()]).requires_grad_()
        optimizer = torch.optim.SGD([flat], lr=0.01)
        for x, y in DataLoader(data(400), batch_size=8):
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        """,
    )
    assert numeric(run.rank, "idle") == []


CUT = """
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(DataLoader(data(480), batch_size=8)):
        {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("loss = torch.tensor(F.cross_entropy(model(x), y).item(), requires_grad=True)", [20, 50, 60]),
        ("loss = F.cross_entropy(model(x) if step > 30 else model(x).detach().requires_grad_(), y)", [20, 0]),
        ("loss = F.cross_entropy(model(x), y)", []),
    ],
)  # fmt: skip
def test_no_parameter_ever_has_a_gradient(tmp_path, loss, told):
    found = numeric(run_script(tmp_path, CUT.format(loss=loss)).rank, "idle")
    assert [item["steps"] for item in found] == told
    assert all(item["alone"] and item["model"] == "Sequential" for item in found if item["steps"])


PARTS = """
import torch, torch.nn.functional as F
torch.manual_seed(0)
model = torch.nn.ModuleDict({{"body": torch.nn.Linear(8, 16), "head": torch.nn.Linear(16, 2)}})
optimizer = torch.optim.SGD({held}, lr=0.1)
for step in range(60):
    x, y = torch.randn(4, 8), torch.randint(0, 2, (4,))
    with torch.set_grad_enabled({grad}):
        seen = model["body"](x)
    loss = F.cross_entropy(model["head"](seen), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_runs_without_gradients_and_is_in_the_optimizer_is_dead(tmp_path):
    """No module was called that holds both parts."""
    told = run_script(tmp_path, PARTS.format(held="model.parameters()", grad="False")).rank
    dead = numeric(told, "dead")[-1]
    assert dead["parameters"] == dead["none"] == ["Linear.weight", "Linear.bias"]
    assert dead["share"] == pytest.approx(144 / 178)


PROBABILITIES = """
class Last(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.fc, self.act = nn.Linear(8, 4), act

    def forward(self, x):
        return self.act(self.fc(x))

def train(act, criterion, target):
    model = Last(act)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(10):
        optimizer.zero_grad()
        loss = 0.5 * criterion(model(torch.randn(6, 8)), target) + 1e-4 * model.fc.weight.pow(2).sum()
        loss.backward()
        optimizer.step()

many, several = torch.randint(0, 4, (6,)), torch.rand(6, 4).round()
train({})
"""
KNOWN = {
    "nn.Softmax(-1), nn.CrossEntropyLoss(label_smoothing=0.1), many": ["softmax"],
    "nn.LogSoftmax(1), F.cross_entropy, many": ["log_softmax"],
    "nn.Sigmoid(), nn.BCEWithLogitsLoss(), several": ["sigmoid"],
    "nn.Softmax(0), nn.CrossEntropyLoss(), many": [],
    "lambda x: x.softmax(1) @ torch.ones(4, 4), nn.CrossEntropyLoss(), many": [],
    "nn.Sigmoid(), nn.BCELoss(), several": None,
}


@pytest.mark.parametrize("case", KNOWN)
def test_what_a_loss_that_normalises_is_given(tmp_path, case):
    run = run_script(tmp_path, PROBABILITIES.replace("{}", case))
    told = [item for item in run.rank.of("numeric") if item["kind"] == "normalised"]
    expected = KNOWN[case]
    assert [[name for name, _ in item["made_by"]] for item in told] == ([] if expected is None else [expected])
