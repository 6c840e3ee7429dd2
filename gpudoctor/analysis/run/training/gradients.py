"""The card's line on gradients, and what checks ask of them."""

from statistics import median

from gpudoctor.analysis.run.curves import norm_curve, numerics
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording
from gpudoctor.text import count, percent


def newest_of(process: Process, type: str) -> Record | None:
    """The last record of a type, which counts all before."""
    found = process.of(type)
    return found[-1] if found else None


def clipping(process: Process) -> tuple[float, float, float] | None:
    """The limit of a clip, the share of the steps above it, and their median norm; None where no norm is known."""
    seen, norms = newest_of(process, "clips"), norm_curve(process).values
    limit = float(seen.get("limit") or 0.0) if seen is not None else 0.0
    if seen is None or not limit or not norms or seen.get("scaled"):
        return None
    return limit, sum(norm > limit for norm in norms) / len(norms), median(norms)


def clipped_scaled(process: Process) -> Record | None:
    """The clips, where most cut gradients that still carry the loss scale."""
    seen = newest_of(process, "clips")
    return seen if seen is not None and 2 * int(seen.get("scaled") or 0) > int(seen.get("clips") or 0) else None


def gradients(recording: Recording) -> CardLine | None:
    """Norm, clips, skipped steps, of the first rank."""
    process = next(iter(recording.ranks), None)
    norms = norm_curve(process).values if process is not None else ()
    if process is None or not norms:
        return None
    clips, scaler = clipping(process), numerics(process, "scaler")
    facts: dict[str, float | None] = {"norm": median(norms), "looks": len(norms)}
    texts = [say("median norm {norm:.3g} in {looks:,} steps looked at", **facts)]
    if clips is not None:
        facts |= {"limit": clips[0], "clipped": clips[1]}
        texts.append(say("clipped at {limit:g} in {share} of them", limit=clips[0], share=percent(clips[1])))
    if (scaled := clipped_scaled(process)) is not None:
        texts.append(say("clipped at {limit:g} before the loss scale was taken out", limit=scaled.get("limit") or 0.0))
    if scaler:
        facts["skipped"] = skipped = int(scaler[-1].get("skipped") or 0)
        texts.append(say("{skipped} skipped", skipped=count(skipped, "step")))
    return CardLine(name="gradients", text=concatenated("; ", texts), facts=facts)
