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
        ("enumerate(range(0, source.size(0), 35))", "evaluate", "evaluate(val_tokens)", ["graph"]),
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
    [(", volatile=True", "loss.data[0]", 0), ("", "loss.data[0]", 1)],
    ids=["healthy", "sick"],
)
def test_volatile_inputs_of_an_old_program_build_no_graph(word, read, found):
    assert len(examine(EvalModeMisuse, script_patient(OLD.format(word=word, read=read)))) == found


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
