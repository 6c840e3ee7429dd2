import ast

import pytest
from mending import gone, mended
from recordings import make_process, make_recording, make_steps
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.model.signs.packages import TorchBuild
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.accumulation_wrong import AccumulationWrong
from gpudoctor_rules.loop.accumulation_wrong import AccumulationWrongRule


def build(version):
    return TorchBuild(version=version, cuda=None, hip=None, arch_list=(), cxx11_abi=True, path="torch")


GUILTY = {
    "sick_undivided": ("undivided", "loss.backward()  # 梯度累积"),
    "sick_undivided_scaler": ("undivided", "self.scaler.scale(loss).backward()"),
    "sick_cleared": ("cleared", "optimizer.zero_grad()"),
    "sick_schedule": ("scheduled", "scheduler.step()"),
    "sick_early": ("early", "scheduler.step()"),
    "sick_early_batch": ("early", "scheduler.step()"),
    "sick_twice": ("twice", "accelerator.backward(loss)"),
    "sick_nested": ("undivided", "loss.backward()"),
}


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP003")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP003"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    patient = script_patient(path)
    [finding] = examine(AccumulationWrong, patient)
    assert (finding.detail.how, finding.span.text) == GUILTY[path.stem]
    assert (finding.severity, finding.confidence) == (
        Severity.NOTE if path.stem == "sick_early_batch" else Severity.WARNING,
        Confidence.SUSPECTED,
    )
    [remedy] = prescribe(AccumulationWrongRule, finding, patient)
    assert remedy.applicability is Applicability.UNSAFE


@pytest.mark.parametrize("path", healthy_scripts("LOOP003"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(AccumulationWrong, script_patient(path)) == []


LOOP = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    accum = {count}
    for epoch in range(3):
        {head}
        for i, x in enumerate(torch.utils.data.DataLoader(torch.randn(1000, 8))):
            loss = {loss}
            loss.backward()
            if (i + 1) % accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        {tail}
"""


def look(loss="model(x).mean()", count=4, head="pass"):
    tail = "pass" if "scheduler" in head else "scheduler.step()"
    text = LOOP.format(loss=loss, count=count, head=head, tail=tail)
    return [f.detail.how for f in examine(AccumulationWrong, script_patient(text))]


def test_sick_variants():
    assert look() == ["undivided"]
    assert look(loss="model(x).mean() / accum", head="scheduler.step()") == ["early"]
    assert look(loss="model(x).mean() + 1") == ["undivided"]


@pytest.mark.parametrize(
    "change",
    [
        {"count": 1},
        {"loss": "model(x).mean() / accum"},
        {"loss": "model(x).mean() * 0.25"},
        {"loss": "somewhere(x)"},
        {"loss": "model(x).mean() / accum", "head": "if epoch > 0: scheduler.step()"},
        {"loss": "model(x).mean() / accum", "head": "scheduler.step(epoch)"},
    ],
)
def test_healthy_variants(change):
    assert look(**change) == []


ACCELERATED = """
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator({told})
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    count = 4
    total = {total}
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / total)
    model, optimizer, loader{given} = accelerator.prepare(model, optimizer, loader{given})
    for i, x in enumerate(loader):
        loss = model(x).mean() / count
        accelerator.backward(loss)
        if (i + 1) % count == 0:
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()
"""


@pytest.mark.parametrize(
    ("told", "total", "given", "said"),
    [
        ("", "len(loader) // count", ", schedule", ["scheduled"]),
        ("", "int(3 * len(loader) / count)", "", ["scheduled"]),
        ("gradient_accumulation_steps=4", "len(loader) // count", "", ["scheduled"]),
        ("gradient_accumulation_steps=4", "len(loader) // count", ", schedule", []),
        ("", "len(loader)", ", schedule", []),
        ("", "3 * len(loader)", "", []),
    ],
)
def test_accelerate_counts_only_what_it_was_told_and_given(told, total, given, said):
    text = ACCELERATED.format(told=told, total=total, given=given)
    found = [f.detail.how for f in examine(AccumulationWrong, script_patient(text))]
    assert found == said


@pytest.mark.parametrize("name", sorted(GUILTY))
def test_the_edit_cures(name):
    path = next(path for path in sick_scripts("LOOP003") if path.stem == name)
    text = path.read_text(encoding="utf-8")
    assert gone("LOOP003", text)
    new = mended(text, select="LOOP003")
    ast.parse(new)
    assert mended(new, select="LOOP003") == new


def test_the_number_is_the_scripts_own():
    for name, wanted in (
        ("sick_undivided", "(loss / accumulation_steps).backward()"),
        ("sick_undivided_scaler", "self.scaler.scale(loss / self.args.grad_accum).backward()"),
    ):
        path = next(path for path in sick_scripts("LOOP003") if path.stem == name)
        assert wanted in mended(path.read_text(encoding="utf-8"), select="LOOP003")


SCHEDULED = """
    import torch
    from elsewhere import drive
    class Warm:
        def __init__(self, inner):
            self.inner = inner
        def advance(self):
            self.inner.step()
    def one_epoch(model, loader, optimizer, plan, when):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
            {inside}
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plan = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    {made}
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for epoch in range(3):
        one_epoch(model, loader, optimizer, plan, "epoch")
        {after}
"""


def scheduled(inside="pass", made="pass", after="pass"):
    patient = script_patient(SCHEDULED.format(inside=inside, made=made, after=after))
    return [item for item in examine(AccumulationWrong, patient) if item.detail.how == "never"]


def test_sick_a_schedule_that_nothing_steps():
    [finding] = scheduled()
    assert finding.message.startswith("plan is built, but the program never steps it. The learning rate keeps")
    [finding] = scheduled(inside="if when == 'batch': plan.step()")
    assert "line 14 waits for when == 'batch'." in finding.message
    [remedy] = prescribe(AccumulationWrongRule, finding, script_patient("import torch"))
    assert remedy.title == "call plan.step()"


@pytest.mark.parametrize("name", ["opt_scheduler", "optim_plan", "optimizer_sched"])
def test_healthy_a_scheduler_whose_name_speaks_of_the_optimizer(name):
    text = SCHEDULED.format(inside="pass", made="pass", after="plan.step()").replace("plan", name)
    assert not [item for item in examine(AccumulationWrong, script_patient(text)) if item.detail.how == "never"]


@pytest.mark.parametrize(
    "change",
    [
        {"after": "plan.step()"},
        {"inside": "plan.step()"},
        {"inside": "if when == 'epoch': plan.step()"},
        {"made": "plan = Warm(plan)", "after": "plan.advance()"},
        {"made": "drive(plan)"},
        {"made": "plans = [plan]", "after": "[one.step() for one in plans]"},
        {"made": "optimizer.register_step_post_hook(plan.step)"},
    ],
)
def test_healthy_a_schedule_that_something_may_step(change):
    assert scheduled(**change) == []


@pytest.mark.parametrize(
    ("head", "severities"),
    [("import torch.utils.data", [Severity.WARNING]),
     ("from torch.utils.data.dataloader import pin_memory_batch", [Severity.NOTE]),
     ("from torch.utils.data.dataloader import _DataLoaderIter", [Severity.WARNING])],
)  # fmt: skip
def test_the_scheduler_steps_first_in_a_torch_that_an_import_is_last_in(head, severities):
    text = (PATIENTS / "LOOP003" / "sick_early.py").read_text(encoding="utf-8")
    patient = script_patient(
        text.replace("import torch\n", f"import torch\n{head}\n", 1), torch=build("2.13.0")
    )
    assert [item.severity for item in examine(AccumulationWrong, patient)] == severities


@pytest.mark.parametrize(("backwards", "steps", "found"), [(4.0, 100, 1), (1.0, 100, 0), (1.0, 8, 1)])
def test_healthy_a_run_whose_every_batch_is_a_step_gathers_nothing(backwards, steps, found):
    recording = make_recording(make_process(make_steps(steps, backwards=backwards)))
    patient = script_patient(PATIENTS / "LOOP003" / "sick_undivided.py", recording=recording)
    assert len(examine(AccumulationWrong, patient)) == found


@pytest.mark.parametrize(
    ("name", "severity"), [("sick_early", Severity.WARNING), ("sick_early_batch", Severity.NOTE)]
)
def test_one_value_of_a_schedule_by_epochs_weighs_more_than_one_by_batches(name, severity):
    text = (PATIENTS / "LOOP003" / f"{name}.py").read_text(encoding="utf-8")
    [finding] = [
        item for item in examine(AccumulationWrong, script_patient(text)) if item.detail.how == "early"
    ]
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("by_hand", "found"),
    [
        ("for group in optimizer.param_groups: group['lr'] = 0.1 / (epoch + 1)", 0),
        ("optimizer.param_groups[0]['lr'] *= 0.9", 0),
        ("rate = optimizer.param_groups[0]['lr']", 1),
    ],
)
def test_a_rate_that_the_program_sets_itself_moves_without_the_scheduler(by_hand, found):
    assert len(scheduled(inside="if when == 'batch': plan.step()", after=by_hand)) == found


DIVIDED = """
import argparse
import torch
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--plain", action="store_true")
parser.add_argument("--accumulation", type=int, default=4)
args = parser.parse_args()
accelerator = Accelerator(gradient_accumulation_steps=args.accumulation)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(9):
    for x in loader:
        with accelerator.accumulate(model):
            loss = model(x).square().mean()
            if args.plain:
                loss = loss / args.accumulation
                {plain}
            {other}
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("plain", "other", "found"),
    [
        ("loss.backward()", "else: accelerator.backward(loss)", 0),
        ("print(loss.shape)", "accelerator.backward(loss)", 1),
    ],
)
def test_a_division_in_the_branch_without_accelerate_divides_nothing_twice(plain, other, found):
    text = DIVIDED.format(plain=plain, other=other)
    how = [item.detail.how for item in examine(AccumulationWrong, script_patient(text))]
    assert how.count("twice") == found
