"""LOOP004: gradients are clipped where it has no effect, or before they are unscaled."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.steady_run import measured as number
from gpudoctor.analysis.run.steady_run import recorded, spots
from gpudoctor.analysis.source.step_order import Kind, StepOp, StepOrder, passes
from gpudoctor.analysis.source.syntax_places import line_at, place
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen

_CLIPS = 3
"""Clips that must have been seen."""
_NO_LIMIT = re.compile(r"\binf\b|infty|infinity|1e\+?[5-9]", re.IGNORECASE)
"""A bound that clips nothing: the call only measures the norm."""


_BREAKS = {
    "late": say("the gradients are not clipped"),
    "scaled": say("the bound applies to gradients times the loss scale: the clip shrinks them to nearly nothing"),
}
"""What a clip in the wrong place makes of the result."""


@frozen
class ClipMisplacedDetail(Detail):
    """What the rule reads."""

    how: str
    """`late` or `scaled`."""
    clip: str = ""
    """Place of the clip."""
    scaler: str = "scaler"
    optimizer: str = "optimizer"


class ClipMisplaced(Check):
    """Gradients are clipped at the wrong place.

    What it finds:
        - In a training loop: `clip_grad_norm_` or `clip_grad_value_` after `optimizer.step()` and before the
          next `backward()`.
        - With a gradient scaler, clipping without `scaler.unscale_(optimizer)` before it.
    Why it hurts:
        After the step the gradients were already used. Nothing is clipped, and one bad batch can still ruin the
        weights. Scaled gradients are larger by the loss scale (65536 at the start). If they are clipped to a
        norm of 1 before unscaling, the update is thousands of times too small. No error is raised.
    How it knows:
        It reads the order of backward, clip, unscale and step in one pass of the loop, through local functions.
        Branches that exclude each other are kept apart. In a recording it sees the clips of gradients whose loss
        was scaled and that nothing has unscaled.
    False alarms:
        A clip with an infinite bound (it measures the norm) is not a finding. Neither are loops stepped by a
        closure or an engine. `accelerator.clip_grad_norm_` unscales by itself and is not a finding.
    Remedies:
        Clip between the last `backward()` and `step()`; with a scaler, call `scaler.unscale_(optimizer)` first.
    References:
        - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping
    """

    code = "LOOP004"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = recorded(patient)
        ranks = [item for item in recording.ranks[:1] if item.steps] if recording is not None else []
        seen = next((found for item in ranks if (found := of_run.clipped_scaled(item)) is not None), None)
        suspected = suspicions(lambda: self._by_source(patient), seen)
        if seen is None or (scaled := int(seen.get("scaled") or 0)) < _CLIPS:
            yield from suspected
            return
        yield confirmed(
            self,
            suspected,
            say(
                "{scaled} of {clips} clips cut gradients at {limit:g} that carried the loss scale of {scale:,.0f}.",
                scaled=scaled,
                clips=int(seen.get("clips") or 0),
                limit=seen.get("limit") or 0.0,
                scale=seen.get("scale") or 0.0,
            ),
            evidence=(*spots(patient, of_run.place_of(seen)), number("clips_of_scaled_gradients", scaled)),
            severity=Severity.ERROR,
            cost=Cost(breaks=_BREAKS["scaled"]),
            detail=None if suspected else ClipMisplacedDetail(how="scaled"),
        )

    def _by_source(self, patient: Patient) -> Iterator[Finding]:
        said: set[object] = set()
        for one in passes(patient.source):
            if not one.of(Kind.CLIP) or one.opaque:
                continue
            for clip in one.of(Kind.CLIP):
                if clip.node not in said and not _measures(clip):
                    found = self._from_source(one, clip)
                    if found is not None:
                        said.add(clip.node)
                        yield found

    def _from_source(self, one: StepOrder, clip: StepOp) -> Finding | None:
        before = one.before(clip, Kind.BACKWARD, Kind.STEP)
        after = one.after(clip, Kind.BACKWARD, Kind.STEP)
        if before is None or after is None:
            return None
        if before.kind is Kind.STEP and after.kind is Kind.BACKWARD:
            return self._found(
                clip,
                before,
                say(
                    "Gradients are clipped after {called} ({place}) has used them, and the next backward() runs before "
                    "the next step. The clip has no effect.",
                    called=f"{before.scaler or before.subject}.step()",
                    place=line_at(before.event.span, clip.event.span),
                ),
                how="late",
            )
        if before.kind is Kind.BACKWARD and after.kind is Kind.STEP and _scaled(one, after, clip):
            return self._found(
                clip,
                after,
                say(
                    "Gradients are clipped while they still carry the loss scale of {scaler}: no "
                    "{scaler}.unscale_({subject}) runs before the clip.",
                    scaler=after.scaler,
                    subject=after.subject,
                ),
                how="scaled",
            )
        return None

    def _found(self, clip: StepOp, step: StepOp, message: str, *, how: str) -> Finding:
        return self.finding(
            message,
            evidence=(clip.event.span, step.event.span),
            breaks=_BREAKS[how],
            detail=ClipMisplacedDetail(
                how=how, clip=place(clip.event.span), scaler=step.scaler, optimizer=step.subject
            ),
        )


def _measures(clip: StepOp) -> bool:
    """Whether the bound is infinite, or the owner unscales before it clips."""
    call = clip.event.call
    assert call is not None
    if call.name.startswith("accelerate.") or "accelerator" in call.receiver:
        return True
    given = [*clip.node.args[1:2], *(item.value for item in clip.node.keywords if item.arg == "max_norm")]
    return any(_NO_LIMIT.search(ast.unparse(item)) for item in given)


def _scaled(one: StepOrder, step: StepOp, clip: StepOp) -> bool:
    """Whether a scaler that is on steps, scaled the loss, and has not unscaled before the clip."""
    if not step.scaler:
        return False
    backward = one.before(clip, Kind.BACKWARD)
    call = backward.node if backward is not None else None
    if call is None or not (".scale(" in ast.unparse(call) or any(True for _ in one.loop.calls(".scale"))):
        return False
    unscale = one.before(clip, Kind.UNSCALE, Kind.STEP)
    return unscale is None or unscale.kind is not Kind.UNSCALE
