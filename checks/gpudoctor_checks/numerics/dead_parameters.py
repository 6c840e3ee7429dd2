"""NUM005 dead-parameters."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.library_warnings import library_findings
from gpudoctor.analysis.run.steady_run import demanded, spot
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import joined, percent


@frozen
class DeadParametersDetail(Detail):
    """What the rule reads."""

    layer: str
    """Of the first one."""
    module: str
    """Modules that run below no_grad(); \"\" where none does."""


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
        They are not reported. Below a fifth of the elements it is a note. It stays an error if the first fifth
        of all tensors or more has none. Then the graph is cut behind the first layers. A call under no_grad()
        is a warning, because training a head on a frozen body has the same code.
    Remedies:
        Remove the detach, use the branch, or freeze it and remove it from the optimizer.
    References:
        - https://pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad
    """

    code = Code("NUM005")
    name = "dead-parameters"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            name="steps",
            default=20,
            unit="{steps}",
            source="convention: a dead parameter is 20 steps",
            meaning="Fewer examined steps are not judged.",
        ),
        Threshold(
            name="share_error",
            default=0.2,
            unit="1",
            source="convention: gpudoctor's own choice, no published figure is known",
            meaning="This share of the trainable elements or more is an error.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, self.limit("steps"))
        idle = [item for item in of_run.numerics(run.lead.process, "idle") if item.get("alone")]
        if idle and idle[-1].get("steps"):
            raise Unavailable("no parameter had a gradient in any step")  # the optimizer steps nothing: NUM008
        lives = _last_of_each_model(run.lead.process)
        if not lives or not lives[-1].get("parameters"):
            return
        last = lives[-1]
        # Each fold of a cross-validation makes its model anew, and looks at it for a short time.
        alike = [item for item in lives if set(item.get("parameters")) == set(last.get("parameters"))]
        looked = sum(int(item.get("steps")) for item in alike)
        if looked < self.limit("steps"):
            return
        if last.get("shards") and not _dead_everywhere(last, run.recording):
            return
        if of_run.swapped(run.lead.process, self.limit("steps")):
            return  # NUM008's: the optimizer was made over another model
        share = float(last.get("share") or 0.0)
        front, of = int(last.get("count") or 0) if last.get("front") else 0, int(last.get("of") or 0)
        cut_off = 1 < front < of and front >= self.limit("share_error") * of
        much = share >= self.limit("share_error") or cut_off
        dead = [str(name) for name in last.get("parameters")]
        called = _called_without(run.lead.process, dead)
        found = [of_run.place_of(item) for item in called]
        spans = list(dict.fromkeys(spot(patient, place) for place in found if place is not None))
        told = list(library_findings(self, patient)) if not called else []
        heard = [item for finding in told for item in finding.evidence]
        none = set(map(str, last.get("none") or ()))
        how = say("got no gradient at all") if none >= set(dead) else say("got no gradient but zeros")
        kinds = list(dict.fromkeys(str(item.get("name")) for item in called))
        modules = joined(kinds) if kinds else ""
        losses = of_run.loss_curve(run.lead.process).values
        no_loss = bool(losses) and not any(losses)
        verb = say("is") if len(kinds) == 1 else say("are")
        why = (
            say(
                " {modules} {verb} only called without gradients{at}, but an optimizer has {its} parameters.",
                modules=modules,
                verb=verb,
                at=of_run.at(spans),
                its=say("its") if len(kinds) == 1 else say("their"),
            )
            if called
            else concatenated(" ", ["", *(item.message for item in told)])
        )
        first = say(", the first {front} of {of} tensors", front=front, of=of) if cut_off else ""
        meant = bool(called)
        yield self.finding(
            say(
                "{parameters} {how} in {steps} steps: {share} of the trainable elements{first}.{why}",
                parameters=of_run.names(last),
                how=how,
                steps=looked,
                share=percent(share),
                first=first,
                why=why,
            ),
            evidence=(*heard, *spans, run.measured("dead_share", share)),
            confidence=Confidence.CONFIRMED,
            # Whoever trains a head on a frozen encoder writes the same: that is how it may be meant.
            severity=Severity.NOTE if not much else Severity.WARNING if meant else Severity.ERROR,
            cost=Cost(breaks="a part of the model does not train" if much and not meant else None),
            subject=dead[0],
            # Without a loss nothing gets a gradient. An output that is the same whatever goes in (a softmax
            # over one score) cuts off what makes it.
            effect_of=None if meant else Code("NUM012" if no_loss else "NUM010"),
            detail=DeadParametersDetail(layer=dead[0].rpartition(".")[0] or dead[0], module=modules),
        )


def _last_of_each_model(process: "of_run.Process") -> "list[of_run.Record]":
    """The last reading of each of several models in turn: with a new one its count begins again."""
    found: list[of_run.Record] = []
    for item in of_run.numerics(process, "dead"):
        if not item.get("steps"):
            continue
        if found and int(item.get("steps")) >= int(found[-1].get("steps")):
            found[-1] = item
        else:
            found.append(item)
    return found


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
