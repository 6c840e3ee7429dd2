"""Labels of tokens: small language models on the CPU, sick and healthy, as the probe sees them."""

import pytest
from packages import need
from probed import run_script
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.analysis.run.training.card import training_card
from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.numerics.nan_loss import NanLoss
from gpudoctor_checks.training.labels_misplaced import LabelsMisplaced
from gpudoctor_checks.training.labels_untrained import LabelsUntrained
from gpudoctor_rules.training import by_how

MODEL = """
class Config:
    eos_token_id, pad_token_id = 1, PAD

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.words, self.body, self.head = nn.Embedding(40, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 40)
    def forward(self, input_ids, attention_mask=None, labels=None):
        logits = self.head(self.body(self.words(input_ids))[0])
        return F.cross_entropy(logits[:, :LAST].flatten(0, 1), labels[:, FIRST:].flatten(), ignore_index=-100)

def collate(rows):
    wide = max(map(len, rows))
    ids = torch.tensor([[*row, *[PAD] * (wide - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (wide - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "labels": make(ids, mask)}

def at_the_left(rows):
    wide = max(map(len, rows))
    ids = torch.tensor([[*[PAD] * (wide - len(row)), *row] for row in rows])
    mask = (ids != PAD) * 1
    labels = ids.masked_fill((mask == 0) | (torch.arange(wide) < 4), -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}

def masked(ids, mask):
    hidden = (torch.rand(ids.shape) < 0.2) & (mask == 1)
    labels = ids.masked_fill(~hidden, -100)
    ids[hidden] = 2
    return labels

def text():
    start = torch.randint(3, 30, ()).item()
    return [start + place % 7 for place in range(torch.randint(6, 14, ()).item())] + [1]

def train():
    loader = DataLoader([text() for _ in range(256)], batch_size=8, collate_fn=collate)  # loader
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for batch in loader:
        optimizer.zero_grad()
        model(**{name: batch[name] for name in ("input_ids", "attention_mask", "labels")}).backward()
        optimizer.step()
"""
TEXT = "make = lambda ids, mask: ids.masked_fill(mask == 0, -100)"
CASES = {
    "healthy": TEXT,
    "padding is the end": "make = lambda ids, mask: ids.masked_fill(ids == PAD, -100)\nPAD = Config.pad_token_id = 1",
    "own padding": TEXT + "\nPAD = Config.pad_token_id = 1",
    "masked": "make = masked",
    "prompts": "make = lambda ids, mask: ids.masked_fill((torch.rand(len(ids), 1) < 0.3) | (mask == 0), -100)",
    "twice": "make = lambda ids, mask: F.pad(TEXT(ids, mask)[:, 1:], (0, 1), value=-100)",
    "copy": TEXT + "\nFIRST, LAST = 0, None",
    "shifted outside": "make = lambda ids, mask: F.pad(TEXT(ids, mask)[:, 1:], (0, 1), value=-100)\nFIRST, LAST = 0, None",
    "padding": "make = lambda ids, mask: ids",
    "prompt at the left": "collate = at_the_left\n" + TEXT,
}
_runs = {}


def patient(tmp_path_factory, case):
    """What a training shows, made once."""
    need("torch")
    if case not in _runs:
        program = "PAD, FIRST, LAST = 0, 1, -1\n" + MODEL + CASES[case].replace("TEXT", f"({TEXT[7:]})") + "\ntrain()\n"
        run = run_script(tmp_path_factory.mktemp("labels"), program)
        _runs[case] = make_patient(recording=open_recording(str(run.folder)))
    return _runs[case]


@pytest.mark.parametrize(
    ("case", "how"),
    [("healthy", None), ("padding is the end", "pad"), ("own padding", None), ("masked", None), ("prompts", "rows"),
     ("shifted outside", None)],
)  # fmt: skip
def test_labels_that_are_missing(tmp_path_factory, case, how):
    seen = patient(tmp_path_factory, case)
    found = examine(LabelsUntrained, seen)
    assert [item.subject.split()[0] for item in found] == ([how] if how else [])
    for item in found:
        assert item.severity is Severity.WARNING and item.span.line, "the line of the collate function"
        assert prescribe(by_how, item, seen)


@pytest.mark.parametrize(
    ("case", "how"),
    [("healthy", None), ("twice", "twice"), ("copy", "copy"), ("shifted outside", None), ("padding", "padding"),
     ("masked", None), ("prompt at the left", "prompt")],
)  # fmt: skip
def test_labels_at_a_wrong_place(tmp_path_factory, case, how):
    seen = patient(tmp_path_factory, case)
    found = examine(LabelsMisplaced, seen)
    assert [item.subject.split()[0] for item in found] == ([how] if how else [])
    for item in found:
        assert (item.severity is Severity.ERROR) is (how == "twice")
        assert prescribe(by_how, item, seen)


def test_the_card_says_what_is_trained(tmp_path_factory):
    lines = {line.name: line for line in training_card(patient(tmp_path_factory, "prompts").recording)}
    assert lines["batch"].facts["shape"][0] == 8 and 0.1 < lines["batch"].facts["padding"] < 0.5
    assert lines["labels"].facts["rows"] == 8 * 7 and 5 < lines["labels"].facts["unlabelled"] < 25
    never = {line.name: line for line in training_card(patient(tmp_path_factory, "padding is the end").recording)}
    assert "the end token (1) is never among them" in never["labels"].text


def looked(role="training", **fields):
    usual = {"rows": 8, "width": 32, "tokens": 256, "padding": 0, "full": 8, "labels": 64, "same": 64}
    loader = record("loader", id=0, role=role, path="/job/train.py", line=3)
    return [loader, record("batch", loader=0, draw=1, shapes=[["input_ids", "int64", [8, 32]]], **usual | fields)]


def untrained(**fields):
    run = make_recording(make_process(make_steps(40), records=looked(**fields)))
    return examine(LabelsUntrained, make_patient(recording=run))


def test_an_evaluation_without_a_label():
    [found] = untrained(role="evaluation", labels=0, unlabelled=8, unlabelled_full=8)
    assert found.severity is Severity.ERROR and "0 / 0" in found.message and "cut off" in found.message
    [found] = untrained(unlabelled=3)
    assert found.severity is Severity.WARNING and found.subject.split()[0] == "rows"
    assert not untrained(unlabelled=3, same=7), "a masked language model's short rows"
    assert not untrained(unlabelled=2) and not untrained(rows=200, unlabelled=3)


def test_limits_of_an_end():
    [found] = untrained(unended=8, ends=8, eos=[2], pad=2)
    assert found.severity is Severity.WARNING and found.subject == "pad training"
    assert untrained(unended=4, ends=8, eos=[2]) and not untrained(unended=3, ends=8, eos=[2])
    assert not untrained(unended=8, ends=8, eos=[2], trained_ends=1)
    with pytest.raises(Unavailable):
        examine(LabelsUntrained, make_patient(recording=make_recording(make_process(make_steps(40)))))


def test_a_loss_of_nothing_comes_before_its_nan():
    bad = record("numeric", kind="nan-loss", step=4, value="nan", path="/job/train.py", line=9)
    batches = [*looked(labels=0, unlabelled=8), bad]
    steps = make_steps(40, loss=[2.0] * 4 + [float("nan")] * 36)
    run = make_recording(make_process(steps, records=batches))
    [found] = examine(NanLoss, make_patient(recording=run))
    assert found.effect_of == "TRAIN001"


def misplaced(**fields):
    targets = {"hits": [0, 64, 0], "counted": [64, 64, 60], "labels": 64, "pads": 0, "several": False}
    item = record("call", kind="targets", model="Reader", **targets | fields)
    run = make_recording(make_process(make_steps(40), records=[item]))
    return [found.subject.split()[0] for found in examine(LabelsMisplaced, make_patient(recording=run))]


def test_limits_of_misplaced_labels():
    assert misplaced() == []
    assert misplaced(hits=[0, 0, 60]) == ["twice"]
    assert misplaced(hits=[0, 62, 60]) == [], "tokens that repeat"
    assert misplaced(hits=[0, 0, 30], counted=[32, 32, 30]) == [], "too few"
    assert misplaced(hits=[63, 0, 0]) == ["copy"] and misplaced(hits=[62, 0, 0]) == []
    assert misplaced(hits=[64, 0, 0], several=True) == [], "a decoder's input beside the encoder's"
    assert misplaced(pads=4) == ["padding"] and misplaced(pads=3) == []
    with pytest.raises(Unavailable):
        examine(LabelsMisplaced, make_patient(recording=make_recording(make_process(make_steps(40)))))


def test_healthy_classes_that_have_the_number_of_padding_and_sick_padding():
    assert misplaced(hits=[3, 4, 3], pads=8) == [], "classes of tokens are no tokens"
    assert misplaced(pads=32) == ["padding"] and untrained(unlabelled=8)[0].subject.split()[0] == "rows"
