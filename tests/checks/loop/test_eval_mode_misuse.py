import ast
import textwrap

import pytest
from mending import gone, mended
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.eval_mode_misuse import EvalModeMisuse
from gpudoctor_rules.loop import eval_mode_misuse

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
    assert (finding.detail.how, finding.span.text) == GUILTY[path.stem]
    severity = Severity.WARNING if finding.detail.how == "graph" else Severity.NOTE
    assert (finding.severity, finding.confidence) == (severity, Confidence.SUSPECTED)
    [remedy] = prescribe(eval_mode_misuse, finding, patient)
    assert remedy.applicability is Applicability.UNSAFE


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
    assert [f.severity for f in look()] == [Severity.NOTE]
    assert [f.severity for f in look(layer="torch.nn.ReLU()")] == [Severity.NOTE]  # both modes are the same
    assert [f.severity for f in look(tail="if epoch % 2 == 0: model.eval()")] == [Severity.NOTE]


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


def test_gradients_are_switched_off_only_if_asked_for():
    path = next(path for path in sick_scripts("LOOP002") if path.stem == "sick_no_grad")
    text = path.read_text(encoding="utf-8")
    assert mended(text, unsafe=False, select="LOOP002") == text  # a caller may call backward on what it returns
    assert "@torch.no_grad()\ndef validate" in mended(text, select="LOOP002")


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


EMBED = """
    import torch
    class Finder:
        def __init__(self, body):
            self.body = body if body is not None else torch.nn.Linear(8, 8)
            self.drop = torch.nn.{layer}
            self.optimizer = torch.optim.SGD(self.body.parameters(), lr=0.1)
        @torch.no_grad()
        def embed(self, x):
            {switch}
            return self.body(x)
        def test_all(self, loader: torch.utils.data.DataLoader):
            return [self.embed(x) for x in loader] if loader is None else self.each(loader)
        def each(self, test_loader):
            found = []
            for x in test_loader:
                found.append(self.embed(x))
            return found
        def fit(self, loader):
            for x in loader:
                self.body(x).mean().backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
    finder = Finder(None)
    finder.fit(torch.utils.data.DataLoader(torch.randn(1000, 8)))
    finder.each(torch.utils.data.DataLoader(torch.randn(1000, 8)))
"""


@pytest.mark.parametrize(
    ("layer", "switch", "severities"),
    [
        ("Dropout(0.1)", "pass", [Severity.NOTE]),
        ("Dropout(0.1)", "self.body.eval()", []),
        ("Dropout(0.1)", "self.body.train(False)", []),
        ("InstanceNorm2d(8)", "pass", []),  # it keeps no statistics: both modes are alike
        ("InstanceNorm2d(8, affine=True, track_running_stats=True)", "pass", [Severity.NOTE]),
    ],
)
def test_a_mode_that_a_called_function_sets(layer, switch, severities):
    text = EMBED.format(layer=layer, switch=switch)
    found = examine(EvalModeMisuse, script_patient(text))
    assert [item.severity for item in found if item.detail.how == "mode"] == severities


def test_a_loop_in_another_file_is_named_with_its_file(tmp_path):
    (tmp_path / "measures.py").write_text("def measure(net, x):\n    net.eval()\n    return net(x)\n")
    text = LOOP.replace("import torch", "import torch; from measures import measure", 1)
    path = tmp_path / "run.py"
    path.write_text(textwrap.dedent(text.format(layer="torch.nn.Dropout(0.1)", head="pass", tail="measure(model, x)")))
    [finding] = examine(EvalModeMisuse, script_patient(path))
    assert finding.span.path.endswith("measures.py")
    assert "runs in the loop at line 6 of run.py and" in finding.message


SLICED = """
    import torch
    net = torch.nn.LSTM(8, 8, dropout=0.1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    train_tokens, val_tokens = torch.randn(9000, 4, 8), torch.randn(900, 4, 8)
    def {name}(source):
        net.eval()
        total, many = 0.0, 8
        many_rows = source.size(0)
        for at in {over}:
            out, _ = net(source[at : at + 35])
            total += out.mean().item()
        return total
    def fit():
        net.train()
        for at in range(0, train_tokens.size(0) - 1, 35):
            optimizer.zero_grad()
            net(train_tokens[at : at + 35])[0].mean().backward()
            optimizer.step()
    for epoch in range(9):
        fit()
        {call}
"""


@pytest.mark.parametrize(
    ("over", "name", "call", "found"),
    [
        ("range(0, source.size(0) - 1, 35)", "evaluate", "evaluate(val_tokens)", ["graph"]),
        ("range(0, source.shape[0], 35)", "test_epoch", "test_epoch(val_tokens)", ["graph"]),
        ("range(0, source.size(0), 35)", "evaluate", "with torch.no_grad(): evaluate(val_tokens)", []),
        ("enumerate(range(0, many_rows - 1, 35))", "evaluate", "evaluate(val_tokens)", ["graph"]),
        ("range(0, many, 35)", "evaluate", "evaluate(val_tokens)", []),
        ("range(0, 100, 35)", "evaluate", "evaluate(val_tokens)", []),
        ("range(0, source.size(0), 35)", "forward_slices", "forward_slices(val_tokens)", []),
    ],
)
def test_a_data_set_that_goes_by_in_slices(over, name, call, found):
    text = SLICED.format(over=over, name=name, call=call)
    assert [item.detail.how for item in examine(EvalModeMisuse, script_patient(text))] == found


MEASURED = """
    import torch

    class Levels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("edges", torch.linspace(0, 1, 9))
            self.turn = {part}

        def forward(self, x):
            return torch.bucketize(x, self.edges)

    levels = Levels().cuda()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    test_loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    before = []
    for x in test_loader:
        before.append(levels(x.cuda()).cpu())
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("part", "found"), [("None", 0), ("torch.nn.Linear(8, 8)", 1)], ids=["healthy", "sick"])
def test_a_module_without_parameters_builds_no_graph(part, found):
    assert len(examine(EvalModeMisuse, script_patient(MEASURED.format(part=part)))) == found


OLD = """
    import torch
    from torch.autograd import Variable
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    test_loader = torch.utils.data.DataLoader(torch.randn(1000, 8))

    def test():
        model.eval()
        for x in test_loader:
            out = model(Variable(x{word}))

    for x in loader:
        loss = model(Variable(x)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print({read})
    test()
"""


@pytest.mark.parametrize(
    ("word", "read", "found"),
    [(", volatile=True", "loss.data[0]", 0), (", volatile=True", "loss.item()", 1), ("", "loss.data[0]", 1)],
    ids=["healthy", "sick-new-torch", "sick-no-word"],
)
def test_volatile_inputs_of_an_old_program_build_no_graph(word, read, found):
    assert len(examine(EvalModeMisuse, script_patient(OLD.format(word=word, read=read)))) == found


LOADED = """
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    def score(loader, model):
        for batch in loader:
            with torch.no_grad():
                print(model(**batch).loss)

    def fit(loader, model, optimizer):
        {head}
        for batch in loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    model = AutoModelForSequenceClassification.from_pretrained("some/model")
    model = get_peft_model(model, LoraConfig(lora_dropout=0.1))
    optimizer = torch.optim.AdamW(model.parameters())
    fit(torch.utils.data.DataLoader([1, 2]), model, optimizer)
    score(torch.utils.data.DataLoader([1, 2]), model)
"""


@pytest.mark.parametrize(("head", "found"), [("pass", 0), ("model.train()", 1)], ids=["healthy", "sick"])
def test_a_loaded_model_is_in_eval_mode_until_something_switches_it(head, found):
    assert len(examine(EvalModeMisuse, script_patient(LOADED.format(head=head)))) == found


FITTED = """
    import torch
    generator = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1))
    noise = torch.randn(1, 8, requires_grad=True)
    optimizer = torch.optim.LBFGS({given}, lr=0.1)
    for target in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        generator.eval()
        loss = (generator(noise) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("[noise]", 0),
        ("(noise, )", 0),
        ("generator.parameters()", 1),
        ("[noise, *generator.parameters()]", 1),
        ("list_of_all", 1),
    ],
)
def test_a_network_that_is_fixed_belongs_in_eval_mode(given, found):
    assert len(examine(EvalModeMisuse, script_patient(FITTED.format(given=given)))) == found


BLOCKS = """
    import torch

    class Block(torch.nn.Module):
        def __init__(self, width, rate={default}):
            super().__init__()
            self.map = torch.nn.Linear(width, width)
            self.off = torch.nn.Dropout(rate)

        def forward(self, x):
            return self.off(self.map(x))

    class Net(torch.nn.Module):
        def __init__(self, width, rate=0.0):
            super().__init__()
            self.blocks = torch.nn.Sequential({block})

        def forward(self, x):
            return self.blocks(x)

    def validate(net, val_loader):
        with torch.no_grad():
            for x in val_loader:
                print(net(x).sum())

    net = {net}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
    validate(net, torch.utils.data.DataLoader(torch.randn(100, 8)))
"""


@pytest.mark.parametrize(
    ("default", "block", "net", "found"),
    [
        ("0.0", "Block(width)", "Net(8)", 0),
        ("0.0", "Block(width, rate)", "Net(8)", 0),
        ("0.0", "Block(width, rate=rate)", "Net(8, rate=0.0)", 0),
        ("0.5", "Block(width)", "Net(8)", 1),
        ("0.0", "Block(width, 0.1)", "Net(8)", 1),
        ("0.0", "Block(width, rate)", "Net(8, 0.1)", 1),
        ("0.0", "Block(width, rate)", "Net(**torch.load('how.pt'))", 1),
        ("0.0", "Block(width, rate)", "globals()['Net'](8, 0.1)", 1),
    ],
)
def test_a_dropout_that_is_0_in_this_program_is_none(default, block, net, found):
    text = BLOCKS.format(default=default, block=block, net=net)
    assert len(examine(EvalModeMisuse, script_patient(text))) == found


AFTERWARDS = """
    import torch

    def measure(net, loader):
        {measure}
        with torch.no_grad():
            return sum(net(x).sum() for x in loader)

    def fit(net, loader, optimizer):
        for epoch in range(9):
            net.train()
            for x in loader:
                optimizer.zero_grad()
                net(x).mean().backward()
                optimizer.step()
            {end}

    def confusion(model, test_loader):
        found = []
        with torch.no_grad():
            for x in test_loader:
                found.append(model(x))
        return found

    first = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1))
    other = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1))
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    {before}
    fit(first, loader, torch.optim.SGD(first.parameters(), lr=0.1))
    {after}
    confusion(model={whose}, test_loader=loader)
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, 0),
        ({"end": "measure(net, loader)", "measure": "net.eval()"}, 0),
        ({"end": "net.train(False)"}, 0),
        ({"end": "pass"}, 1),
        ({"end": "if epoch > 3: net.eval()"}, 1),
        ({"end": "if epoch > 3: measure(net, loader)", "measure": "net.eval()"}, 1),
        ({"end": "measure(net, loader)", "measure": "pass"}, 1),
        ({"whose": "other"}, 1),
        ({"after": "first.train()"}, 1),
        ({"after": "fit(other, loader, torch.optim.SGD(other.parameters(), lr=0.1))"}, 0),
        ({"before": "confusion(first, loader)"}, 1),  # before the training, too
    ],
)
def test_a_training_may_leave_the_model_in_eval_mode(change, found):
    parts = {"measure": "pass", "end": "net.eval()", "whose": "first", "before": "pass", "after": "pass"}
    findings = examine(EvalModeMisuse, script_patient(AFTERWARDS.format(**parts | change)))
    lines = [item for item in findings if item.detail.how == "mode" and "test_loader" in item.span.text]
    assert len(lines) == found


JUDGE = """
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    class Grader:
        def __init__(self, rank):
            self.policy = AutoModelForCausalLM.from_pretrained("some/model")
            self.optimizer = torch.optim.AdamW(self.policy.parameters())
            {held}

        def _build(self, rank):
            judge = {made}
            judge = DistributedDataParallel(judge, device_ids=[rank])
            return judge

        def grade(self, eval_loader):
            with torch.no_grad():
                for batch in eval_loader:
                    print(self.judge(**batch).logits)

        def fit(self, loader):
            {switch}
            for batch in loader:
                self.optimizer.zero_grad()
                self.policy(**batch).loss.backward()
                self.optimizer.step()

    grader = Grader(0)
    grader.fit(torch.utils.data.DataLoader([1, 2]))
    grader.grade(torch.utils.data.DataLoader([1, 2]))
"""
_LOAD = "AutoModelForSequenceClassification.from_pretrained('some/judge')"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, 0),
        ({"held": f"self.judge = {_LOAD}"}, 0),
        ({"switch": "self.judge.train()"}, 1),
        ({"switch": "for model in (self.policy, self.judge): model.train()"}, 1),
        ({"made": "torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1))"}, 1),
    ],
)
def test_a_loaded_model_beside_the_one_that_trains_stays_in_eval_mode(change, found):
    parts = {"held": "self.judge = self._build(rank)", "made": _LOAD, "switch": "self.policy.train()"}
    findings = examine(EvalModeMisuse, script_patient(JUDGE.format(**parts | change)))
    assert len([item for item in findings if item.detail.how == "mode"]) == found


SETS = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).cuda()
train_loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
val_loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def validate():
    with torch.no_grad():
        for loader in (train_loader, val_loader):
            for x in loader:
                print(net(x.cuda()).mean())
{again}
for x in train_loader:
    optimizer.zero_grad()
    net(x.cuda()).mean().backward()
    optimizer.step()
validate()
"""


@pytest.mark.parametrize(("again", "said"), [("", 1), ("def validate():\n    pass", 0)])
def test_nested_loops_are_one_defect_and_a_redefined_function_is_not_judged(again, said):
    assert len(examine(EvalModeMisuse, script_patient(SETS.format(again=again)))) == said


TRANSFORMED = """
    import torch
    from torch import nn

    class Pictures(torch.utils.data.IterableDataset):
        def __init__(self, files, change: nn.Module):
            self.loader, self.change = torch.utils.data.DataLoader(files), change
        def {name}(self):
            for x, y in self.loader:
                {hand} self.change(x), y

    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    pictures = Pictures([(torch.randn(8), 0)], nn.Sequential(nn.Linear(8, 8), nn.Dropout()))
    for x, y in pictures:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
    pictures.{name}()
"""


@pytest.mark.parametrize(("name", "hand", "found"), [("__iter__", "yield", False), ("evaluate", "print(", True)])
def test_healthy_the_pass_of_a_data_set_is_no_evaluation(name, hand, found):
    text = TRANSFORMED.format(name=name, hand=hand)
    text = text.replace("self.change(x), y\n", "self.change(x), y)\n") if hand == "print(" else text
    assert bool(examine(EvalModeMisuse, script_patient(text))) is found


CELLS = """
    import torch
    from elsewhere import Rows

    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
    train_loader = torch.utils.data.DataLoader(Rows("a"), batch_size=8)
    test_loader = torch.utils.data.DataLoader(Rows("b"), batch_size=8)
    optimizer = torch.optim.Adam(net.parameters())
    loss_fn = torch.nn.MSELoss()

    def score(model, rows):
        {first}
        total = 0.0
        with torch.no_grad():
            for x, y in rows:
                total += loss_fn(model(x), y).item()
        return total

    for epoch in range(3):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss_fn(net(x), y).backward()
            optimizer.step()
        {used}

    def score(model, rows):
        model.eval()
        found = []
        with torch.no_grad():
            for x, y in rows:
                found.append(loss_fn(model(x), y).item())
        return sum(found)

    print(score(net, test_loader))
"""


@pytest.mark.parametrize(
    ("first", "used", "said"),
    [
        ("pass", "print(score(net, test_loader))", 1),
        ("model.eval()", "print(score(net, test_loader)); net.train()", 0),
        ("pass", "net.eval(); print(score(net, test_loader)); net.train()", 0),
        ("pass", "pass", 0),
    ],
)
def test_the_definition_that_runs_before_the_next_one_is_judged(first, used, said):
    found = examine(EvalModeMisuse, script_patient(CELLS.format(first=first, used=used)))
    assert [finding.detail.how for finding in found] == ["mode"] * said


PHASES = """
import torch
from torch import nn
from torch.utils.data import DataLoader
train_loader = DataLoader(data, batch_size=4, shuffle=True)
test_loader = DataLoader(held, batch_size=4)
def fit(model, epochs=3):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for phase in PHASES:
            if phase == "train":
                model.train()
            else:
                model.eval()
            for x, y in train_loader if phase == "train" else test_loader:
                opt.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    loss = nn.functional.cross_entropy(model(x), y)
                    if phase == "train":
                        loss.backward()
                        opt.step()
    return model
net = fit(nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 2)))
def count(loader):
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (net(x).argmax(1) == y).sum().item()
    return right
right = 0
with torch.no_grad():
    for x, y in test_loader:
        right += (net(x).argmax(1) == y).sum().item()
print(right, count(test_loader))
"""


@pytest.mark.parametrize(("phases", "found"), [('["train", "val"]', 0), ('("val", "train")', 2)])
def test_a_training_leaves_the_mode_of_its_last_phase(phases, found):
    said = examine(EvalModeMisuse, script_patient(PHASES.replace("PHASES", phases)))
    assert len(said) == found


OWN = """
import torch
from torch import nn
from transformers import T5ForConditionalGeneration
from torch.utils.data import DataLoader
class Net(T5ForConditionalGeneration):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 2))
    def forward(self, x):
        return super().forward(x)
    def learn(self, x, y):
        return nn.functional.cross_entropy(self(x), y)
    @torch.no_grad()
    def judge(self, x, y):
        self.eval()
        return nn.functional.cross_entropy(self(x), y).item()
class Fit:
    def __init__(self, kind):
        self.model = kind.from_pretrained("t5-small")
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def run(self):
        for epoch in range(10):
            self.model.train()
            for x, y in DataLoader(data, batch_size=4, shuffle=True):
                self.opt.zero_grad()
                if self.distributed:
                    loss = self.model.module.learn(x, y)
                else:
                    loss = self.model.learn(x, y)
                loss.backward()
                self.opt.step()
            self.validate()
    def validate(self):
        self.model.eval()
        for x, y in DataLoader(held, batch_size=4):
            if self.distributed:
                self.model.module.judge(x, y)
            else:
                self.model.judge(x, y)
Fit(Net).run()
"""


def test_healthy_a_module_that_switches_itself_and_a_loop_that_switches_it_back():
    assert [item for item in examine(EvalModeMisuse, script_patient(OWN)) if item.detail.how == "training"] == []


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


PROBED = """
import torch
from torch import nn
from torch.utils.data import DataLoader
encoder = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
head = nn.Linear(8, 2)
def fit(encoder, head):
    optimizer = torch.optim.Adam(HELD.parameters())
    for epoch in range(9):
        head.train()
        encoder.eval()
        for x, y in DataLoader(data, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(encoder(x)), y).backward()
            optimizer.step()
fit(encoder, head)
"""


@pytest.mark.parametrize(("held", "found"), [("head", 0), ("encoder", 1)])
def test_a_model_that_no_optimizer_of_the_function_holds_may_stay_in_eval_mode(held, found):
    said = examine(EvalModeMisuse, script_patient(PROBED.replace("HELD", held)))
    assert len([item for item in said if item.detail.how == "training"]) == found


PAINTED = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    class Spot(nn.Module):
        def __init__(self):
            super().__init__()
            LAYER
        def forward(self, size):
            return torch.rand(size)

    class Painter:
        def __init__(self):
            self.model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
            self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
            self.spot = Spot()
        def train(self):
            for x in DataLoader(torch.randn(100, 8), batch_size=4):
                self.optimizer.zero_grad()
                self.model(x).mean().backward()
                self.optimizer.step()
        def get_test(self):
            with torch.no_grad():
                for x in DataLoader(torch.randn(100, 8), batch_size=4):
                    print(self.spot(8) * x)

    painter = Painter()
    painter.train()
    painter.get_test()
"""


@pytest.mark.parametrize(("layer", "found"), [("self.size = 8", 0), ("self.norm = nn.BatchNorm1d(8)", 1)])
def test_a_module_without_layers_has_no_mode(layer, found):
    assert len(examine(EvalModeMisuse, script_patient(PAINTED.replace("LAYER", layer)))) == found


SUMMED = """
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Learner(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
            self.optimizer = torch.optim.SGD(self.network.parameters(), 0.1)
        def update(self, minibatches):
            objective, told = 0, 0
            for x, y in minibatches:
                WHERE += F.cross_entropy(self.network(x), y)
            objective = objective / len(minibatches)
            self.optimizer.zero_grad()
            objective.backward()
            self.optimizer.step()

    learner = Learner()
    for minibatches in zip(*[torch.utils.data.DataLoader(torch.load(f"{i}.pt")) for i in range(3)]):
        learner.update(minibatches)
"""


def test_healthy_the_losses_of_several_batches_make_one_step():
    assert examine(EvalModeMisuse, script_patient(SUMMED.replace("WHERE", "objective"))) == []


STACKED = """
    import contextlib
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def evaluate(model, loader):
        model.eval()
        SWITCH
        for x in loader:
            print(model(x).argmax())
        model.train()

    for x in torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=8):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    evaluate(model, torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=8))
"""


@pytest.mark.parametrize(
    ("switch", "found"),
    [
        ("pass", 1),
        ("stack = contextlib.ExitStack(); stack.enter_context(torch.no_grad())", 0),
        ("stack = contextlib.ExitStack(); stack.enter_context(open('log'))", 1),
        ("torch.set_grad_enabled(False)", 0),
        ("torch.no_grad()", 1),
        ("with contextlib.ExitStack() as stack: stack.enter_context(torch.no_grad())", 1),
    ],
)
def test_a_context_that_a_stack_enters(switch, found):
    assert len(examine(EvalModeMisuse, script_patient(STACKED.replace("SWITCH", switch)))) == found


PREPARED = """
    import torch
    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, {kind}
    tokenizer = {kind}.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    train_loader = torch.utils.data.DataLoader(load_dataset("x")["train"], batch_size=8)
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    model.eval()
    test_dataset = load_dataset("x")["test"]
    def evaluate():
        for example in test_dataset:
            inputs = tokenizer(example["text"], return_tensors="pt").to("cuda")
            {runs}
    evaluate()
"""


@pytest.mark.parametrize(
    ("kind", "runs", "found"),
    [
        ("AutoTokenizer", "model.generate(**inputs)", 0),
        ("AutoProcessor", "model.generate(**inputs)", 0),
        ("AutoTokenizer", "print(model(**inputs).loss)", 1),
    ],
)
def test_a_tokenizer_is_no_network(kind, runs, found):
    assert len(examine(EvalModeMisuse, script_patient(PREPARED.format(kind=kind, runs=runs)))) == found


BUILT = """
    import torch
    class Block(torch.nn.Module):
        def __init__(self, width, {option}):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(width, width))
            if batchnorm:
                self.layers.append(torch.nn.BatchNorm1d(width))
        def forward(self, x):
            return self.layers(x)
    class Critic(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), {layer})
        def forward(self, x):
            return self.layers(x)
    model = {made}
    optimizer = torch.optim.Adam(model.parameters())
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for epoch in range(9):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        with torch.no_grad():
            test_loss = 0.0
            for x in loader:
                test_loss += model(x).mean()
        print(test_loss)
"""


@pytest.mark.parametrize(
    ("option", "layer", "made", "found"),
    [
        ("batchnorm=False", "torch.nn.ReLU()", "Block(8)", 0),
        ("batchnorm=True", "torch.nn.ReLU()", "Block(8)", 1),
        ("batchnorm=False", "torch.nn.ReLU()", "Block(8, batchnorm=True)", 1),
        ("batchnorm", "torch.nn.ReLU()", "Block(8, input() == 'y')", 1),
        ("batchnorm=False", "torch.nn.Dropout()", "Block(8)", 0),
        ("batchnorm=False", "torch.nn.Dropout()", "Critic()", 1),
    ],
)
def test_layers_that_the_program_does_not_build_have_no_mode(option, layer, made, found):
    text = BUILT.format(option=option, layer=layer, made=made)
    assert len(examine(EvalModeMisuse, script_patient(text))) == found


HANDED = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
        def forward(self, x):
            return self.layers(x)
    class Trainer:
        def __init__(self, model: torch.nn.Module, loader):
            self.model = {held}
            self.loader = loader
            self.optimizer = torch.optim.Adam(self.model.parameters())
        def train(self):
            for x in self.loader:
                self.optimizer.zero_grad()
                self.model(x).mean().backward()
                self.optimizer.step()
                self.test()
        def test(self):
            with torch.no_grad():
                for x in self.loader:
                    print(self.model(x).mean())
    {start}
"""


@pytest.mark.parametrize(
    ("held", "start", "found"),
    [
        ("model", "print(Net())", 0),  # a module for others: who makes it knows the network
        ("Net()", "print(Net())", 1),
        ("model", "Trainer(Net(), torch.utils.data.DataLoader(torch.randn(99, 8))).train()", 1),
    ],
)
def test_a_model_that_nobody_in_sight_hands_in_has_unknown_layers(held, start, found):
    assert len(examine(EvalModeMisuse, script_patient(HANDED.format(held=held, start=start)))) == found


FROZEN = """
    import torch
    class Masker(torch.nn.Module):
        def __init__(self, first):
            super().__init__()
            self.first = first
            self.head = torch.nn.Linear(8, 8)
            for parameter in self.first.parameters():
                parameter.requires_grad = {needed}
        def forward(self, x):
            if self.training:
                return self.head(x)
            {switch}
                return self.first(x)
    model = Masker(torch.nn.Linear(8, 8)).cuda()
    optimizer = torch.optim.Adam(model.head.parameters())
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for x in loader:
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
    model.eval()
    def test():
        return [{run}(x.cuda()) for x in ()]
    def evaluate():
        kept = []
        for x in loader:
            kept.append({run}(x.cuda()))
        return kept
    evaluate()
"""


@pytest.mark.parametrize(
    ("needed", "switch", "run", "found"),
    [
        ("False", "if True:", "model.first", 0),
        ("True", "if True:", "model.first", 1),
        ("True", "with torch.no_grad():", "model", 0),
        ("True", "if True:", "model", 1),
    ],
)
def test_a_network_that_needs_no_gradients_builds_no_graph(needed, switch, run, found):
    text = FROZEN.format(needed=needed, switch=switch, run=run)
    assert len(examine(EvalModeMisuse, script_patient(text))) == found


@pytest.mark.parametrize(
    ("inside", "severity"),
    [
        ("out = model(x)\n        shown.append(out)\n        break", Severity.NOTE),
        ("if x.size(0) < 3: continue\n        shown.append(model(x))\n        break", Severity.WARNING),
        ("shown.append(model(x))", Severity.WARNING),
    ],
)
def test_an_evaluation_of_the_first_batch_is_one_pass(inside, severity):
    text = f"""
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
shown = []
def evaluate(model, loader):
    model.eval()
    for x in loader:
        {inside}
    model.train()
for epoch in range(9):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    evaluate(model, loader)
"""
    [finding] = examine(EvalModeMisuse, script_patient(text))
    assert (finding.detail.how, finding.severity) == ("graph", severity)


CONTEXTS = """
import contextlib
import torch
from torch.utils.data import DataLoader
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(1000, 8))
{manager}
def evaluate(net, loader):
    total = 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        {entered}
        for x in loader:
            total += net(x).mean()
    return total
for epoch in range(9):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    print(evaluate(model, loader))
"""
OWN = """
@contextlib.contextmanager
def still(net):
    before = net.training
    {body}
    yield
    net.train(before)
"""
OBJECT = """
class Still:
    def __init__(self, net):
        self.net = net
    def __enter__(self):
        self.net.{body}()
    def __exit__(self, *error):
        self.net.train()
"""


@pytest.mark.parametrize(
    ("manager", "entered", "found"),
    [
        (OWN.format(body="net.eval()"), "stack.enter_context(still(net))", 0),
        (OWN.format(body="net.eval()"), "pass", 1),
        (OBJECT.format(body="eval"), "stack.enter_context(Still(net))", 0),
        (OBJECT.format(body="half"), "stack.enter_context(Still(net))", 1),
    ],
)
def test_a_context_manager_of_ones_own_may_switch_to_eval_mode(manager, entered, found):
    text = CONTEXTS.format(manager=manager, entered=entered)
    assert len(examine(EvalModeMisuse, script_patient(text))) == found


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
