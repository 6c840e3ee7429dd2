"""The card's line on parameters: how many are trained, of which kinds, and in which types."""

from gpudoctor.analysis.run.curves import numerics
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording
from gpudoctor.text import number, percent


def trained(process: Process) -> Record | None:
    """What of the largest model is trained, as it was seen last."""
    found = process.of("parameters")
    return found[-1] if found else None


def lost_updates(process: Process) -> Record | None:
    """How many elements of half-precision weights the steps leave as they were."""
    found = [item for item in numerics(process, "updates") if item.get("lost") is not None]
    return found[-1] if found else None


def parameters(recording: Recording) -> CardLine | None:
    """Elements of the model with most of them, of the first rank that tells."""
    process = next(iter(recording.ranks), None)
    models = process.of("model") if process is not None else ()
    model = max(models, key=lambda item: int(item.get("parameters") or 0), default=None)
    seen = trained(process) if process is not None else None
    total = int((seen.get("total") if seen else model.get("parameters") if model else 0) or 0)
    if process is None or model is None or not total:
        return None
    some = int((seen.get("trained") if seen else model.get("trainable")) or 0)
    types = [str(name) for name, _ in sorted((model.get("dtypes") or {}).items(), key=lambda item: -item[1])]
    facts: dict[str, object] = {"trained": some, "total": total, "types": types}
    texts = [
        say(
            "{trained} of {total} elements trained ({share})",
            trained=number(some),
            total=number(total),
            share=percent(some / total),
        ),
        *(_kinds(seen, facts) if seen is not None else ()),
        concatenated(", ", types),
    ]
    if (lost := lost_updates(process)) is not None:
        facts["updates_lost"] = share = float(lost.get("lost"))
        texts.append(say("{share} of the updates vanish in rounding", share=percent(share)))
    return CardLine(name="parameters", text=concatenated("; ", texts), facts=facts)


def _kinds(seen: Record, facts: dict[str, object]) -> list[str]:
    """Adapters, and what of the vocabulary is frozen."""
    texts = []
    if seen.get("adapter"):
        targets = [str(name) for name in seen.get("targets") or ()]
        ranks = [int(rank) for rank in seen.get("ranks") or ()]
        facts |= {"adapters": list(seen.get("adapters") or ()), "targets": targets, "ranks": ranks}
        rank = "r" + "/".join(map(str, ranks[:3])) if ranks else ""
        more = say(" and {more} more", more=len(targets) - 4) if len(targets) > 4 else ""
        texts.append(
            say("LoRA {rank} on {targets}{more}", rank=rank, targets=concatenated(", ", targets[:4]), more=more)
        )
    both = [bool(seen.get(kind)) and not seen.get(f"{kind}_trained") for kind in ("embedding", "head")]
    if any(both) and seen.get("trained"):
        facts["frozen"] = [kind for kind, still in zip(("embedding", "head"), both, strict=True) if still]
        texts.append(
            say("embeddings and head frozen")
            if all(both)
            else say("embeddings frozen")
            if both[0]
            else say("head frozen")
        )
    return texts
