"""NUM008: the optimizer does not hold the parameters that are trained."""

from collections.abc import Iterator, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, demanded, measured, processes, spots
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Cost, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement, SourceSpan
from gpudoctor.text import joined, percent

_NO_WEIGHTS = say("the weights do not learn")
_ALL = 0.95
"""Share of unmoved elements that nobody leaves alone on purpose."""


class WeightsFrozen(Check):
    """The optimizer does not have the parameters of the model that trains.

    What it finds:
        In a recording:
        - weights that no step changes
        - gradients that are cleared before the step
        - a second model that gets gradients but is in no optimizer
        - an optimizer without parameters, or over another model than the one that trains
        - an optimizer whose step is never called
    Why it hurts:
        `step()` updates tensors that the model no longer uses. The loss is computed and gradients flow, but the
        weights never change. Hours of training give the initial model, or train all but the new layer.
    How it knows:
        From a recording: the parameters of the models and of the optimizers, and their gradients before each
        step. Also whether a step changed them.
    False alarms:
        `.to(device)`, `torch.compile`, DDP and SyncBatchNorm keep the same parameters. LOOP011 reports a model
        that is called a teacher, was loaded or copied, or is in eval mode.
    Remedies:
        Build the optimizer after the model has its final form.
    References:
        - https://docs.pytorch.org/docs/stable/optim.html#constructing-it
    """

    code = "NUM008"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            "steps",
            20,
            "{steps}",
            "convention: a dead parameter counts from 20 steps; a warm-up from rate 0 is over by then",
            "Fewer examined steps in a recording are not judged.",
        ),
        Threshold(
            "frozen_share",
            0.2,
            "1",
            "NUM005's share for an error",
            "This share of unchanged trainable elements or more is an error, below it a note.",
        ),
        Threshold(
            "cleared_share",
            0.9,
            "1",
            "convention: a clearing at a wrong place happens in each step",
            "If at least this share of steps lost their gradients, that is the cause.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        idle = next((item for rank in processes(patient) for item in of_run.numerics(rank, "unstepped")), None)
        if idle is not None:
            yield self._unstepped(patient, idle)
            return
        run = demanded(patient, self.limit("steps"))
        process = run.lead.process
        model = of_run.main_model(process)
        if model is not None and _held_nothing(process, model):
            yield self._empty(patient, run, model)
            return
        if trained := of_run.swapped(process, self.limit("steps")):
            yield self._swapped(patient, run, trained)
            return
        last = {(item.get("path"), item.get("line")): item for item in of_run.numerics(process, "idle")}
        for item in last.values():
            if int(item.get("steps") or 0) >= self.limit("steps"):
                yield self._idle(patient, run, item)
        for item in of_run.forgotten(process, self.limit("steps")):
            yield self._forgotten(patient, run, item)
        readings = [
            item for item in of_run.numerics(process, "frozen") if int(item.get("steps") or 0) >= self.limit("steps")
        ]
        still = readings[-1] if readings else None
        others = of_run.unheld(process)
        if not others if still is None else not still.get("parameters"):
            return
        named = list(map(str, still.get("parameters"))) if still is not None else sorted(others)
        share = float(still.get("share") or 0.0) if still is not None else 1.0
        more = say(" and {named} more", named=len(named) - 3) if len(named) > 3 else ""
        left = set(named) <= of_run.missing(process)
        # An optimizer made for a part of the model, or beside a second model, leaves the rest alone on purpose.
        much = share >= self.limit("frozen_share") if not left else bool(others) or share >= _ALL
        why = say("no optimizer has them") if left else say("although an optimizer has them")
        yield confirmed(
            self,
            (),
            say(
                "The steps do not change {parameters}{more}, {share} of the trainable elements: {why}.",
                parameters=", ".join(named[:3]),
                more=more,
                share=percent(share),
                why=why,
            ),
            evidence=(
                *spots(patient, *map(of_run.place_of, process.of("optimizer")[-1:])),
                run.measured("unmoved_share", share),
            ),
            severity=Severity.ERROR if much else Severity.NOTE,
            cost=Cost(breaks="the weights do not learn" if much else None),
            detail=Facts(how=None, text=None),
        )

    def _forgotten(self, patient: Patient, run: Run, item: "of_run.Record") -> Finding:
        """A model beside the trained one gets gradients, and no optimizer was given its parameters."""
        name, steps = str(item.get("model") or "a second model"), int(item.get("steps") or 0)
        made = run.lead.process.of("optimizer")
        return _broken(
            self,
            say(
                "{name} gets gradients in {steps} training steps, but its parameters are in no optimizer, so its "
                "weights never change.",
                name=name,
                steps=steps,
            ),
            spots(patient, *(of_run.place_of(record) for record in (item, *made[-1:]))),
            run.measured("forward_passes", steps, "{steps}"),
            say("{name} does not learn", name=name),
            Facts(how="forgotten", text=name),
        )

    def _idle(self, patient: Patient, run: Run, item: "of_run.Record") -> Finding:
        """The steps of one of several optimizers find nothing to apply."""
        name, steps = str(item.get("model") or ""), int(item.get("steps") or 0)
        spans = spots(patient, of_run.place_of(item))
        whose = say(" of {name}", name=name) if name else ""
        if item.get("shared"):  # what it was made for has no optimizer
            message = say(
                "This optimizer found no gradient in {steps} steps, and changes nothing{at}. Another "
                "optimizer has the same parameters{whose} and trains them.",
                steps=steps,
                at=of_run.at(spans),
                whose=whose,
            )
            detail = Facts(how="shared", text=name or say("the parameters of this optimizer"))
            breaks = say("the steps of an optimizer change nothing")
            return _broken(
                self, message, spans, run.measured("steps_without_gradients", steps, "{steps}"), breaks, detail
            )
        cleared = int(item.get("cleared") or 0) >= self.limit("cleared_share") * steps
        # Else a part that runs without gradients: fixed on purpose?
        sure = cleared or bool(item.get("called") or item.get("alone"))
        losses = of_run.newest_of(run.lead.process, "gradients")
        rootless = losses is not None and losses.get("leaf") == losses.get("looks") and not cleared
        leaf = spots(patient, of_run.place_of(losses)) if rootless and losses is not None else []
        what = (
            template(
                "The loss{at} has no graph: it was made of detached numbers, and requires_grad_() only silences the "
                "error. No parameter{whose} had a gradient in any of {steps} steps."
            )
            if leaf
            else template(
                "The backward pass gives the parameters{whose} gradients. Something clears them before each "
                "optimizer step: that was so in {steps} steps{at}. The steps change nothing."
            )
            if cleared
            else template(
                "No parameter{whose} had a gradient in any of the {steps} steps of its optimizer that were "
                "examined{at}. The steps change nothing. The loss was computed from detached tensors, or the gradients "
                "were cleared before the step."
            )
        )
        return _broken(
            self,
            say(what, whose=whose, steps=steps, at=of_run.at(leaf or spans)),
            (*leaf, *spans),
            run.measured("steps_without_gradients", steps, "{steps}"),
            say("{name} does not learn", name=name or say("a part of the model")) if sure else None,
            Facts(how="cleared" if cleared else "idle", text=name or say("the parameters of this optimizer")),
        )

    def _empty(self, patient: Patient, run: Run, model: "of_run.Record") -> Finding:
        """Steps of optimizers without a parameter: an adapter that was loaded for inference, for instance."""
        total, trainable = int(model.get("parameters") or 0), int(model.get("trainable") or 0)
        name = str(model.get("name") or "the model")
        why = (
            say("all {total:,} elements of {name} are frozen", total=total, name=name)
            if not trainable
            else say("it got none")
        )
        return _broken(
            self,
            say(
                "The optimizer has no parameters, {why}: {steps:,} steps have changed nothing.",
                why=why,
                steps=run.lead.steps,
            ),
            spots(patient, of_run.place_of(run.lead.process.of("optimizer")[-1])),
            run.measured("trainable", trainable),
            _NO_WEIGHTS,
            Facts(how="frozen" if not trainable else "other", text=name),
        )

    def _swapped(self, patient: Patient, run: Run, trained: "Sequence[of_run.Record]") -> Finding:
        """Every tensor of the optimizer is without a gradient, and a model without an optimizer gets them."""
        made = run.lead.process.of("optimizer")[-1:]
        spans = spots(patient, *(of_run.place_of(record) for record in (*made, *trained)))
        named = joined(list(dict.fromkeys(str(item.get("model") or "another model") for item in trained)))
        return _broken(
            self,
            say(
                "No parameter of the optimizer gets a gradient, and no optimizer has those that do: {named}"
                "{at}. It was built over another model.",
                named=named,
                at=of_run.at(spans[1:]),
            ),
            spans,
            run.measured("unmoved_share", 1.0),
            _NO_WEIGHTS,
            Facts(how="swapped", text=named),
        )

    def _unstepped(self, patient: Patient, idle: "of_run.Record") -> Finding:
        """An optimizer was made, and no step of it was seen in all the backward passes."""
        made = next((item for rank in processes(patient) for item in rank.of("optimizer")), None)
        passes = int(idle.get("backwards") or 0)
        return self.finding(
            say("{idle} backward passes ran, but the program never calls the optimizer's step().", idle=passes),
            evidence=(
                *spots(patient, *(of_run.place_of(item) for item in (idle, made) if item is not None)),
                measured("backward_passes", passes, "1", patient.recording),
            ),
            breaks=_NO_WEIGHTS,
            subject="step",
            detail=Facts(how="step", text=None),
        )


def _broken(
    check: Check, message: str, spans: Sequence[SourceSpan], number: Measurement, breaks: str | None, detail: Facts
) -> Finding:
    """What a run shows: an error where it breaks something, else a warning."""
    return confirmed(
        check,
        (),
        message,
        evidence=(*spans, number),
        severity=Severity.ERROR if breaks else Severity.WARNING,
        cost=Cost(breaks=breaks),
        detail=detail,
    )


def _held_nothing(process: "of_run.Process", model: "of_run.Record") -> bool:
    """Whether no optimizer has a parameter; a rank of a sharded model may hold none of them on purpose."""
    made = process.of("optimizer")
    empty = bool(made) and not any(int(item.get("parameters") or 0) for item in made)
    return empty and not (model.get("trainable") and model.get("wrapped"))
