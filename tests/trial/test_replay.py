"""From a `replay` record to class, words, finding and remedies; and how runs are asked for."""

from types import SimpleNamespace

import pytest

from gpudoctor.model import BadStepDetail, Code, Confidence, Finding, Measurement, Ranked, Severity, Trait
from gpudoctor.model.proof import Cause
from gpudoctor.model.signs.recording import Process, Record, Recording, Table
from gpudoctor.trial.replay import BadStep, bad_step, cause_of, replay
from gpudoctor.trial.replay_words import Story, explained
from gpudoctor.trial.trial_runner import TrialRun

PLACE = {"path": "/job/train.py", "line": 41, "function": "step", "text": "loss = p.log().mean()"}
LOG = {
    "kind": "operation", "operation": "log", "operator": "aten.log.default", "value": "-inf", "phase": "forward",
    "dtype": "float32", "bad": 1, "of": 16, "step": 12, "place": PLACE, "site": None, "module": "head",
    "module_class": "Linear", "edge": "zero", "words": "the logarithm of 0: 1 of 16 values are 0", "wide": "inf",
    "largest": None, "early": False,
}  # fmt: skip


def recording(records=(), losses=()):
    columns = {"index": range(len(losses)), "loss": losses, "t": [0.1 * n for n in range(len(losses))]}
    process = Process(
        rank=0, node="n", pid=1, wall=0.0, steps=Table(columns=columns),
        records=tuple(Record(type="replay", t=1.0, fields=item) for item in records),
    )  # fmt: skip
    return Recording(path="/r", command=("python", "train.py"), cwd="/job", started="", ranks=(process,))


def record(origin=None, found="loss", **more):
    return {"asked": 12, "begin": 11, "step": 12, "found": found, "eager": False, "weights": [1.0, 1.1], "broken": "",
            **({"origin": {**LOG, **origin}} if origin is not None else {}), **more}  # fmt: skip


@pytest.mark.parametrize(
    ("origin", "growth", "cause"),
    [
        ({}, "", Cause.DOMAIN),
        ({}, "the loss had grown", Cause.EXPLODING),
        ({"wide": "finite", "edge": "overflow"}, "", Cause.OVERFLOW),
        ({"wide": "finite", "dtype": "float16", "edge": ""}, "", Cause.HALF_OVERFLOW),
        ({"edge": "masked"}, "the loss had grown", Cause.EMPTY),
        ({"phase": "optimizer"}, "", Cause.OPTIMIZER),
        ({"kind": "batch"}, "", Cause.BAD_INPUT),
        ({"kind": "weights"}, "", Cause.POISONED),
        ({"kind": "constant"}, "", Cause.CONSTANT),
        ({"kind": "constant", "early": True}, "", Cause.POISONED),
        ({"kind": "peer"}, "", Cause.PEER),
    ],
)
def test_classes(origin, growth, cause):
    assert cause_of(record(origin), growth) is cause


def story(origin, **more):
    found = record(origin)
    return Story(record=found, recording=recording(), rank=0, cause=cause_of(found, ""), **more)


def test_words_name_operation_module_line_and_what_more_digits_do():
    told = story({"turned": {"operation": "a product", "phase": "forward", "place": {**PLACE, "line": 43}}})
    assert told.words() == (
        "In the forward pass of head (Linear) log gave -inf (train.py:41): the logarithm of 0: 1 of 16 values are "
        "0. It became NaN in a product (train.py:43)."
    )
    wide = story({"dtype": "float16", "wide": "finite", "largest": 186879.4, "edge": "", "words": "", "module": None},
                 precision="float32", finite=True)  # fmt: skip
    assert wide.words() == (
        "In the loss or outside the model log gave -inf (train.py:41): a value of 1.87e+05 does not fit float16 "
        "(largest 65,504). In float32 the same step is finite: only the range of float16 was too small."
    )
    batch = story({"kind": "batch", "name": "['image']", "value": "nan", "items": [195], "bad": 32, "of": 512})
    assert batch.words() == (
        "The batch contained NaN before anything was computed from it: ['image'], 32 of 512 values, item 195 of the "
        "data set."
    )


FINDING = Finding(
    code=Code("NUM002"), name="nan-loss", severity=Severity.ERROR, confidence=Confidence.CONFIRMED,
    message="The loss of step 12 is nan; no loss or norm had grown before.", detail=BadStepDetail(step=12, suspected="operation"),
    traits=frozenset({Trait.FIRST_BAD_STEP}),
    evidence=(Measurement(name="first_bad_step", value=12, unit="{step}"),),
)  # fmt: skip


class FakeBench:
    """Answers each replay with the next record; says what it was asked."""

    def __init__(self, *records, problem=""):
        self.records, self.problem = list(records), problem
        self.asked = []

    def look(self, arm, *, steps, seconds):
        self.asked.append((arm.overrides["replay.nan"], steps))
        found = [self.records.pop(0)] if self.records else []
        return TrialRun(
            finished=SimpleNamespace(), recording=recording(found), window=None, problem=self.problem
        )


def played(bench, seconds=600.0, at=3.0):
    bad = BadStep(code="NUM002", step=12, seconds=at)
    return replay(bench, bad, recording(losses=[1.0] * 12), seconds, lambda what: None)


def test_the_step_is_watched_and_then_made_with_more_digits():
    bench = FakeBench(record({}), record(found="wide", losses=True, gradients=True))
    found = played(bench)
    assert bench.asked == [({"step": 12}, 13), ({"step": 12, "precision": "float64"}, 13)]
    assert (found.cause, found.precision, found.finite) == (Cause.ROUNDING, "float64", True)
    again = explained(FINDING, found)
    assert again.message.startswith(
        "The loss of step 12 is nan. In the forward pass of head (Linear) log gave -inf"
    )
    assert (again.detail.cause, again.detail.place.line, again.span.line) == ("rounding", 41, 41)
    assert (found.place.path, found.operation, found.module) == ("train.py", "log", "head")


def test_weights_that_went_bad_earlier_are_looked_for_earlier():
    bench = FakeBench(record(found="poisoned", step=4, names=["w"]), record({"phase": "optimizer", "step": 4}))
    found = played(bench)
    assert [table["step"] for table, _ in bench.asked] == [12, 4]
    assert (found.cause, found.began) == (Cause.OPTIMIZER, 4)
    assert explained(FINDING, found).message.startswith("The loss of step 12 is nan. It began in step 4. ")


def test_what_a_replay_cannot_show_is_said():
    finite = played(FakeBench(record(found="nothing")))
    assert not finite.reproduced and "the seeds do not determine" in finite.reason
    compiled = played(FakeBench(record(found="nothing", eager=True)))
    assert "only compiled code does it" in compiled.reason
    late = played(FakeBench(), seconds=30.0, at=20.0)
    assert late.reason == "step 12 comes after 20 s: a replay needs a longer --budget"
    died = played(FakeBench(problem="it ended with exit code 1: boom"))
    assert died.reason == "it ended with exit code 1: boom"
    assert "A replay shows no more: it ended" in explained(FINDING, died).message


def test_the_first_bad_step_of_several_findings():
    later = Finding(**{name: getattr(FINDING, name) for name in FINDING.__slots__} | {
        "code": Code("NUM001"), "detail": BadStepDetail(step=9, suspected="rate")})  # fmt: skip
    ranked = [
        Ranked(rank=n, finding=item, remedies=(), set_aside=(), reason="")
        for n, item in enumerate((FINDING, later))
    ]
    found = bad_step(ranked, recording(losses=[1.0] * 12))
    assert (found.code, found.step, found.seconds) == ("NUM001", 9, pytest.approx(0.9))
    assert bad_step([], recording()) is None
