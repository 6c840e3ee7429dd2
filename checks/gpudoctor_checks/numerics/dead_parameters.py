"""NUM005 dead-parameters."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.library_warnings import library_findings
from gpudoctor.analysis.run.steady_run import demanded, spot
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import joined, percent


class DeadParameters(Check):
    """Trainable parameters never get a gradient.

    What it finds:
        Parameters that require gradients but had none, or only zeros, in every examined step over 20 steps or
        more. They belong to the model that trains, or to optimized modules that only run under no_grad().
    Why it hurts:
        Their values never change. A branch behind a detach, an argmax or a forgotten call seems trained but is
        not. Adam still keeps 8 bytes of state for each of their elements.
    How it knows:
        From a recording: the probe checks periodically and at the end which gradients are None or all zero. If
        the source is available, gpudoctor searches for the line that cuts the graph in the modules that use
        them.
    False alarms:
        Rarely chosen experts, embeddings of rare words and parts that train in turn sometimes have gradients.
        They are not reported. Below a fifth of the elements it is a note. A call under no_grad() is a warning,
        because training a head on a frozen body has the same code.
    Remedies:
        Remove the detach, use the branch, or freeze it and remove it from the optimizer.
    References:
        - https://pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad
    """

    code = "NUM005"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            "steps", 20, "{steps}", "convention: a dead parameter is 20 steps", "Fewer examined steps are not judged."
        ),
        Threshold(
            "share_error",
            0.2,
            "1",
            "convention: gpudoctor's own choice, no published figure is known",
            "This share of the trainable elements or more is an error.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, self.limit("steps"))
        idle = [item for item in of_run.numerics(run.lead.process, "idle") if item.get("alone")]
        if idle and idle[-1].get("steps"):
            raise Unavailable("no parameter had a gradient in any step")  # the optimizer steps nothing: NUM008
        readings = of_run.numerics(run.lead.process, "dead")
        last = readings[-1] if readings else None
        if last is None or not last.get("parameters") or int(last.get("steps") or 0) < self.limit("steps"):
            return
        if last.get("shards") and not _dead_everywhere(last, run.recording):
            return
        if of_run.swapped(run.lead.process, self.limit("steps")):
            return  # NUM008's: the optimizer was made over another model
        share = float(last.get("share") or 0.0)
        much = share >= self.limit("share_error")
        dead = [str(name) for name in last.get("parameters")]
        called = _called_without(run.lead.process, dead)
        places = [place for item in called if (place := of_run.place_of(item)) is not None]
        spans = list(dict.fromkeys(spot(patient, place) for place in places))
        told = list(library_findings(self, patient)) if not called else []
        zeros = not set(dead) <= set(map(str, last.get("none") or ()))
        how = say("got no gradient but zeros") if zeros else say("got no gradient at all")
        modules = joined(list(dict.fromkeys(str(item.get("name")) for item in called))) if called else ""
        losses = of_run.loss_curve(run.lead.process).values
        no_loss = bool(losses) and not any(losses)
        why = (
            say(" An optimizer has {modules}, called only without gradients{at}.", modules=modules, at=of_run.at(spans))
            if called
            else concatenated(" ", ["", *(item.message for item in told)])
        )
        meant = bool(called)
        yield self.finding(
            say(
                "{parameters} {how} in {steps} steps: {share} of the trainable elements.{why}",
                parameters=of_run.names(last),
                how=how,
                steps=int(last.get("steps") or 0),
                share=percent(share),
                why=why,
            ),
            evidence=(*(part for item in told for part in item.evidence), *spans, run.measured("dead_share", share)),
            # Whoever trains a head on a frozen encoder writes the same: that is how it may be meant.
            severity=Severity.NOTE if not much else Severity.WARNING if meant else Severity.ERROR,
            breaks="a part of the model does not train" if much and not meant else None,
            subject=dead[0],
            # Without a loss nothing gets a gradient. An output that is the same whatever goes in (a softmax
            # over one score) cuts off what makes it.
            effect_of=None if meant else "NUM012" if no_loss else "NUM010",
            detail=Facts(layer=dead[0].rpartition(".")[0] or dead[0], module=modules),
        )


def _dead_everywhere(last: "of_run.Record", recording: "of_run.Recording") -> bool:
    """Whether every rank says the same of its part of what is spread over them (an embedding's unused rows)."""
    named = set(map(str, last.get("parameters")))
    for process in recording.ranks:
        readings = of_run.numerics(process, "dead")
        if not readings or not named <= set(map(str, readings[-1].get("parameters") or ())):
            return False
    return True


def _called_without(process: "of_run.Process", dead: list[str]) -> "list[of_run.Record]":
    """The modules that all of these are of and that are not part of the one that trains; else none.

    The recorder puts their class before the names.
    """
    found = [item for item in process.of("model") if any(name.startswith(f"{item.get('name')}.") for name in dead)]
    known = tuple(say("{item}.", item=item.get("name")) for item in found)
    return found if found and all(name.startswith(known) for name in dead) else []
