"""Batches and what models are called with: small trainings on the CPU, sick and healthy, as the probe sees them."""

from types import SimpleNamespace

import pytest
from packages import need
from probed import run_script
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.training.card import training_card
from gpudoctor.model import Severity, Unavailable
from gpudoctor.probe.training.batches import Batches
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.numerics.nan_loss import NanLoss
from gpudoctor_checks.training.evaluation_overlap import EvaluationOverlap
from gpudoctor_checks.training.inputs_unlike import InputsUnlike
from gpudoctor_checks.training.labels_misplaced import LabelsMisplaced
from gpudoctor_checks.training.labels_untrained import LabelsUntrained
from gpudoctor_rules.advice import advice

_runs = {}


def patient(tmp_path_factory, program):
    """What a training shows, made once."""
    need("torch")
    if program not in _runs:
        run = run_script(tmp_path_factory.mktemp("training"), program + "\n")
        assert not run.rank.of("lost")
        _runs[program] = make_patient(recording=open_recording(str(run.folder)))
    return _runs[program]


LOOP = """
def train(model, rows, labels, others=None, **more):
    loader = DataLoader(TensorDataset(rows, labels), batch_size=16, shuffle=True, **more)
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    tests = [DataLoader(other, batch_size=16) for other in others or ()]
    for _ in range(3):
        model.train()
        for images, classes in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), classes).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for test in tests:
                for images, classes in test:
                    model(images)

def network(*norm, channels=3):
    return nn.Sequential(nn.Conv2d(channels, 4, 3), *norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))

classes = torch.randint(0, 3, (128,))
raw = torch.randint(0, 256, (128, 3, 12, 12)).float()
rows = torch.randn(128, 20)
mean, spread = raw.mean(), raw.std()

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = network()
    def forward(self, images):
        return self.body((images - mean) / spread)

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(50, 8, padding_idx=0), nn.Linear(8, 3)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    def forward(self, ids):
        return self.head(self.layer(self.words(ids), **mask(ids)).mean(1))

texts = torch.randint(1, 50, (128, 24))
texts[torch.arange(24) >= torch.randint(6, 24, (128, 1))] = 0
mask = lambda ids: {}
numbers = TensorDataset(rows[:64] + 1, classes[:64])
coarse = torch.randn(128, 3, 4, 4) + torch.tensor([2.0, 0.0, -2.0])[:, None, None]
smooth = F.interpolate(coarse, size=24, mode="bilinear").permute(0, 2, 3, 1).contiguous()

class Reader(Encoder):
    def forward(self, ids, attention_mask=None):
        return super().forward(ids)

def read(seen, module="transformers.models.reader"):
    Reader.__module__ = module
    model = Reader()
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    for ids, target in DataLoader(TensorDataset(texts, classes), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(model(ids, seen(ids).long()), target).backward()
        optimizer.step()

def binary(most):
    model = nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    for images, target in DataLoader(TensorDataset(rows, (rows[:, :1] > 0) * most), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(model(images), target).backward()
        optimizer.step()
"""
CASES = {
    "healthy": ("train(network(), (raw - mean) / spread, classes)", {}),
    "raw": ("train(network(), raw, classes)", {"pixels": Severity.WARNING}),
    "raw, normed": ("train(network(nn.BatchNorm2d(4)), raw, classes)", {"pixels": Severity.NOTE}),
    "last": (
        "train(network(channels=12), ((raw - mean) / spread).permute(0, 2, 3, 1).contiguous(), classes)",
        {"last": Severity.ERROR},
    ),
    "mixed": ("train(network(), smooth.view(-1, 3, 24, 24), classes)", {"mixed": Severity.ERROR}),
    "moved": ("train(network(), smooth.permute(0, 3, 1, 2).contiguous(), classes)", {}),
    "targets": ("binary(255.0)", {"targets": Severity.ERROR}),
    "probabilities": ("binary(0.7)", {}),
    "unreal": (
        "rows[::7, 3] = float('nan')\ntrain(nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 3)), rows, classes)",
        {"unreal": Severity.ERROR},
    ),
    "empty": ("train(nn.Linear(20, 3), rows * 0, classes)", {"constant": Severity.ERROR, "repeated": Severity.NOTE}),
    "repeated": (
        "train(nn.Linear(20, 3), rows[:40].repeat(3, 1), classes[:40].repeat(3))",
        {"repeated": Severity.NOTE},
    ),
    "padding seen": ("train(Encoder(), texts, classes)", {"attended": Severity.WARNING}),
    "padding masked": ("mask = lambda ids: {'src_key_padding_mask': ids == 0}\ntrain(Encoder(), texts, classes)", {}),
    "text hidden": ("read(lambda ids: ids == 0)", {"hidden": Severity.WARNING}),
    "padding hidden": ("read(lambda ids: ids != 0)", {}),
    "a mask of another kind": ("read(lambda ids: ids == 0, 'reader')", {}),
    "leaks": ("train(nn.Linear(20, 3), rows, classes, [TensorDataset(rows[80:], classes[80:])])", {}),
    "both": ("train(nn.Linear(20, 3), rows, classes, [TensorDataset(rows[80:], classes[80:]), numbers])", {}),
    "apart": ("train(nn.Linear(20, 3), rows, classes, [numbers])", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_inputs(tmp_path_factory, case):
    seen = patient(tmp_path_factory, LOOP + CASES[case][0])
    found = examine(InputsUnlike, seen)
    assert {item.subject.split()[0]: item.severity for item in found} == CASES[case][1]
    for item in found:
        assert item.span.line and prescribe(advice("training"), item, seen)


@pytest.mark.parametrize(("case", "said"), [("leaks", 1), ("both", 0), ("apart", 0)])
def test_evaluations(tmp_path_factory, case, said):
    seen = patient(tmp_path_factory, LOOP + CASES[case][0])
    found = examine(EvaluationOverlap, seen)
    assert [item.severity for item in found] == [Severity.WARNING] * said
    [line] = [line for line in training_card(seen.recording) if line.name == "evaluation"]
    assert line.facts["every"] == 8 and line.facts["samples"] == {"leaks": 48, "both": 112, "apart": 64}[case]
    assert bool(line.facts["common"]) is bool(said)
    for item in found:
        assert prescribe(advice("training"), item, seen)


def inputs(*records):
    run = make_recording(make_process(make_steps(40), records=records))
    return [(item.subject.split()[0], item.severity) for item in examine(InputsUnlike, make_patient(recording=run))]


def drawn(**fields):
    """Two records: a loader, and a batch of it."""
    told = record("loader", id=0, role="training", order="random", path="/job/train.py", line=3)
    usual = {"draw": 1, "epoch": 1, "rows": 64, "hashes": [*range(64)], "width": 16, "shapes": []}
    return told, record("batch", loader=0, **usual | fields)


def attended(mask="attention_mask", takes_mask=True, causal=False, **fields):
    usual = {"tokens": 256, "masked": bool(mask), "seen_after": 13, "seen_before": 0}
    call = record("call", kind="ids", model="Reader", mask=mask, takes_mask=takes_mask, causal=causal)
    return [how for how, _ in inputs(*drawn(**usual | fields), call)]


def test_positions_that_run_on():
    texts = {"tokens": 1024, "run_on": 32}
    assert inputs(*drawn(**texts)) == [("positions", Severity.NOTE)]
    assert inputs(*drawn(**texts | {"run_on": 31})) == []


def test_limits_of_what_attention_sees():
    assert attended() == ["attended"] and attended(seen_after=12) == []
    assert attended(causal=True) == [] and attended(causal=True, seen_before=40) == ["attended"]
    assert attended(mask="") == ["attended"] and attended(mask="mask") == [], "what it hides is not known"
    assert attended(mask="", takes_mask=False) == [], "the model may make its own"
    assert attended(seen_after=0, jumps=2) == [] and attended(seen_after=0, jumps=3) == ["positions"]


def test_limits_of_text_that_a_mask_hides():
    def hidden(**fields):
        usual = {"of": 400, "hidden": 20, "pairs": 16, "differ": 8}
        return inputs(record("call", kind="mask", model="Reader", **usual | fields), *drawn())

    assert hidden() == [("hidden", Severity.WARNING)]
    assert hidden(hidden=19) == hidden(differ=7) == hidden(pairs=0, differ=0) == []


def given(**fields):
    usual = {"layer": "Conv2d", "dims": 4, "shape": [8, 3, 9, 9], "least": 0.0, "most": 250.0, "mean": 90.0, "of": 800,
             "rows": 32, "rounded": 800, "finite": 800}  # fmt: skip
    return inputs(record("call", kind="layer", model="Net", next="ReLU", **usual | fields))


def test_sick_and_healthy_inputs_of_the_first_layer():
    assert given() == [("pixels", Severity.WARNING)] and given(rounded=799) == []
    assert given(most=99.0) == [] and given(mean=1.0) == [], "few of them are bright"
    assert given(rounded=0, shape=[8, 64, 100, 1]) == [], "channels of a series of times"
    assert given(rounded=0, shape=[8, 8, 8, 3]) == [("last", Severity.ERROR)] and given(shape=[8, 7, 7, 3]) == []
    assert given(rounded=0, constant=24) == [("constant", Severity.WARNING)] and given(rounded=0, constant=23) == []
    assert (
        given(rounded=0, constant=25) == [("constant", Severity.ERROR)] and given(rounded=0, rows=7, constant=114) == []
    )
    narrow = {"rounded": 0, "least": -2.0, "most": -1.984, "mean": -1.99}
    assert given(**narrow) == [("constant", Severity.WARNING)] and given(**narrow | {"most": -1.95}) == []
    assert given(**narrow | {"most": -2.0}) == [] and given(**narrow | {"rows": 7}) == []


def test_limits_of_samples():
    assert inputs(*drawn(hashes=[*range(58), *range(6)])) == []
    assert inputs(*drawn(hashes=[*range(57), *range(7)])) == [("repeated", Severity.NOTE)]
    assert inputs(*drawn(hashes=[0] * 31)) == [] and inputs(*drawn(hashes=[0] * 64, width=7)) == []
    with pytest.raises(Unavailable):
        inputs()


def evaluated(common, width=8, value=None):
    batches = [
        record("batch", role=role, epoch=1, rows=64, width=width, hashes=[*range(begin, begin + 64)], shapes=[])
        for role, begin in (("training", 0), ("evaluation", 64 - common))
    ]
    told = record("memory", kind="predictions", shares=[0.7, 0.5, 0.8], growth=[])
    logs = record("logged", by="Trainer.log", series=[["eval_accuracy", 1, [[9, value]]]] if value else [])
    run = make_recording(make_process(make_steps(40), records=[*batches, told, logs]))
    return [found.subject for found in examine(EvaluationOverlap, make_patient(recording=run))]


def test_limits_of_evaluations():
    assert evaluated(2) == ["samples"] and evaluated(1) == [] and evaluated(2, width=7) == []
    assert evaluated(0, value=0.8) == ["padding"], "positions without a label are taken for those of a class"
    assert evaluated(0, value=0.7) == evaluated(0, value=0.75) == []
    with pytest.raises(Unavailable):
        examine(EvaluationOverlap, make_patient(recording=make_recording(make_process(make_steps(40)))))


DROPS = """
class Net(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5{})
train(Net(20, 3), rows, classes, [numbers])
"""


@pytest.mark.parametrize(("mode", "found"), [("", [("train-evaluation", 12, 12)]), (", self.training", [])])
def test_dropout_that_an_evaluation_leaves_on(tmp_path_factory, mode, found):
    seen = numerics(patient(tmp_path_factory, LOOP + DROPS.format(mode)).recording.ranks[0], "mode")
    assert [(item.get("kind_of"), item.get("steps"), item.get("of")) for item in seen] == found


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
SEARCH = """
plain = collate
def collate(rows):
    batch = plain(rows)
    for labels in batch["labels"]:
        answer = ({}).nonzero()
        if len(answer):
            labels[: answer[0] + 3] = -100
    return batch
"""
LABELS = {
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
    "no template": TEXT + SEARCH.format("labels == 39"),
    "template": TEXT + SEARCH.format("labels > 2"),
}


def labelled(tmp_path_factory, case):
    text = LABELS[case].replace("TEXT", f"({TEXT[7:]})")
    return patient(tmp_path_factory, "PAD, FIRST, LAST = 0, 1, -1\n" + MODEL + text + "\ntrain()")


@pytest.mark.parametrize(
    ("case", "how"),
    [("healthy", None), ("padding is the end", "pad"), ("own padding", None), ("masked", None), ("prompts", "rows"),
     ("shifted outside", None)],
)  # fmt: skip
def test_labels_that_are_missing(tmp_path_factory, case, how):
    seen = labelled(tmp_path_factory, case)
    found = examine(LabelsUntrained, seen)
    assert [item.subject.split()[0] for item in found] == ([how] if how else [])
    for item in found:
        assert item.severity is Severity.WARNING and item.span.line, "the line of the collate function"
        assert prescribe(advice("training"), item, seen)


@pytest.mark.parametrize(
    ("case", "how"),
    [("healthy", None), ("twice", "twice"), ("copy", "copy"), ("shifted outside", None), ("padding", "padding"),
     ("masked", None), ("prompt at the left", "prompt"), ("no template", "unmasked"), ("template", None)],
)  # fmt: skip
def test_labels_at_a_wrong_place(tmp_path_factory, case, how):
    seen = labelled(tmp_path_factory, case)
    found = examine(LabelsMisplaced, seen)
    assert [item.subject.split()[0] for item in found] == ([how] if how else [])
    for item in found:
        assert (item.severity is Severity.ERROR) is (how == "twice")
        assert prescribe(advice("training"), item, seen)


def test_the_card_says_what_is_trained(tmp_path_factory):
    lines = {line.name: line for line in training_card(labelled(tmp_path_factory, "prompts").recording)}
    assert lines["batch"].facts["shape"][0] == 8 and 0.1 < lines["batch"].facts["padding"] < 0.5
    assert lines["labels"].facts["rows"] == 8 * 7 and 5 < lines["labels"].facts["unlabelled"] < 25
    never = {line.name: line for line in training_card(labelled(tmp_path_factory, "padding is the end").recording)}
    assert "the end token (1) is never among them" in never["labels"].text


def looked(role="training", **fields):
    usual = {"rows": 8, "width": 32, "tokens": 256, "padding": 0, "full": 8, "labels": 64, "same": 64}
    usual |= {"role": role, "path": "/job/train.py", "line": 3, "shapes": [["input_ids", "int64", [8, 32]]]}
    return [record("batch", loader=0, **usual | fields)]


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
    assert found.severity is Severity.WARNING and found.subject == "pad"
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
    assert misplaced(hits=[3, 4, 3], pads=8) == [], "classes of tokens are no tokens"
    with pytest.raises(Unavailable):
        examine(LabelsMisplaced, make_patient(recording=make_recording(make_process(make_steps(40)))))


def test_the_first_token_behind_padding_begins_a_text():
    torch = pytest.importorskip("torch")
    attended = torch.tensor([[0, 0, 1, 1, 1, 1]]).bool()
    places = (attended.cumsum(1) - 1).clamp(min=0)
    look, no_ends = SimpleNamespace(_torch=torch), torch.zeros_like(attended)
    assert Batches._jumps(look, places, no_ends, attended) == 0
    places[0, 4] = 7
    assert Batches._jumps(look, places, no_ends, attended) == 2
