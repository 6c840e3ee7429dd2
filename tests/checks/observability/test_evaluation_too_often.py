import pytest
from mending import gone, mended
from recordings import make_process, make_recording, make_steps, record
from scripts import PATIENTS, healthy_scripts, read_script, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient
from gpudoctor_checks.observability.evaluation_too_often import EvaluationTooOften

FOLDER = PATIENTS / "OBS004"
GUILTY = {
    "sick_called_each_step": (24, 1, Severity.NOTE, "if step % 500 == 0:\n            evaluate(model"),
    "sick_inline": (21, 20, Severity.NOTE, "if step % 500 == 0:"),
}
UNFOLLOWED = """
    import torch
    from mylib import evaluate
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    val_loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        {statement}
"""


@pytest.mark.parametrize("path", sick_scripts("OBS004"), ids=lambda path: path.stem)
def test_sick_script_and_its_cure(path):
    [finding] = examine(EvaluationTooOften, script_patient(path))
    line, period, severity, cure = GUILTY[path.stem]
    assert (finding.span.line, finding.detail.period, finding.severity) == (line, period, severity)
    text = path.read_text("utf-8")
    assert cure in mended(text, select="OBS004")
    assert mended(text, unsafe=False, select="OBS004") == text
    assert gone("OBS004", text)


@pytest.mark.parametrize("path", healthy_scripts("OBS004"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(EvaluationTooOften, script_patient(path)) == []


def test_sick_evaluation_of_another_module():
    patient = script_patient(UNFOLLOWED.format(statement="evaluate(model, val_loader)"))
    assert len(examine(EvaluationTooOften, patient)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "if step % 1000 == 0: evaluate(model, val_loader)",
        "evaluate(loss)",
        "if step == 10: evaluate(model, val_loader)",
        "torch.cuda.validate(val_loader)",
    ],
)
def test_healthy_calls(statement):
    assert examine(EvaluationTooOften, script_patient(UNFOLLOWED.format(statement=statement))) == []


def test_sick_at_the_users_threshold():
    patient = script_patient(FOLDER / "healthy_epoch.py")
    assert len(examine(EvaluationTooOften, patient, eval_period=1000)) == 1
    patient = script_patient(FOLDER / "healthy_full_batch.py")
    assert len(examine(EvaluationTooOften, patient, few_batches=1)) == 1


SEVERAL = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(1000, 8)
    times = int(input())

    def run(phase):
        torch.set_grad_enabled(phase == "train")
        model.train() if phase == "train" else model.eval()
        for x in torch.utils.data.DataLoader(data):
            out, other = torch.zeros(1), torch.zeros(1)
            for turn in range(times):
                {name} += model(x)
            loss = (out / times - x).pow(2).mean()
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    for epoch in range(100):
        run("test")
        run("train")
"""


@pytest.mark.parametrize(("name", "found"), [("out", 0), ("other", 1)], ids=["healthy", "sick"])
def test_a_loop_whose_sum_goes_into_the_loss_is_the_forward(name, found):
    assert len(examine(EvaluationTooOften, script_patient(SEVERAL.format(name=name)))) == found


FILLED = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = [torch.randn(4, 8) for _ in range(100)]
    ready = []
    def play(number=100):
        with torch.no_grad():
            for x in data[:number]:
                ready.append((x, model(x)))
    for step in range(10_000):
        {head}
            play()
        x, y = ready.pop()
        optimizer.zero_grad()
        (model(x) - y).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("head", "found"), [("while not ready:", 0), ("for _ in range(2):", 1)])
def test_healthy_forward_passes_that_fill_a_store_when_it_is_empty(head, found):
    assert len(examine(EvaluationTooOften, script_patient(FILLED.format(head=head)))) == found


TEACHER = """
    import torch
    pupil, teacher = torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 4).cuda()
    rule = torch.optim.SGD(pupil.parameters(), lr=0.1)
    store = torch.zeros(9, 8, 4)
    for step, (x, y) in enumerate(torch.utils.data.DataLoader(torch.load("d.pt"), batch_size=8)):
        weight = 1.0
        said = torch.zeros(9, 8, 4)
        many = []
        for turn in range(9):
            with torch.no_grad():
                {store}
        {use}
        loss = (weight * (pupil(x.cuda()) - y.cuda()) ** 2).mean()
        rule.zero_grad()
        loss.backward()
        rule.step()
        print(said.mean(), loss)
"""


@pytest.mark.parametrize(
    ("store", "use", "found"),
    [
        ("said[turn] = teacher(x.cuda() + turn)", "weight = (said.std(0) < 1).float()", 0),
        ("many.append(teacher(x.cuda() + turn))", "spread = torch.stack(many).std(0); weight = spread.mean()", 0),
        ("guess, said = teacher(x), 3", "weight = guess", 0),
        ("said[turn] = teacher(x.cuda() + turn)", "score = said.mean()", 1),
        ("said[turn] = teacher(x.cuda() + turn)", "weight = said.std(0); weight = 2.0", 1),
        ("score = teacher(x.cuda() + turn)", "print(score)", 1),
    ],
)
def test_passes_whose_values_weigh_the_loss_are_a_part_of_the_step(store, use, found):
    assert len(examine(EvaluationTooOften, script_patient(TEACHER.format(store=store, use=use)))) == found


SEARCHED = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.DataLoader(torch.randn(100_000, 8))
    tests = torch.utils.data.DataLoader(torch.randn(1000, 8))
    tries = int(input())

    def worst(x):
        model.eval()
        best, found = -1.0, x
        with torch.no_grad():
            for REST:
                other = x + 0.1 * torch.randn_like(x)
                harm = float(model(other).abs().mean())
                if harm > best:
                    best, found = harm, other
        model.train()
        return found

    for epoch in range(100):
        for x in data:
            hard = worst(x)
            optimizer.zero_grad()
            model(hard).mean().backward()
            optimizer.step()
"""


@pytest.mark.parametrize(("rest", "found"), [("trial in range(tries)", 0), ("y in tests", 1)])
def test_a_search_for_hard_samples_is_a_part_of_the_step(rest, found):
    assert len(examine(EvaluationTooOften, script_patient(SEARCHED.replace("REST", rest)))) == found


INSIDE = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Linear(8, 8)
            self.head = torch.nn.Linear(8, 1)
        def forward(self, x, samples):
            total = 0
            with torch.no_grad():
                for sample in samples:
                    total = total + self.embed(sample)
            return self.head(x + total)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.DataLoader(torch.randn(100_000, 8))
    tests = torch.utils.data.DataLoader(torch.randn(1000, 8))
    n_steps = int(input())

    @torch.no_grad()
    def {name}(x):
        model.eval()
        for {draws}:
            x = model(x, [x])
        model.train()
        return x

    for x in data:
        optimizer.zero_grad()
        model({given}, [x]).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "draws", "given", "found"),
    [
        ("sample", "step in range(n_steps)", "sample(x)", 0),  # what is drawn is the step's input
        ("sample", "y in tests", "x", 0),  # the network's own loop
        ("evaluate", "y in tests", "x * evaluate(x).mean()", 1),
    ],
)
def test_a_sampler_and_a_loop_in_the_forward_are_parts_of_the_step(name, draws, given, found):
    text = INSIDE.format(name=name, draws=draws, given=given)
    assert len(examine(EvaluationTooOften, script_patient(text))) == found


IN_TRAINING_MODE = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data, held = torch.randn(1000, 8), torch.randn(1000, 8)
    scores = []
    for step, x in enumerate(torch.utils.data.DataLoader(data)):
        optimizer.zero_grad()
        {before}
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        {after}
"""
SCORED = "with torch.no_grad(): score = model(held).mean()"


def passes_at(before="", after="", share=0.5):
    """Findings on a run whose passes are called from the block without gradients for a share of the time."""
    source = read_script(IN_TRAINING_MODE.format(before=before, after=after))
    [script] = source.scripts
    rows = script.text.split("\n")
    block = next(number for number, row in enumerate(rows, 1) if "no_grad" in row)
    step = next(number for number, row in enumerate(rows, 1) if "loss =" in row)
    seen = record(
        "lines", 9.0, samples=100,
        counts=[["forward", script.path, 90, "layer", 100]],
        callers=[[0, True, [[script.path, block, ""]], 100 * share],
                 [0, True, [[script.path, step, ""]], 100 - 100 * share]],
    )  # fmt: skip
    run = make_recording(make_process(make_steps(200, forward=0.016), records=[seen]))
    return examine(EvaluationTooOften, make_patient(source=source, recording=run))


def test_sick_an_evaluation_in_training_mode():
    [finding] = passes_at(after=SCORED)
    assert "no training step needs take 35 %" in finding.message and finding.severity is Severity.WARNING
    assert finding.span.text == SCORED
    [finding] = passes_at(after="with torch.no_grad(): scores.append(model(held).mean())", share=0.25)
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize(
    "places",
    [
        {"after": SCORED, "share": 0.05},
        {"before": "with torch.no_grad(): x = x + model(held).mean()"},
        {"after": "with torch.no_grad(): x = x + model(held)"},
        {"after": "with torch.no_grad(): data[0] = model(held).mean()"},
        {"after": "with torch.no_grad(): held.copy_(model(held))"},
        {"after": "with torch.no_grad(): optimizer.remember(model(held))"},
    ],
)
def test_healthy_passes_without_gradients_that_a_step_needs(places):
    assert passes_at(**places) == []
