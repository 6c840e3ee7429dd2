"""A replay in words, as the model has it, and what it adds to the finding that it explains."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpudoctor.analysis.run.line_costs import relative
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Finding, Measurement, SourceSpan
from gpudoctor.model.proof import BadStepDetail, Cause, Replay
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import capitalised

_LARGEST = {"float16": "65,504", "bfloat16": "3.4e38", "float32": "3.4e38", "float64": "1.8e308"}
_VALUES = {"nan": "NaN", "inf": "inf", "-inf": "-inf"}
_MOST = 3
_BETTER = {
    Cause.ROUNDING: say("what was 0 or beyond 1 there was only rounded to it"),
    Cause.HALF_OVERFLOW: "only the range of {dtype} was too small",
    Cause.OVERFLOW: "only the range of {dtype} was too small",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What one replay recorded, and what it was judged to be."""

    record: Mapping[str, Any]
    recording: Recording
    rank: int
    cause: Cause
    growth: str = ""
    """What had grown before, as a clause."""
    precision: str = ""
    finite: bool | None = None

    def replay(self, code: str, step: int) -> Replay:
        """As the model has it."""
        origin = self._origin
        made = origin.get("step")
        found = self.record.get("found")
        reproduced = found in ("loss", "gradients", "weights", "poisoned") or bool(origin)
        return Replay(
            code=code,
            step=step,
            reproduced=reproduced,
            reason="" if reproduced else self._nothing(step),
            cause=self.cause if reproduced else None,
            words=self.words() if reproduced else "",
            operation=str(origin.get("operation") or "")
            if origin.get("kind") in ("operation", "constant")
            else "",
            operator=str(origin.get("operator") or ""),
            phase=str(origin.get("phase") or ""),
            began=made if isinstance(made, int) and made != step else None,
            rank=self.rank,
            value=str(origin.get("value") or ""),
            dtype=str(origin.get("dtype") or ""),
            module=str(origin.get("module") or ""),
            module_class=str(origin.get("module_class") or ""),
            place=self._span(origin.get("place")),
            site=self._span(origin.get("site")),
            turned=self._span((origin.get("turned") or {}).get("place")),
            items=tuple(origin.get("items") or ()),
            names=tuple(map(str, self.record.get("names") or ())),
            precision=self.precision,
            finite=self.finite,
            eager=bool(self.record.get("eager")),
        )

    @property
    def _origin(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.record.get("origin") or {}
        return found

    def _nothing(self, step: int) -> str:
        """Why nothing was seen."""
        if self.record.get("broken"):
            return say("its operations could not be watched ({broken})", broken=self.record["broken"])
        if self.record.get("found") == "ended":
            return say("the program ended before step {step} was over, and nothing in it was NaN", step=step)
        again = say("step {step} was finite this time: the seeds do not determine its cause", step=step)
        if self.record.get("eager"):
            return say(
                "run as written, not compiled, step {step} is finite: only compiled code does it", step=step
            )
        return say("{again} (another order of threads or of data, the time, a race)", again=again)

    def _span(self, spot: Mapping[str, Any] | None) -> SourceSpan | None:
        if not spot:
            return None
        path = relative(self.recording, str(spot["path"]))
        return SourceSpan(path=path, line=int(spot["line"]), text=str(spot.get("text") or ""))

    def words(self) -> str:
        """What happened, in one to three sentences."""
        parts = [self._happened(), self._turned(), self._growth(), self._digits()]
        text = concatenated(" ", (part for part in parts if part))
        if self.record.get("eager"):
            text += say(
                " (Seen with the model run as written: gpudoctor cannot see operations in compiled code.)"
            )
        return text

    def _happened(self) -> str:
        origin = self._origin
        if not origin:
            names = ", ".join(self.record.get("names") or ()) or say("something")
            return say("{names} contained values that are not finite; the cause is not visible.", names=names)
        kind, value = origin.get("kind"), _VALUES.get(str(origin.get("value")), "NaN")
        if kind == "operation":
            return self._operation(value)
        if kind == "batch":
            return self._batch(value)
        name = origin.get("name") or say("a tensor")
        if kind in ("weights", "buffer", "gradient"):
            what = {
                "weights": say("the weight"),
                "buffer": say("the buffer"),
                "gradient": say("the gradient of"),
            }[str(kind)]
            when = (
                say("the first step")
                if not self.record.get("begin")
                else say("step {begin}", begin=self.record["begin"])
            )
            return say(
                "{what} {name} contained {value} before {when} already.",
                what=what.capitalize(),
                name=name,
                value=value,
                when=when,
            )
        if kind == "peer":
            return say("The gradients became NaN when those of the other ranks were added.")
        if origin.get("early"):
            return say(
                "A tensor was filled with {value} before the first step{at}.", value=value, at=self._at()
            )
        if kind == "constant":
            return say("{value} is a constant in the program{at}.", value=value, at=self._at())
        return say(
            "Data that the program loaded contained {value}{at}: {count}.",
            value=value,
            at=self._at(),
            count=self._count(),
        )

    def _operation(self, value: str) -> str:
        origin = self._origin
        operation, phase, module = str(origin.get("operation")), origin.get("phase"), origin.get("module")
        inside = say(" of {module}", module=_module(module, origin.get("module_class"))) if module else ""
        why = str(origin.get("words") or "") or self._beyond()
        tail = say(": {why}.", why=why) if why else "."
        if phase == "optimizer":
            half = say("; the divisor is rounded to 0 in float16") if origin.get("dtype") == "float16" else ""
            return say(
                "The optimizer's own step gave {value} from finite gradients{at}{tail}{half}.",
                value=value,
                at=self._at(),
                tail=tail[:-1],
                half=half,
            )
        if phase == "backward":
            return say(
                "In the backward pass{inside} the derivative of {operation} gave {value}{at}{tail}",
                inside=inside,
                operation=operation,
                value=value,
                at=self._at(),
                tail=tail,
            )
        where = (
            say("In the forward pass{inside}", inside=inside)
            if inside
            else say("In the loss or outside the model")
        )
        return say(
            "{where} {operation} gave {value}{at}{tail}",
            where=where,
            operation=operation,
            value=value,
            at=self._at(),
            tail=tail,
        )

    def _beyond(self) -> str:
        origin = self._origin
        largest, dtype = origin.get("largest"), str(origin.get("dtype"))
        if origin.get("wide") != "finite" or not isinstance(largest, int | float):
            return ""
        if largest < 1e300:
            return say(
                "a value of {value:.3g} does not fit {dtype} (largest {limit})",
                value=largest,
                dtype=dtype,
                limit=_LARGEST.get(dtype, "?"),
            )
        return ""

    def _batch(self, value: str) -> str:
        origin = self._origin
        items, rows = origin.get("items") or [], origin.get("rows") or []
        which = ""
        if items:
            which = say(
                ", item{s} {listed} of the data set",
                s=say("s") if len(items) > 1 else "",
                listed=_listed(items),
            )
        elif rows:
            which = say(", row{s} {listed}", s=say("s") if len(rows) > 1 else "", listed=_listed(rows))
        name = origin.get("name") or say("it")
        return say(
            "The batch contained {value} before anything was computed from it: {name}, {count}{which}.",
            value=value,
            name=name,
            count=self._count(),
            which=which,
        )

    def _count(self) -> str:
        origin = self._origin
        return say("{bad:,} of {all:,} values", bad=origin.get("bad") or 0, all=origin.get("of") or 0)

    def _at(self) -> str:
        spot = self._origin.get("place") or self._origin.get("site")
        return say(" ({short})", short=_short(spot)) if spot else ""

    def _turned(self) -> str:
        turned = self._origin.get("turned")
        spot = (turned or {}).get("place") or (turned or {}).get("site")
        if not turned or turned.get("phase") != "forward" or self._origin.get("phase") != "forward":
            return ""
        at = say(" ({short})", short=_short(spot)) if spot and spot != self._origin.get("place") else ""
        return say("It became NaN in {turned}{at}.", turned=turned.get("operation"), at=at)

    def _growth(self) -> str:
        return say("{growth}.", growth=capitalised(self.growth)) if self.growth and self._blamed() else ""

    def _blamed(self) -> bool:
        return self.cause is Cause.EXPLODING

    def _digits(self) -> str:
        if self.finite is None:
            return ""
        if not self.finite:
            return say("In {precision} the step is not finite either.", precision=self.precision)
        why = _BETTER.get(self.cause, "").format(dtype=self._origin.get("dtype"))
        return say("In {precision} the same step is finite", precision=self.precision) + (
            say(": {why}.", why=why) if why else "."
        )


def _module(name: Any, kind: Any) -> str:
    return say("{name} ({kind})", name=name, kind=kind) if kind and kind != name else str(name)


def _short(spot: Mapping[str, Any]) -> str:
    return f"{str(spot['path']).rpartition('/')[2]}:{spot['line']}"


def _listed(numbers: Any) -> str:
    shown = ", ".join(map(str, numbers[:_MOST]))
    return shown + (", ..." if len(numbers) > _MOST else "")


# What a replay adds to the finding that it explains: the operation, its lines, the class of cause.


def explained(finding: Finding, replay: Replay) -> Finding:
    """The finding with the replay's evidence in front; where it showed nothing, with the reason why."""
    head = finding.message.partition(";")[0].rstrip(".")
    if not replay.reproduced:
        words = say(
            "{message}. A replay shows no more: {reason}.",
            message=finding.message.rstrip("."),
            reason=replay.reason,
        )
        return replace(finding, message=words)
    began = say("It began in step {began}. ", began=replay.began) if replay.began is not None else ""
    spans = [span for span in (replay.place, replay.site, replay.turned) if span is not None]
    found = {(span.path, span.line): span for span in spans}
    detail = finding.detail
    kept = [item for item in finding.evidence if not isinstance(item, SourceSpan)]
    rest = [item for item in finding.evidence if isinstance(item, SourceSpan)] if not found else []
    return replace(
        finding,
        message=say("{head}. {began}{words}", head=head, began=began, words=replay.words),
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
