import ast

import pytest
from mending import gone, mended
from packages import need
from probed import run_script
from recordings import make_process, make_recording, make_steps, record
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.analysis.run.untrained_models import forgotten
from gpudoctor.model import Applicability, Confidence, Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.numerics.dead_parameters import DeadParameters
from gpudoctor_checks.numerics.weights_frozen import WeightsFrozen
from gpudoctor_rules.numerics.advice import ADVICE
from gpudoctor_rules.numerics.weights_frozen import WeightsFrozenRule

GUILTY = {
    "sick_head": ("order", "optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)"),
    "sick_replaced": ("order", "self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)"),
    "sick_lora": ("order", "optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)"),
    "sick_fsdp": ("order", "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)"),
    "sick_copy": ("copy", "optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)"),
    "sick_frozen": ("frozen", "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)"),
    "sick_gan": ("other", "optimizerD = torch.optim.Adam(netG.parameters(), lr=2e-4)"),
    "sick_other": ("other", "optimizer = torch.optim.Adam(small.parameters(), lr=2e-4)"),
}

LOOP = """
    import torch, copy
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 1)
        def forward(self, x):
            return self.fc(x)
    flag = input()
    model = Net()
    optimizer = torch.optim.SGD({given}, lr=0.1)
    {after}
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def look(given="model.parameters()", after="pass"):
    return examine(WeightsFrozen, script_patient(LOOP.format(given=given, after=after)))


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("NUM008")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("NUM008"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    patient = script_patient(path)
    [finding] = examine(WeightsFrozen, patient)
    assert (finding.detail.how, finding.span.text) == GUILTY[path.stem]
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.SUSPECTED)
    assert finding.cost.breaks
    [remedy] = prescribe((WeightsFrozenRule, *ADVICE), finding, patient)
    assert (remedy.applicability is Applicability.UNSAFE) == bool(remedy.edits)


@pytest.mark.parametrize("path", healthy_scripts("NUM008"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(WeightsFrozen, script_patient(path)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"after": "model = Net()"},
        {"after": "model.fc = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))"},
        {"after": "model = copy.deepcopy(model)"},
        {"given": "Net().parameters()"},
        {"given": "list(model.state_dict().values())"},
    ],
)
def test_sick_variants(change):
    assert len(look(**change)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"after": "if flag: model = Net()"},
        {"after": "model = model.to('cpu')"},
        {"after": "model.eval()"},
        {"after": "ema = copy.deepcopy(model)"},
        {"after": "model.drop = nn.Dropout(0.1)"},
        {"after": "model = Net(); optimizer = torch.optim.SGD(model.parameters(), lr=1)"},
        {"given": "[p for p in model.parameters() if p.requires_grad]"},
        {"given": "groups"},
    ],
)
def test_healthy_variants(change):
    assert look(**change) == []


@pytest.mark.parametrize("name", ["sick_head", "sick_replaced", "sick_lora", "sick_fsdp", "sick_copy"])
def test_the_edit_cures(name):
    path = next(path for path in sick_scripts("NUM008") if path.stem == name)
    text = path.read_text(encoding="utf-8")
    assert gone("NUM008", text)
    new = mended(text, select="NUM008")
    ast.parse(new)
    assert mended(new, select="NUM008") == new


@pytest.mark.parametrize(
    ("held", "trainable", "words"), [(0, 0, "are frozen"), (0, 96, "got none"), (64, 0, "")]
)
def test_an_optimizer_without_parameters(held, trainable, words):
    """Frameworks hand over what requires gradients, were it nothing; torch takes an empty group."""
    records = [
        record("model", name="Adapter", parameters=96, trainable=trainable, path="/job/tune.py", line=3),
        record("optimizer", name="Adam", groups=2, parameters=held, missing=[], path="/job/tune.py", line=9),
    ]
    run = make_recording(make_process(make_steps(40), records=records))
    found = examine(WeightsFrozen, make_patient(recording=run))
    assert [one.severity for one in found] == ([Severity.ERROR] if words else [])
    assert all(words in one.message and one.cost.breaks and one.span.line == 9 for one in found)


SHELL = LOOP.replace(
    "    flag = input()",
    "    class Shell(nn.Module):\n        def __init__(self, inner):\n            super().__init__()\n"
    "            self.inner = inner\n        def forward(self, x):\n            return self.inner(x)\n    flag = input()",
)


def shelled(after):
    return examine(WeightsFrozen, script_patient(SHELL.format(given="model.parameters()", after=after)))


@pytest.mark.parametrize(
    "after",
    [
        "model = Shell(model)",
        "model = Shell(inner=model)",
        "model = Shell(torch.compile(model))",
        "model = nn.Sequential(model, nn.ReLU())",
        "model = nn.Sequential(*model.children())",
        "model.fc = nn.Sequential(nn.Dropout(0.1), model.fc)",
    ],
)
def test_healthy_what_holds_the_old_model_trains_it(after):
    assert shelled(after) == []


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("model = Shell(copy.deepcopy(model))", "puts a new model in its place"),
        ("model = Shell(Net())", "puts a new model in its place"),
        (
            "model = nn.Sequential(model, nn.Linear(1, 1))",
            "adds nn.Linear(1, 1) to model: the new layer is not in it",
        ),
        ("model.fc = nn.Sequential(model.fc, nn.Linear(1, 1))", "adds nn.Linear(1, 1) to model.fc"),
    ],
)
def test_sick_what_the_optimizer_does_not_hold(after, words):
    [finding] = shelled(after)
    assert words in finding.message


TWINS = """
class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
    def forward(self, z):
        return self.body(z)
maker, judge = Noise(), nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
first = torch.optim.Adam(judge.parameters(), 1e-3)
second = torch.optim.Adam({second}.parameters(), 1e-3)
target = torch.ones(16, 1)
for step in range(80):
    first.zero_grad()
    F.binary_cross_entropy_with_logits(judge(torch.randn(16, 8)), target).backward()
    first.step()
    second.zero_grad()
    F.binary_cross_entropy_with_logits(judge(maker(torch.randn(16, 4))), target).backward()
    second.step()
    if step < 0:
        maker.load_state_dict(torch.load("maker.pt"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("second", "said"), [("judge", 1), ("maker", 0)])
def test_an_optimizer_that_was_given_another_models_parameters(tmp_path, second, said):
    """The other model learns with both, so that nothing stands still; the source loads weights somewhere."""
    need("torch")
    run = run_script(tmp_path, TWINS.format(second=second))
    process = open_recording(str(run.folder)).ranks[0]
    assert [item.get("twin") for item in process.of("optimizer")][-1] is bool(said)
    found = forgotten(make_patient(recording=make_recording(process)), process, 20)
    assert [item.get("model") for item in found[-1:]] == ["Noise"] * said


def idle(steps, called, cleared=0, **more):
    seen = record("numeric", 3.0, kind="idle", step=50, steps=steps, model="Maker", called=called, **more,
                  cleared=cleared, path="/job/train.py", line=11)  # fmt: skip
    patient = make_patient(recording=make_recording(make_process(make_steps(100), records=[seen])))
    return [
        (item, prescribe((WeightsFrozenRule, *ADVICE), item, patient))
        for item in examine(WeightsFrozen, patient)
    ]


def test_sick_steps_that_find_no_gradient():
    [(finding, [remedy])] = idle(50, True)
    assert finding.severity is Severity.ERROR and finding.cost.breaks == "Maker does not learn"
    assert "in any of the 50 steps" in finding.message and "Maker" in remedy.title
    [(finding, _)] = idle(50, False)
    assert finding.severity is Severity.WARNING and finding.cost.breaks is None


def test_sick_no_parameter_ever_had_a_gradient():
    [(finding, [remedy])] = idle(50, False, alone=True)  # the model was called under no_grad()
    assert finding.severity is Severity.ERROR and finding.cost.breaks == "Maker does not learn"
    assert "No parameter of Maker had a gradient" in finding.message and remedy.title
    seen = record("numeric", 3.0, kind="idle", step=50, steps=50, model="Maker", called=False, alone=True)
    with pytest.raises(Unavailable, match="no parameter had a gradient"):
        examine(
            DeadParameters,
            make_patient(recording=make_recording(make_process(make_steps(100), records=[seen]))),
        )


def test_sick_gradients_that_are_cleared_before_the_step():
    [(finding, [remedy])] = idle(50, True, cleared=49)
    assert finding.severity is Severity.ERROR and "Something clears them before each" in finding.message
    assert "zero_grad()" in remedy.title
    [(finding, _)] = idle(50, True, cleared=20)
    assert "No parameter" in finding.message


def test_sick_an_optimizer_with_the_parameters_of_another():
    [(finding, [remedy])] = idle(50, True, cleared=49, shared=True)
    assert "Another optimizer has the same parameters of Maker and trains them" in finding.message
    assert "does not learn" not in finding.cost.breaks and "meant to train" in remedy.title


def test_healthy_gradients_that_came_after_all():
    both = [record("numeric", 3.0, kind="idle", step=step, steps=steps, model="Maker", called=True, line=11,
                   path="/job/train.py") for step, steps in ((30, 20), (60, 0))]  # fmt: skip
    recording = make_recording(make_process(make_steps(100), records=both))
    assert examine(WeightsFrozen, make_patient(recording=recording)) == []


def test_healthy_few_steps_without_a_gradient():
    assert idle(12, True) == []


REBOUND = """
    import torch
    from torch import nn

    class Noise(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 8)
        def forward(self, x):
            return x + self.body(x)

    class Trainer:
        def __init__(self):
            self.model = nn.Linear(8, 1)
            self.noise = Noise()
            self.optimizer = torch.optim.Adam(self.model.parameters())
            self.SECOND = torch.optim.Adam(self.model.parameters(), 1e-4)
        def train(self, data):
            for x in data:
                self.optimizer.zero_grad()
                self.SECOND.zero_grad()
                loss = self.model(self.noise(x)).mean()
                loss.backward()
                self.optimizer.step()
                self.SECOND.step()

    Trainer().train(torch.utils.data.DataLoader(torch.randn(1000, 8)))
"""


@pytest.mark.parametrize(("second", "found"), [("optimizer", 0), ("other", 1)])
def test_an_optimizer_of_the_same_name_takes_the_place_of_the_first(second, found):
    assert len(examine(WeightsFrozen, script_patient(REBOUND.replace("SECOND", second)))) == found


PLAIN = """
    import torch
    from torch import nn
    from torch.nn.parameter import Parameter

    class Mix(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = {made}
            self.bias = Parameter(torch.zeros(size))
            {filled}

        def forward(self, x):
            return x @ self.{used} + self.bias

    model = Mix(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "filled", "used", "found"),
    [
        ("torch.FloatTensor(size, size)", "self.weight.data.uniform_(-1, 1)", "weight", 1),
        ("torch.empty(size, size)", "nn.init.xavier_normal_(self.weight)", "weight", 1),
        ("Parameter(torch.empty(size, size))", "nn.init.xavier_normal_(self.weight)", "weight", 0),
        ("torch.empty(size, size, requires_grad=True)", "nn.init.xavier_normal_(self.weight)", "weight", 0),
        ("torch.ones(size, size)", "nn.init.zeros_(self.weight)", "weight", 0),
        ("torch.randn(size, size)", "pass", "weight", 0),
        ("torch.empty(size, size)", "self.weight.normal_(); self.weight = Parameter(self.weight)", "weight", 0),
        ("torch.empty(size, size)", "nn.init.normal_(self.weight)", "bias", 0),
    ],
)
def test_a_plain_tensor_that_is_filled_like_a_weight(made, filled, used, found):
    patient = script_patient(PLAIN.format(made=made, filled=filled, used=used))
    findings = examine(WeightsFrozen, patient)
    assert len(findings) == found
    for finding in findings:
        [remedy] = prescribe((WeightsFrozenRule, *ADVICE), finding, patient)
        assert finding.severity is Severity.WARNING and "plain tensor" in finding.message
        assert f"self.weight = torch.nn.Parameter({made})" in remedy.title
