"""The edits of what a run has shown: made where the source has one place for them, and nowhere else."""

import textwrap

import pytest
from edits import apply_edits
from recordings import make_process, make_recording, make_steps
from scripts import script_patient

from gpudoctor.model import Code, Confidence, Finding, Measurement, Severity
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import prescribe
from gpudoctor_rules.training import with_edits

RESUMED = """
    import torch
    def save(model, optimizer, scheduler):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "lr_scheduler":
            scheduler.state_dict()}, "last.pt")
    def load(model, optimizer, scheduler):
        ckpt = torch.load("last.pt")
        model.load_state_dict(ckpt["model"])  # here
        return ckpt
    """
BEST = """
    import torch
    def fit(model, loader):
        for epoch in range(9):
            best = model.state_dict()
        model.load_state_dict(best)  # here
    """
SCHEDULE = """
    import torch
    from transformers import get_cosine_schedule_with_warmup
    def fit(optimizer, n, w):
        scheduler = {made}  # here
    """
BACKWARD = """
    import torch
    def step(model, loss, optimizer):
        loss.backward(){more}
        optimizer.step()  # here
    """
METRIC = """
    import torch, torchmetrics
    def evaluate(model, loader, accuracy):
        for x, y in loader:
            accuracy.update(model(x), y)
        {compute}  # here
        return value
    """
ADAPTER = """
    from peft import PeftModel
    def build(base):
        return PeftModel.from_pretrained(base, "adapter"{more})  # here
    """


def edited(code: str, how: str, program: str, value: float = 0, stopped: str | None = None) -> str | None:
    """The program after the rule's edits; None where it has none."""
    text = textwrap.dedent(program)
    end = RunEnd(exit_code=0, stopped_by=stopped)
    recording = make_recording(make_process(make_steps(9)), end=end)
    patient = script_patient(text, recording=recording)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if row.endswith("# here"))
    finding = Finding(
        code=Code(code), name="x", severity=Severity.WARNING, confidence=Confidence.CONFIRMED, message="", subject=how,
        evidence=(SourceSpan(path=patient.source.scripts[0].path, line=line), Measurement("seen", value, "1")),
    )  # fmt: skip
    found = prescribe(with_edits, finding, patient)
    return apply_edits(text, found[0].edits) if found else None


@pytest.mark.parametrize(
    ("code", "how", "program", "value", "line"),
    [
        ("TRAIN009", "optimizer", RESUMED, 3, '    optimizer.load_state_dict(ckpt["optimizer"])'),
        ("TRAIN009", "schedule", RESUMED, 3, '    scheduler.load_state_dict(ckpt["lr_scheduler"])'),
        ("TRAIN009", "own", BEST, 4, "        best = copy.deepcopy(model.state_dict())"),
        ("TRAIN008", "rises", SCHEDULE.format(made="torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=n)"),
         216, "    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=216)  # here"),
        ("TRAIN008", "early", SCHEDULE.format(made="get_cosine_schedule_with_warmup(optimizer, w, 2 * n)"),
         90, "    scheduler = get_cosine_schedule_with_warmup(optimizer, w, 90)  # here"),
        ("TRAIN008", "plateau", SCHEDULE.format(made="torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"), 1,
         "    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode='max')  # here"),
        ("TRAIN007", "undivided", BACKWARD.format(more=""), 4, "    (loss / 4).backward()"),
        ("TRAIN005", "adapter", ADAPTER.format(more=""), 100,
         "    return PeftModel.from_pretrained(base, 'adapter', is_trainable=True)  # here"),
        ("TRAIN004", "metric", METRIC.format(compute="value = accuracy.compute()"), 5, "    accuracy.reset()"),
    ],
)  # fmt: skip
def test_the_edit_where_there_is_one_place_for_it(code, how, program, value, line):
    mended = edited(code, how, program, value)
    assert mended is not None and line.replace('"', "'") in mended.replace('"', "'").splitlines()


@pytest.mark.parametrize(
    ("code", "how", "program"),
    [
        # The object is not there yet, or nobody saved its state.
        ("TRAIN009", "optimizer", RESUMED.replace("def load(model, optimizer,", "def load(model,")),
        ("TRAIN009", "optimizer", RESUMED.replace('"optimizer"', '"x"')),
        # Which of two kept states is loaded is not known; a schedule in parts has its own lengths.
        ("TRAIN009", "own", BEST.replace("best = model", "best = last")),
        ("TRAIN008", "rises", SCHEDULE.format(made="S.SequentialLR(optimizer, [S.CosineAnnealingLR(optimizer, n)])")),
        ("TRAIN008", "early", SCHEDULE.format(made="torch.optim.lr_scheduler.LambdaLR(optimizer, w)")),
        ("TRAIN007", "undivided", BACKWARD.format(more="; (2 * loss).backward()")),
        ("TRAIN004", "metric", METRIC.format(compute="return accuracy.compute()")),
        ("TRAIN004", "samples", METRIC.format(compute="value = accuracy.compute()")),
    ],
)
def test_none_where_a_person_must_choose(code, how, program):
    assert edited(code, how, program.replace("last.state_dict()", "(a.state_dict(), b.state_dict())"), 4) is None


def test_a_run_that_was_stopped_has_not_counted_how_long_the_schedule_is():
    program = SCHEDULE.format(made="get_cosine_schedule_with_warmup(optimizer, w, 2 * n)")
    assert edited("TRAIN008", "early", program, 90) is not None
    assert edited("TRAIN008", "early", program, 90, stopped="steps") is None
