"""The card's line on parameters: how many are trained, of which kinds, and in which types."""

from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.training.gradients import newest_of
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Recording
from gpudoctor.text import number, percent


def stuck(process: Process) -> tuple[float, int] | None:
    """The share of the half-precision weights that are still what they were, and after how many steps."""
    found = [item for item in numerics(process, "updates") if item.get("stuck") is not None][-1:]
    return next(((float(item.get("stuck")), int(item.get("until")) - int(item.get("since"))) for item in found), None)


def parameters(recording: Recording) -> CardLine | None:
    """Elements of the model with most of them, of the first rank that tells."""
    process = next(iter(recording.ranks), None)
    models = process.of("model") if process is not None else ()
    model = max(models, key=lambda item: int(item.get("parameters") or 0), default=None)
    if process is None or model is None:
        return None
    seen = newest_of(process, "parameters")
    every = [newest_of(rank, "parameters") for rank in recording.ranks] if seen and seen.get("sharded") else [seen]
    total, some = (
        sum(int((item.get(name) if item else model.get(other)) or 0) for item in every)
        for name, other in (("total", "parameters"), ("trained", "trainable"))
    )
    if not total:
        return None
    types = [str(name) for name, _ in sorted((model.get("dtypes") or {}).items(), key=lambda item: -item[1])]
    facts: dict[str, object] = {"trained": some, "total": total, "types": types}
    text = template("{trained} of {total} elements trained ({share})")
    texts = [say(text, trained=number(some), total=number(total), share=percent(some / total))]
    targets, ranks, still = ([*((seen and seen.get(name)) or ())] for name in ("targets", "ranks", "frozen_tables"))
    if targets:
        facts |= {"targets": targets, "ranks": ranks}
        texts.append(say("LoRA r{rank} on {names}", rank="/".join(map(str, ranks[:3])), names=", ".join(targets)))
    if still:
        facts["frozen"] = still
        texts.append(say("{names} frozen", names=", ".join(name.rpartition(".")[2] for name in still[:3])))
    texts.append(", ".join(types))
    if (lost := stuck(process)) is not None:
        facts["unchanged"], steps = lost
        texts.append(say("{share} of the weights unchanged after {steps} steps", share=percent(lost[0]), steps=steps))
    return CardLine(name="parameters", text=concatenated("; ", texts), facts=facts)
