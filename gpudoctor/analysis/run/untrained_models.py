"""Models that run with gradients and that no optimizer steps: teachers, and models that were forgotten."""

from gpudoctor.analysis.run.curves import newest, numerics
from gpudoctor.model.signs.recording import Process, Record


def forgotten(process: Process, least: float) -> list[Record]:
    """Those that gradients reach, beside two optimizers that hold the same parameters: one was meant for them."""
    if swapped(process, least):
        return []
    return [item for item in _bystanders(process, least) if _instead(process, item)]


def teachers(process: Process, least: float) -> list[Record]:
    """The others."""
    if swapped(process, least):
        return []
    return [item for item in _bystanders(process, least) if not _instead(process, item)]


def swapped(process: Process, least: float) -> list[Record]:
    """The models that get gradients and are in no optimizer, where nothing that an optimizer holds gets one.

    A teacher stands beside a student that learns; here the optimizer was made over another model than the one
    that is trained: an old copy, a target network.
    """
    made = process.of("optimizer")
    held = sum(int(item.get("parameters") or 0) for item in made)
    readings = [item for item in numerics(process, "dead") if int(item.get("steps") or 0) >= least]
    last = readings[-1] if readings else None
    if last is None or not held or int(last.get("elements") or 0) < held:
        return []
    if not set(map(str, last.get("none") or ())) >= set(map(str, last.get("parameters") or ())):
        return []
    if not any(item.get("missing") for item in made):
        return []
    newest = {(item.get("path"), item.get("line")): item for item in _bystanders(process, least)}
    return [item for item in newest.values() if item.get("reached") is True]


def missing(process: Process) -> set[str]:
    """Trainable parameters that no optimizer holds, by name (the recorder names the first 64 of each)."""
    held = [set(map(str, item.get("missing") or ())) for item in process.of("optimizer")]
    return set.intersection(*held) if held else set()


def unheld(process: Process) -> set[str]:
    """Parameters of the one model that the one optimizer does not hold, although it holds as many elements.

    It then steps other tensors than the model's. One that holds fewer was made for a part of the model. Of weights in
    half precision, it may step copies in float32 that the program writes back.
    """
    models, optimizers = process.of("model"), process.of("optimizer")
    if len(models) != 1 or len(optimizers) != 1:
        return set()
    own, whole = int(optimizers[0].get("parameters") or 0), int(models[0].get("trainable") or 0)
    halves = {"bfloat16", "float16"} >= set(models[0].get("dtypes") or {"float32"})
    return missing(process) if own >= whole > 0 and not halves else set()


def _bystanders(process: Process, least: float) -> list[Record]:
    return [
        item
        for item in newest(process, "mode")
        if item.get("kind_of") == "teacher-grad" and int(item.get("steps") or 0) >= least
    ]


def _instead(process: Process, item: Record) -> bool:
    """Whether an optimizer got another one's parameters instead of those of this model, which trains."""
    trains = item.get("reached") is True and item.get("training") is not False
    return trains and any(made.get("twin") and made.get("missing_count") for made in process.of("optimizer"))
