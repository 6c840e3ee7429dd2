"""Rules on the topic: sync."""

from collections.abc import Iterator

from gpudoctor.analysis.source.steering_reads import steers
from gpudoctor.analysis.source.syntax_edits import without
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.analysis.source.trainer_periods import period_for
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Effort, Facts, Finding, Patient, Remedy, SourceSpan, answers
from gpudoctor_rules.remedies import remedy, script_of, source_places

_READ_EVERY = 50
"""Steps between reads: a reader of curves sees no difference, and a wait every 50 steps costs 1/50."""


@answers("SYNC001")
def host_sync_in_loop(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Read less often, and add up on the device meanwhile."""
    detail = finding.detail_of(Facts)
    places = source_places(finding)
    needed = [place for place in places if steers(scripts_given(patient), place)]
    if needed:
        yield _on_the_device(needed)
    if places and len(needed) == len(places):
        return
    yield remedy(
        "SYNC001-every",
        say("Add up on the device, read every {every} steps", every=_READ_EVERY),
        "Before the loop: running = torch.zeros((), device=device)",
        "In the loop: running += loss.detach()",
        f"if step % {_READ_EVERY} == 0: log(running.item() / {_READ_EVERY}); running.zero_()",
        "Give progress bars and trackers that value, and only then.",
        applicability=Applicability.SAFE,
        override=(("every", str(_READ_EVERY)),),
        sets=(("host_reads.every", str(_READ_EVERY)),),
        references=(
            "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
        ),
    )
    if detail.reads >= 2:
        yield remedy(
            "SYNC001-together",
            "Fetch them in one transfer",
            "values = torch.stack([loss.detach(), accuracy, norm]).tolist()  # one wait",
            "Do branches on tensors on the device: torch.where(condition, a, b).",
            applicability=Applicability.SAFE,
        )


def _on_the_device(places: list[SourceSpan]) -> Remedy:
    """For reads whose value or wait the step needs: a read every 50 steps would be another training."""
    where = lines_at(places)
    return remedy(
        "SYNC001-device",
        say("keep the decision on the device ({where})", where=where),
        "The step goes by this value, or waits here on purpose: do not read it less often.",
        "Choose on the device: torch.where(condition, a, b), or scale by condition.to(loss.dtype).",
        "If only the order of two streams matters, record an event and let the other stream wait for it.",
        references=("https://docs.pytorch.org/docs/stable/generated/torch.cuda.Stream.html",),
    )


@answers("SYNC002")
def allocator_flush_in_loop(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Take the call out; where it fought fragmentation, there is a setting for that."""
    call, script = finding.detail_of(Facts).call, script_of(patient, finding.span)
    yield remedy(
        "SYNC002-remove",
        say("Remove {call}() from the loop", call=call),
        say("Delete the call; once an epoch, after the evaluation, is often enough ({call}).", call=call),
        "Memory that is freed in Python goes back to the cache by itself and is reused.",
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        edits=(without(script, finding.span),) if script is not None and finding.span is not None else (),
    )


_METRICS_EVERY = 10
"""Steps between two metrics: the catalogue's S4."""


@answers("SYNC004")
def per_sample_metrics(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Every ten steps, on the whole batch, on the device."""
    detail = finding.detail_of(Facts)
    every = period_for(finding, patient, _METRICS_EVERY, detail.period, detail.norm)
    yield remedy(
        "SYNC004-every",
        say("compute metrics every {every} steps", every=every),
        say("if step % {every} == 0:   # around the metric's lines", every=every),
        # The metric then averages a tenth of the steps: the numbers shown differ.
        override=(("every", str(every)),),
        sets=(("metric_period", str(every)),),
    )
