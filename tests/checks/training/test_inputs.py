"""Inputs and evaluations: small networks on the CPU, sick and healthy, as the probe sees them."""

import pytest
from packages import need
from probed import run_script
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.analysis.run.training.card import training_card
from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.training.evaluation_overlap import EvaluationOverlap
from gpudoctor_checks.training.inputs_unlike import InputsUnlike
from gpudoctor_rules.training import by_how

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
"""
CASES = {
    "healthy": ("train(network(), (raw - mean) / spread, classes)", {}),
    "scaled inside": ("train(Scaled(), raw, classes)", {}),
    "raw": ("train(network(), raw, classes)", {"pixels": Severity.WARNING}),
    "raw, normed": ("train(network(nn.BatchNorm2d(4)), raw, classes)", {"pixels": Severity.NOTE}),
    "last": (
        "train(network(channels=12), ((raw - mean) / spread).permute(0, 2, 3, 1).contiguous(), classes)",
        {"last": Severity.ERROR},
    ),
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
    "leaks": ("train(nn.Linear(20, 3), rows, classes, [TensorDataset(rows[80:], classes[80:])])", {}),
    "both": ("train(nn.Linear(20, 3), rows, classes, [TensorDataset(rows[80:], classes[80:]), numbers])", {}),
    "apart": ("train(nn.Linear(20, 3), rows, classes, [numbers])", {}),
}
_runs = {}


def patient(tmp_path_factory, case):
    """What a training shows, made once."""
    need("torch")
    if case not in _runs:
        run = run_script(tmp_path_factory.mktemp("inputs"), LOOP + CASES[case][0] + "\n")
        assert not run.rank.of("lost")
        _runs[case] = make_patient(recording=open_recording(str(run.folder)))
    return _runs[case]


@pytest.mark.parametrize("case", CASES)
def test_inputs(tmp_path_factory, case):
    seen = patient(tmp_path_factory, case)
    found = examine(InputsUnlike, seen)
    assert {item.subject.split()[0]: item.severity for item in found} == CASES[case][1]
    for item in found:
        assert item.span.line and prescribe(by_how, item, seen)


@pytest.mark.parametrize(("case", "said"), [("leaks", 1), ("both", 0), ("apart", 0)])
def test_evaluations(tmp_path_factory, case, said):
    seen = patient(tmp_path_factory, case)
    found = examine(EvaluationOverlap, seen)
    assert [item.severity for item in found] == [Severity.WARNING] * said
    [line] = [line for line in training_card(seen.recording) if line.name == "evaluation"]
    assert line.facts["every"] == 8 and line.facts["samples"] == {"leaks": 48, "both": 112, "apart": 64}[case]
    assert bool(line.facts["common"]) is bool(said)
    for item in found:
        assert prescribe(by_how, item, seen)


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


def test_limits_of_what_attention_sees():
    assert attended() == ["attended"] and attended(seen_after=12) == []
    assert attended(causal=True) == [] and attended(causal=True, seen_before=40) == ["attended"]
    assert attended(mask="") == ["attended"] and attended(mask="mask") == [], "what it hides is not known"
    assert attended(mask="", takes_mask=False) == [], "the model may make its own"
    assert attended(seen_after=0, jumps=2) == [] and attended(seen_after=0, jumps=3) == ["positions"]


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


def test_limits_of_samples():
    assert inputs(*drawn(hashes=[*range(52), *range(12)])) == []
    assert inputs(*drawn(hashes=[*range(51), *range(13)])) == [("repeated", Severity.NOTE)]
    assert inputs(*drawn(hashes=[0] * 31)) == [] and inputs(*drawn(hashes=[0] * 64, width=7)) == []
    with pytest.raises(Unavailable):
        inputs()


def evaluated(common, width=8):
    told = [record("loader", id=key, role=role) for key, role in enumerate(("training", "evaluation"))]
    batches = [
        record("batch", loader=key, epoch=1, rows=64, width=width, hashes=[*range(begin, begin + 64)], shapes=[])
        for key, begin in enumerate((0, 64 - common))
    ]
    run = make_recording(make_process(make_steps(40), records=[*told, *batches]))
    return [found.severity for found in examine(EvaluationOverlap, make_patient(recording=run))]


def test_limits_of_evaluations():
    assert evaluated(2) == [Severity.WARNING] and evaluated(1) == [] and evaluated(2, width=7) == []
    with pytest.raises(Unavailable):
        examine(EvaluationOverlap, make_patient(recording=make_recording(make_process(make_steps(40)))))
