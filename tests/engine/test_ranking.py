"""Ranking: the order, the reasons, and the conflicts between remedies."""

from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.engine.ranking import Case, rank
from gpudoctor.model import (
    Applicability,
    Code,
    Confidence,
    Cost,
    Effect,
    EffectOrigin,
    Effort,
    Finding,
    Measurement,
    Remedy,
    Resource,
    Severity,
    SourceSpan,
)


def finding(code="DATA001", severity=Severity.WARNING, confidence=Confidence.CONFIRMED, **more):
    evidence = more.pop("evidence", (Measurement(name="n", value=1, unit="1"),))
    return Finding(
        code=Code(code), name="x", severity=severity, confidence=confidence, message=code, evidence=evidence, **more
    )


def remedy(id="R-1", low=None, high=None, effort=Effort.ONE_LINE, **more):
    effect = low and Effect(quantity="throughput", low=low, high=high, unit="x", provenance=EffectOrigin.BOUND)
    return Remedy(
        id=id, title=id, steps=("do it",), effort=effort,
        applicability=more.pop("applicability", Applicability.SAFE),
        effect=effect or None, **more,
    )  # fmt: skip


def order(*cases):
    return [item.finding.code for item in rank(cases)]


def test_what_breaks_the_job_comes_before_any_gain():
    slow = Case(finding=finding("DATA001", cost=Cost(step_share=0.9)), remedies=())
    broken = Case(
        finding=finding("CFG001", Severity.ERROR, Confidence.SUSPECTED, cost=Cost(breaks="the run stops")), remedies=()
    )
    first, second = rank([slow, broken])
    assert first.finding.code == "CFG001"
    assert "breaks the job: the run stops" in first.reason
    assert "90 % of a step" in second.reason


def test_a_remedy_that_uses_what_another_finding_lacks_is_set_aside_with_the_reason():
    memory = Case(
        finding=finding("MEM009", Severity.ERROR, cost=Cost(breaks="dies"), scarce=frozenset({Resource.DEVICE_MEMORY})),
        remedies=(),
    )
    batch = Case(
        finding=finding("PERF007"), remedies=(remedy("batch", uses=frozenset({Resource.DEVICE_MEMORY})), remedy("b"))
    )
    ranked = rank([batch, memory])
    assert [item.id for item in ranked[1].remedies] == ["b"]
    (aside,) = ranked[1].set_aside
    assert aside.remedy.id == "batch"
    assert "device memory" in aside.reason and "MEM009" in aside.reason


def knob(code, value, share, line=None):
    evidence = (SourceSpan(path="t.py", line=line),) if line else (Measurement(name="n", value=1, unit="1"),)
    return Case(
        finding=finding(code, cost=Cost(step_share=share), evidence=evidence),
        remedies=(remedy(f"{code}-r", sets=(("DataLoader.num_workers", value),)),),
    )


def test_two_values_for_one_knob_the_better_placed_wins():
    high, low = rank([knob("DATA003", "4", 0.1), knob("DATA001", "8", 0.5)])
    assert high.remedies[0].id == "DATA001-r"
    assert low.remedies == ()
    assert low.set_aside[0].reason == "DATA001-r sets DataLoader.num_workers to 8, this one to 4"


cases = st.builds(
    lambda code, severity, confidence, share, breaks: Case(
        finding=finding(code, severity, confidence, cost=Cost(step_share=share, breaks=breaks)), remedies=()
    ),
    st.sampled_from(["DATA001", "OBS002", "MEM009", "CFG001"]),
    st.sampled_from(Severity),
    st.sampled_from(Confidence),
    st.none() | st.floats(0, 1),
    st.none() | st.just("x"),
)


@given(st.lists(cases, max_size=8), st.randoms())
def test_the_order_does_not_depend_on_the_order_of_the_input(items, random):
    shuffled = list(items)
    random.shuffle(shuffled)

    def key(ranked):
        return [(r.rank, r.finding.code, r.finding.severity, r.finding.cost, r.finding.confidence) for r in ranked]

    assert key(rank(items)) == key(rank(shuffled))
    breaks = [item.finding.cost.breaks is not None for item in rank(items)]
    assert breaks == sorted(breaks, reverse=True)


def test_the_remedies_of_an_effect_are_set_aside_if_its_cause_has_one():
    """Freezing parameters without a gradient is wrong if the loss is zero: the labels are to be corrected."""
    cause = finding("NUM012", cost=Cost(breaks="nothing is learned"))
    effect = finding("NUM005", cost=Cost(breaks="a part does not train"), effect_of=Code("NUM012"))
    freeze = remedy("NUM005-freeze")
    answered = rank(
        [Case(finding=effect, remedies=(freeze,)), Case(finding=cause, remedies=(remedy("NUM012-labels"),))]
    )
    assert [(item.finding.code, [kept.id for kept in item.remedies]) for item in answered] == [
        ("NUM012", ["NUM012-labels"]), ("NUM005", []),
    ]  # fmt: skip
    assert [(aside.remedy.id, aside.reason) for aside in answered[1].set_aside] == [
        ("NUM005-freeze", "it belongs to NUM012: fix NUM012 first")
    ]
    for others in ([], [Case(finding=cause, remedies=())], [Case(finding=finding("LOOP002"), remedies=(remedy("X"),))]):
        ranked = rank([Case(finding=effect, remedies=(freeze,)), *others])
        assert [kept.id for item in ranked for kept in item.remedies if item.finding.code == "NUM005"] == [freeze.id]


def test_a_warning_that_nobody_measured_comes_after_one_that_a_run_measured():
    advised = Case(finding=finding("PERF001", confidence=Confidence.SUSPECTED), remedies=(remedy(low=2, high=4),))
    counted = Case(finding=finding("DATA003"), remedies=(remedy(),))
    cheap = Case(finding=finding("SYNC001", cost=Cost(step_share=0.06)), remedies=())
    shown = Measurement(name="rate", value=1, unit="1", reproduce="gpudoctor report runs/0")
    seen = Case(finding=finding("NUM009", evidence=(shown,)), remedies=())
    assert order(advised, counted, cheap, seen) == ["NUM009", "SYNC001", "PERF001", "DATA003"]


def test_what_belongs_to_a_finding_follows_it():
    """The slow items explain the wait: nothing else comes between the two."""
    wait = finding("DATA001", cost=Cost(step_share=0.4))
    other = finding("OBS005", cost=Cost(step_share=0.38))
    items = finding("DATA002", cost=Cost(step_share=0.3), effect_of=Code("DATA001"))
    cases = [Case(finding=item, remedies=(remedy(f"{item.code}-x"),)) for item in (items, other, wait)]
    assert [item.finding.code for item in rank(cases)] == ["DATA001", "DATA002", "OBS005"]
    assert [item.finding.code for item in rank(cases[:2])] == ["OBS005", "DATA002"]
