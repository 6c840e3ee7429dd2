"""DIST004 redundant-collectives."""

import ast
from collections.abc import Iterable, Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import Run, script_at
from gpudoctor.analysis.source.call_frequency import MEASUREMENT_STEPS, brief, step_period
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.parallelism import DDP
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Threshold, Whose
from gpudoctor.model.signs.source import Event, GuardKind, Loop, Script
from gpudoctor_checks.run_check import RunCheck

_OBJECTS = frozenset({"all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"})
_UNEVEN = 0.2
"""Difference of the ranks' shares of waits from which on one of them is late."""


class RedundantCollectives(RunCheck):
    """Ranks run collectives in every step in addition to those of DDP or FSDP for the gradients.

    What it finds:
        In a training loop, on every step or every few:
        - barriers
        - collectives of pickled objects
        - parameters broadcast or reduced again under DistributedDataParallel

        In a recorded run: any collective of the program's own, with its cost.
    Why it hurts:
        Each collective synchronises all ranks: the slowest rank decides, and later launches wait. Objects are
        pickled, copied to the host and back. DDP already keeps parameters equal.
    How it knows:
        From the source, calls followed into functions of the program; guards (`if step % 50 == 0`) thin them.
        That is a note: only a run shows the cost. Values that are reduced or broadcast are left to the run,
        since the source does not tell what training needs.
    False alarms:
        Ranks that must agree on something in each step (early stop on a flag, an uneven number of batches).
    Remedies:
        Remove barriers and broadcasts; reduce values for the log every 50 steps, several in one tensor.
    References:
        - https://pytorch.org/docs/stable/distributed.html#collective-functions
        - https://pytorch.org/docs/stable/notes/ddp.html#internal-design
    """

    code = "DIST004"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        *Threshold.note_and_warning("Collectives that take this share of a recorded run are", noted=0.03, warned=0.08),
        Threshold(
            "period",
            10,
            "{step}",
            "convention: collectives every few steps are known to cost 5 % and more",
            "Collectives less often than once in this many steps are not findings.",
        ),
        MEASUREMENT_STEPS,
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        if len(run.states) < 2:
            yield from suspected  # one rank waits for nobody; but the program may be started on more
            return
        seen = of_run.price(
            patient,
            run,
            phases=("collective",),
            owners=(of_run.LineOwner.COMMUNICATION,),
            # Neither a meeting at the end, nor what a library's loop does by itself.
            wanted=lambda site: not of_run.by_parallelism(site) and site.steps > 1 and not _starts(patient, site.place),
        )
        severity = seen.level(self)
        if severity is None:
            return
        yield seen.finding(
            self,
            say(
                "The program's own collectives take {words}: {calls:.2g} a step of {what}{where}.",
                words=seen.words,
                calls=seen.calls,
                what=seen.what or say("them"),
                where=seen.where,
            ),
            name="collective_share",
            severity=severity,
            suspected=suspected,
            detail=Facts(kinds=_kinds(site.what for site in seen.sites)),
        )

    def live(self, patient: Patient, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """Collectives that the script calls itself; those of DDP and FSDP are no Python frames of it."""
        if len(window.ranks) < 2:
            return
        kinds = ("collective", "object-collective")
        seen = of_run.seen_live(window, lambda place: place.kind in kinds, whose=Whose.DEVICE)
        severity = seen.level(self)
        waits = [of_run.phase_share(rank, *of_run.WAITS) for rank in window.ranks]
        if severity is None or max(waits) - min(waits) > _UNEVEN:
            return  # if uneven, they wait for one of them, not for the network
        yield seen.finding(
            self,
            say(
                "The ranks wait in collectives that the script calls itself, {words}{where}.",
                words=seen.words,
                where=of_run.where(seen.places),
            ),
            name="collective_share",
            severity=severity,
            suspected=suspicions(lambda: self.suspected(patient), seen),
            detail=Facts(kinds=_kinds(place.via for place in seen.places)),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        """Barriers, pickled objects, and parameters that DDP keeps equal already, every few steps of a loop."""
        said: set[ast.AST] = set()
        for program in training_programs(patient.source):
            ddp = bool(program.called & DDP)
            for script, loop in program.loops:
                found: dict[ast.AST, tuple[Event, str, float]] = {}
                for event in loop.events if not brief(script, loop, self.limit("measurement_steps")) else ():
                    kind = _kind(event, ddp)
                    if not kind or any(guard.kind is GuardKind.RANK for guard in event.guards):
                        continue
                    period = step_period(event)
                    if period is not None and period < self.limit("period"):
                        found.setdefault(event.node, (event, kind, period))
                here = [item for node, item in found.items() if node not in said]
                said |= found.keys()
                if here:
                    yield self._from_source(script, loop, here)

    def _from_source(self, script: Script, loop: Loop, found: list[tuple[Event, str, float]]) -> Finding:
        period = min(period for _, _, period in found)
        spans = [event.span for event, _, _ in found]
        often = say("on every step") if period == 1 else say("every {period:g} steps", period=period)
        return self.finding(
            say(
                "{names} runs {often} of the training loop ({where}): all ranks wait for each other.",
                names=", ".join(dict.fromkeys(event.call.method for event, _, _ in found if event.call is not None)),
                often=often,
                where=lines_at(spans),
            ),
            evidence=(*spans[:8], loop.span),
            subject=f"{script.path}:{loop.span.line}",
            detail=Facts(kinds=",".join(sorted({kind for _, kind, _ in found}))),
        )


def _starts(patient: Patient, place: "of_run.LinePlace") -> bool:
    """Whether a line starts the loop of a library."""
    script = script_at(patient, place.path)
    return script is not None and any(loop.engine and loop.span.line == place.line for loop in script.loops)


def _kind(event: Event, ddp: bool) -> str:
    """The kind of a collective that no training needs on each step; "" for other events."""
    call = event.call
    if call is not None and call.name == "accelerate.Accelerator.wait_for_everyone":
        return "barrier"
    if call is None or not call.name.startswith("torch.distributed."):
        return ""
    if call.method in {"barrier", "monitored_barrier"}:
        return "barrier"
    if call.method in _OBJECTS:
        return "objects"
    over = " ".join(item.iterates for item in event.inner)
    return "parameters" if ddp and call.method in {"all_reduce", "broadcast"} and "parameters()" in over else ""


def _kinds(called: Iterable[str]) -> str:
    """The kinds of collectives that were seen (`dist.all_reduce`): `barrier,value`."""
    kinds = {"barrier": "barrier", "object": "objects", ".broadcast": "broadcast", ".scatter": "broadcast"}
    found = (next((kind for word, kind in kinds.items() if word in what), "value") for what in called)
    return ",".join(sorted({*found} or {"value"}))
