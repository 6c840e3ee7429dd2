"""What a replay adds to the finding that it explains: the operation, its lines, the class of cause."""

from dataclasses import replace

from gpudoctor.model import Finding, Measurement, SourceSpan
from gpudoctor.model.replay import BadStepDetail, Replay


def explained(finding: Finding, replay: Replay) -> Finding:
    """The finding with the replay's evidence in front; where it showed nothing, with the reason why."""
    head = finding.message.partition(";")[0].rstrip(".")
    if not replay.reproduced:
        words = f"{finding.message.rstrip('.')}. A replay shows no more: {replay.reason}."
        return replace(finding, message=words)
    began = f"It began in step {replay.began}. " if replay.began is not None else ""
    spans = [span for span in (replay.place, replay.site, replay.turned) if span is not None]
    found = {(span.path, span.line): span for span in spans}
    detail = finding.detail
    kept = [item for item in finding.evidence if not isinstance(item, SourceSpan)]
    rest = [item for item in finding.evidence if isinstance(item, SourceSpan)] if not found else []
    return replace(
        finding,
        message=f"{head}. {began}{replay.words}",
        evidence=(*found.values(), *rest, *_measured(replay), *kept),
        detail=replace(detail, replay=replay) if isinstance(detail, BadStepDetail) else detail,
    )


def _measured(replay: Replay) -> list[Measurement]:
    """The operation and the class of cause as evidence."""
    assert replay.cause is not None
    found = [Measurement(name="cause_class", value=replay.cause.value, unit="")]
    if replay.operator:
        found.append(Measurement(name="operation", value=replay.operator, unit=""))
    if replay.finite is not None:
        found.append(Measurement(name=f"finite_in_{replay.precision}", value=replay.finite, unit=""))
    return found
