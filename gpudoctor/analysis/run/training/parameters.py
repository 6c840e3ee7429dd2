"""The card's line on parameters: how many are trained, of which kinds, and in which types."""

from collections.abc import Iterator

from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.training import integer
from gpudoctor.analysis.run.training.gradients import newest_of
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording
from gpudoctor.text import number, percent

_NAMES = 3
"""Ranks and tables that the line names."""


def stuck(process: Process) -> tuple[float, int] | None:
    """The share of the half-precision weights that are still what they were, and after how many steps."""
    found = [item for item in numerics(process, "updates") if item.get("stuck") is not None]
    if not found:
        return None
    last = found[-1]
    steps = int(last.get("until")) - int(last.get("since"))
    return float(last.get("stuck")), steps


def parameters(recording: Recording) -> CardLine | None:
    """Elements of the model with most of them, of the first rank."""
    process = next(iter(recording.ranks), None)
    if process is None:
        return None
    model = max(process.of("model"), key=lambda item: integer(item, "parameters"), default=None)
    if model is None:
        return None
    seen = newest_of(process, "parameters")
    total, some = _elements(recording, model, seen)
    if not total:
        return None
    dtypes: dict[str, int] = model.get("dtypes") or {}
    types = [str(name) for name in sorted(dtypes, key=lambda name: -dtypes[name])]
    facts: dict[str, object] = {"trained": some, "total": total, "types": types}
    text = template("{trained} of {total} elements trained ({share})")
    share = percent(some / total)
    texts = [say(text, trained=number(some), total=number(total), share=share)]
    if seen is not None:
        texts += _adapters(seen, facts)
        texts += _frozen_tables(seen, facts)
    texts.append(", ".join(types))
    lost = stuck(process)
    if lost is not None:
        unchanged, steps = lost
        facts["unchanged"] = unchanged
        text = template("{share} of the weights unchanged after {steps} steps")
        texts.append(say(text, share=percent(unchanged), steps=steps))
    return CardLine(name="parameters", text=concatenated("; ", texts), facts=facts)


def _elements(recording: Recording, model: Record, seen: Record | None) -> tuple[int, int]:
    """All elements and the trained ones: as the training had them, else as the model was when it was made."""
    if seen is None:
        return integer(model, "parameters"), integer(model, "trainable")
    if not seen.get("sharded"):
        return integer(seen, "total"), integer(seen, "trained")
    total = trained = 0
    for rank in recording.ranks:
        its = newest_of(rank, "parameters")
        if its is not None:
            total += integer(its, "total")
            trained += integer(its, "trained")
    return total, trained


def _adapters(seen: Record, facts: dict[str, object]) -> Iterator[str]:
    """The layers that LoRA adapts, and its ranks."""
    targets = list(seen.get("targets") or ())
    ranks = list(seen.get("ranks") or ())
    if not targets:
        return
    facts["targets"] = targets
    facts["ranks"] = ranks
    shown = "/".join(map(str, ranks[:_NAMES]))
    names = ", ".join(targets)
    yield say("LoRA r{rank} on {names}", rank=shown, names=names)


def _frozen_tables(seen: Record, facts: dict[str, object]) -> Iterator[str]:
    """Embeddings and heads that are not trained."""
    still = list(seen.get("frozen_tables") or ())
    if not still:
        return
    facts["frozen"] = still
    short = [name.rpartition(".")[2] for name in still[:_NAMES]]
    yield say("{names} frozen", names=", ".join(short))
