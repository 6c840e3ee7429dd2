"""Numbers for people: bytes as GiB, seconds as ms, shares as percent. Elsewhere all is bytes and seconds."""

import math

from gpudoctor.model import (
    Confidence,
    Cost,
    Effect,
    Evidence,
    Finding,
    LogLine,
    Measurement,
    Provenance,
    Remedy,
    Setting,
    SourceSpan,
)
from gpudoctor.model.amounts import duration, short
from gpudoctor.report.closed import assert_never

_BYTE_STEPS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_ANYTHING = 1000
"""Bound of an interval from which on its value says nothing."""
_SPOKEN_UNITS = {"Cel": "°C", "count": ""}


def bytes_text(count: float) -> str:
    """Bytes in the binary unit that leaves one to four digits: 1073741824 -> "1 GiB"."""
    if not math.isfinite(count):
        return "unknown"
    size = abs(count)
    for step, unit in _BYTE_STEPS:
        if size >= step:
            return f"{short(count / step)} {unit}"
    return f"{count:,.0f} B"


def seconds_text(seconds: float) -> str:
    """Seconds in the unit that reads best: 0.0239 -> "23.9 ms", 8040 -> "2h14m"."""
    return duration(seconds)


def share_text(share: float) -> str:
    """A ratio as percent: 0.583 -> "58 %"."""
    if not math.isfinite(share):
        return "unknown"
    percent = share * 100
    return f"{percent:.0f} %" if abs(percent) >= 10 or percent == round(percent) else f"{percent:.1f} %"


def number_text(value: float) -> str:
    """A number without noise: 1980 -> "1,980", 0.25 -> "0.25"."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.4g}"


def quantity_text(value: float | int | str | bool, unit: str) -> str:
    """A value with its unit, formatted for a person."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "B":
        return bytes_text(value)
    if unit == "B/s":
        return f"{bytes_text(value)}/s"
    if unit == "s":
        return seconds_text(value)
    if unit == "1":
        return share_text(value) if 0 <= value <= 1 else number_text(value)
    return f"{number_text(value)} {_noun(_SPOKEN_UNITS.get(unit, unit.strip('{}')), value)}".rstrip()


def _noun(unit: str, value: float) -> str:
    """A plain noun in the number of its value: "1 step", "50 steps"; symbols (W, MHz) stay."""
    if not (unit.isalpha() and unit.islower() and len(unit) > 3) or unit in ("percent", "mask"):
        return unit
    if value != 1:
        return unit if unit.endswith("s") else unit + "s"
    return unit[:-2] if unit.endswith(("ches", "shes", "xes", "sses")) else unit.removesuffix("s")


def threshold_text(value: float, unit: str) -> str:
    """A threshold as a settings file has it, and as people say it where that differs: "86400 (24 h)"."""
    raw = f"{value:.0f}" if value == round(value) else f"{value:g}"
    spoken = quantity_text(value, unit)
    return raw if spoken == raw else f"{raw} ({spoken})"


def effect_text(effect: Effect) -> str:
    """An expected effect: "1.9x to 2.3x", "up to 2.4x", "-9.8 GiB memory"."""
    if effect.unit == "x":
        return _factor_text(effect)
    if effect.unit not in ("B", "s"):
        low, high = (quantity_text(end, effect.unit) for end in (effect.low, effect.high))
        return low if low == high else f"{low} to {high}"
    show = bytes_text if effect.unit == "B" else seconds_text
    low, high = show(effect.low), show(effect.high)
    text = low if low == high else f"{low} to {high}"
    return f"{text} {effect.quantity.replace('_', ' ')}"


def confidence_text(finding: Finding) -> str:
    """How sure we are, in one word: suspected, probable, confirmed, or measured when a number proves it."""
    if finding.confidence is not Confidence.CONFIRMED:
        return str(finding.confidence.value)
    measured = any(
        isinstance(item, Measurement) and item.provenance is Provenance.MEASURED for item in finding.evidence
    )
    return "measured" if measured else "confirmed"


def cost_text(cost: Cost) -> str:
    """What a finding costs, or "" when nobody knows."""
    parts = [cost.breaks] if cost.breaks else []
    if cost.step_share is not None:
        parts.append(f"{share_text(cost.step_share)} of step time")
    if cost.host_share is not None:
        parts.append(f"{share_text(cost.host_share)} of the host's time in a step; its gain is unknown")
    if cost.bytes is not None:
        parts.append(bytes_text(cost.bytes))
    return ", ".join(parts)


def evidence_place(evidence: Evidence) -> str:
    """Where the evidence stands: "train.py:88", "ds.json:12", "environment", or the quantity's name."""
    match evidence:
        case SourceSpan():
            return f"{evidence.path}:{evidence.line}"
        case Setting():
            if evidence.path is None:
                return evidence.origin
            return evidence.path if evidence.line is None else f"{evidence.path}:{evidence.line}"
        case LogLine():
            return evidence.origin if evidence.line is None else f"{evidence.origin}:{evidence.line}"
        case Measurement():
            return evidence.name.replace("_", " ")
        case _:
            return assert_never(evidence)


def evidence_content(evidence: Evidence) -> str:
    """What the evidence says: the source line, the setting, the log line or the value with its provenance."""
    match evidence:
        case SourceSpan():
            return evidence.text
        case Setting():
            return f"{evidence.key} = {evidence.value}"
        case LogLine():
            return evidence.text
        case Measurement():
            return f"{quantity_text(evidence.value, evidence.unit)} ({evidence.provenance.value})"
        case _:
            return assert_never(evidence)


def evidence_command(evidence: Evidence) -> str | None:
    """The command that shows the evidence by hand, where there is one."""
    return evidence.reproduce if isinstance(evidence, Measurement | Setting) else None


def remedy_facts(remedy: Remedy) -> str:
    """Effect, applicability and effort of a remedy: "1.9x to 2.3x, safe, one line"."""
    parts = [effect_text(remedy.effect)] if remedy.effect else []
    proof = remedy.proof
    if proof is not None:
        gone = proof.cure.gone if proof.cure is not None else None
        parts = [] if gone is None else ["cured in a trial" if gone else "not cured in a trial"]
        if not math.isnan(proof.ratio):
            parts.append(f"{proof.ratio:.2f}x measured ({interval_text(proof.low, proof.high)})")
    return ", ".join([*parts, remedy.applicability.value, remedy.effort.value])


def interval_text(low: float, high: float) -> str:
    """An interval of ratios: "1.31 to 1.37"; runs that a busy machine tears apart leave room for anything."""
    return f"{low:.2f} to {high:.2f}" if high < _ANYTHING else f"{low:.2f} to over {_ANYTHING:,}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: "1 note", "2 notes", "1,240 steps"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _factor_text(effect: Effect) -> str:
    low, high = f"{effect.low:.3g}", f"{effect.high:.3g}"
    what = "" if effect.quantity == "throughput" else f" {effect.quantity.replace('_', ' ')}"
    if low == high:
        return f"{high}x{what}"
    return f"up to {high}x{what}" if low == "1" else f"{low}x to {high}x{what}"
