"""Which remedies are tried, and as what."""

import os
import re
from pathlib import Path

import pytest

from gpudoctor.model import (
    Applicability,
    Code,
    Confidence,
    Effort,
    Finding,
    KeywordEdit,
    Ranked,
    Remedy,
    Severity,
    SourceSpan,
    TextEdit,
)
from gpudoctor.trial.candidates import Candidate, Untried, candidates, joined, plan_of
from gpudoctor.trial.override_table import OVERRIDES, is_known

TEXT = "loader = DataLoader(data, batch_size=4)\nfor x in loader:\n    gc.collect()\n    log(x)\n"


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    return str(path)


def remedy(name: str, applicability: Applicability = Applicability.SAFE, **fields) -> Remedy:
    return Remedy(id=name, title=name, steps=("do it",), applicability=applicability, effort=Effort.ONE_LINE, **fields)


def ranked(script: str, *remedies: Remedy, rank: int = 1, line: int = 4) -> Ranked:
    finding = Finding(
        code=Code("DATA001"), name="x", severity=Severity.WARNING, confidence=Confidence.CONFIRMED, message="m",
        evidence=(SourceSpan(path=script, line=line, column=1, text="log(x)"),),
    )  # fmt: skip
    return Ranked(rank=rank, finding=finding, remedies=remedies, set_aside=(), reason="")


def workers(script: str, **fields) -> Remedy:
    edit = KeywordEdit(path=script, line=1, column=10, set=(("num_workers", "2"),))
    return remedy("DATA001-workers", edits=(edit,), override=(("DataLoader.num_workers", "2"),), **fields)


def test_an_edit_is_tried_as_the_mended_text(script):
    [one] = candidates([ranked(script, workers(script))], unsafe=False)
    assert isinstance(one, Candidate) and one.edits
    assert one.arm.texts == {os.path.realpath(script): TEXT.replace("batch_size=4", "batch_size=4, num_workers=2")}
    assert not one.arm.overrides
    assert Path(script).read_text() == TEXT


def test_unsafe_ones_are_asked_for_and_edits_of_watching_are_safe(script):
    unsafe = remedy("P-tf32", Applicability.UNSAFE, override=(("torch.float32_matmul_precision", "high"),))
    delete = TextEdit(
        path=script, line=3, column=5, end_line=3, end_column=17, new_text="pass", expected="gc.collect()"
    )
    period = remedy("P-every", Applicability.UNSAFE, override=(("every", "50"),), edits=(delete,))
    other = remedy("P-eager", Applicability.UNSAFE, override=(("nobody.knows", "1"),), edits=(delete,))
    alone = remedy("P-hand", Applicability.DISPLAY_ONLY, override=(("every", "50"),))
    [refused] = candidates([ranked(script, unsafe)], unsafe=False)
    assert isinstance(refused, Untried) and "--unsafe" in refused.reason
    [allowed] = candidates([ranked(script, unsafe)], unsafe=True)
    assert isinstance(allowed, Candidate) and allowed.arm.overrides == {"torch.float32_matmul_precision": "high"}
    [seldom] = candidates([ranked(script, period)], unsafe=False)
    assert seldom.edits and not seldom.arm.overrides and seldom.arm.texts
    [refused] = candidates([ranked(script, other)], unsafe=False)
    assert isinstance(refused, Untried) and "--unsafe" in refused.reason
    [hand] = candidates([ranked(script, alone)], unsafe=True)
    assert isinstance(hand, Untried) and hand.reason == "a person must do it"


def test_one_remedy_a_finding_all_of_the_named_and_the_same_cure_once(script):
    other = remedy("DATA001-threads", override=(("env.OMP_NUM_THREADS", "2"), ("argument.--batch", "8")))
    item = ranked(script, workers(script), other)
    assert [one.remedy.id for one in candidates([item], unsafe=False)] == ["DATA001-workers"]
    [named] = candidates([item], unsafe=False, named=["DATA001-threads"])
    assert (named.arm.environment, named.arm.arguments) == ({"OMP_NUM_THREADS": "2"}, {"--batch": "8"})
    twice = [item, ranked(script, workers(script), rank=2)]
    assert len(candidates(twice, unsafe=False)) == 1


def test_together_edits_are_merged_and_settings_stand_beside_them(script):
    delete = TextEdit(
        path=script, line=3, column=5, end_line=3, end_column=17, new_text="pass", expected="gc.collect()"
    )
    chosen = candidates(
        [
            ranked(script, workers(script)),
            ranked(script, remedy("SYNC002-remove", edits=(delete,)), rank=2),
            ranked(script, remedy("X", override=(("torch.num_threads", "2"),)), rank=3),
        ],
        unsafe=False,
    )
    arm = joined(chosen)
    expected = TEXT.replace("batch_size=4", "batch_size=4, num_workers=2").replace("gc.collect()", "pass")
    assert arm.texts == {os.path.realpath(script): expected}
    assert arm.overrides == {"torch.num_threads": "2"}
    assert plan_of([one for one in chosen if one.edits]).diff.count("\n+") == 3  # the heading's +++ and two lines


def test_every_override_of_the_rules_is_known_to_the_probe():
    from gpudoctor.probe.overrides import TOPICS

    assert {name.partition(".")[0] for name in OVERRIDES} - {"env"} <= set(TOPICS)
    assert is_known("TrainingArguments.logging_steps") and not is_known("nobody.knows")
    assert is_known("torch.backends.cudnn.deterministic") and not is_known("torch.compile")
    rules = "".join(path.read_text() for path in Path("rules/gpudoctor_rules").rglob("*.py"))
    named = set(re.findall(r'override=\(\("([\w.]+)"', rules))
    assert {"every", "DataLoader.num_workers"} <= named
    assert not [name for name in named if name != "every" and not is_known(name)]
