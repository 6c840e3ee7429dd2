"""Answers DIST003 no-sync-missing."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effect,
    EffectOrigin,
    Effort,
    Finding,
    Patient,
    Remedy,
    Resource,
    Rule,
    SourceSpan,
)
from gpudoctor_checks.distributed.no_sync_missing import NoSyncMissingDetail
from gpudoctor_rules.distributed.micro_batches import held


class NoSyncMissingRule(Rule):
    """Reduce on the last micro-batch alone."""

    answers = Code("DIST003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(NoSyncMissingDetail)
        number = detail.micro_batches or 0
        text = detail.text or str(number or "N")
        yield Remedy(
            id="DIST003-no-sync",
            title="use no_sync() on all but the last micro-batch",
            steps=(
                f"last = (i + 1) % {text} == 0",
                "with contextlib.nullcontext() if last else model.no_sync():",
                say("    the forward and the backward of line {line} (the forward must be inside)", line=detail.line),
            ),
            applicability=Applicability.UNSAFE,  # sums in another order
            effort=Effort.SMALL_EDIT,
            override=(("ddp.no_sync", str(number)),) if number > 1 else (),
            edits=_edits(finding, patient),
            effect=Effect(quantity="throughput", low=1.0, high=1.7, unit="x", provenance=EffectOrigin.PUBLISHED)
            if number
            else None,
            uses=frozenset({Resource.DEVICE_MEMORY}),
            references=("https://arxiv.org/abs/2006.15704", "https://pytorch.org/docs/stable/notes/ddp.html"),
        )


def _edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The forward and the backward under `no_sync()`, where the loop's own text holds them."""
    places = {(part.path, part.line) for part in finding.evidence if isinstance(part, SourceSpan)}
    for script, loop in scripts_given(patient).training_loops:
        if (script.path, loop.span.line) in places and not loop.engine:
            return held(script, loop)
    return ()
