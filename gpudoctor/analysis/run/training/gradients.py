"""The card's line on gradients, and what checks ask of them."""

from statistics import median

from gpudoctor.analysis.run.curves import norm_curve, numerics
from gpudoctor.analysis.run.training import integer
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
    seen = newest_of(process, "clips")
    norms = norm_curve(process).values
    # A limit on gradients that still carry the loss scale is no limit of the norms that are recorded.
    if seen is None or not norms or seen.get("scaled"):
        return None
    limit = float(seen.get("limit") or 0.0)
    if not limit:
        return None
    above = sum(norm > limit for norm in norms)
    return limit, above / len(norms), median(norms)


def clips_of_nothing(process: Process) -> tuple[Record, float] | None:
    """The clips, and the norm of the gradients, where every clip returned a norm of 0: it was given none of them."""
    seen = newest_of(process, "clips")
    looked = [float(item.get("norm") or 0) for item in numerics(process, "norms")]
    if seen is None or any(norm_curve(process).values) or not any(looked):
        return None
    return seen, median(looked)


def clipped_scaled(process: Process) -> Record | None:
    """The clips, where most cut gradients that still carry the loss scale."""
    seen = newest_of(process, "clips")
    if seen is None:
        return None
    scaled = integer(seen, "scaled")
    clips = integer(seen, "clips")
    return seen if scaled > clips / 2 else None


def gradients(recording: Recording) -> CardLine | None:
    """Norm, clips, skipped steps, of the first rank."""
    process = next(iter(recording.ranks), None)
    norms = norm_curve(process).values if process is not None else ()
    if process is None or not norms:
        return None
    nothing = clips_of_nothing(process)
    norm = nothing[1] if nothing is not None else median(norms)
    facts: dict[str, float | None] = {"norm": norm, "looks": len(norms)}
    texts = [say("median norm {norm:.3g} in {looks:,} steps looked at", **facts)]
    clips = clipping(process)
    if nothing is not None:
        texts.append(say("no clip was given any of them"))
    elif clips is not None:
        limit, share, _ = clips
        facts["limit"] = limit
        facts["clipped"] = share
        texts.append(say("clipped at {limit:g} in {share} of them", limit=limit, share=percent(share)))
    scaled = clipped_scaled(process)
    if scaled is not None:
        limit = scaled.get("limit") or 0.0
        texts.append(say("clipped at {limit:g} before the loss scale was taken out", limit=limit))
    scaler = numerics(process, "scaler")
    if scaler:
        skipped = integer(scaler[-1], "skipped")
        facts["skipped"] = skipped
        texts.append(say("{skipped} skipped", skipped=count(skipped, "step")))
    return CardLine(name="gradients", text=concatenated("; ", texts), facts=facts)
