"""What the recorder found out about a job: where it ran, in which types, how it was wrapped."""

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LinePlace, place_of
from gpudoctor.model.signs.recording import Process, Record, Recording

HALF = ("float16", "bfloat16", "half", "float8")


def main_model(process: Process) -> Record | None:
    """The model with most parameters; None where none was seen."""
    return max(process.of("model"), key=lambda item: item.get("parameters") or 0, default=None)


@once
def on_gpu(process: Process) -> bool | None:
    """Whether the model stood on a device other than the CPU; None where nobody saw a model."""
    model = main_model(process)
    device = str(model.get("device") or "") if model is not None else ""
    return None if not device else not device.startswith("cpu")


def uses_device(process: Process) -> bool:
    """Whether work was given to a device: its model stood on one."""
    return on_gpu(process) is True


def on_cuda(process: Process) -> bool:
    """Whether the model stood on a CUDA device: what tensor cores and TF32 can do is said of no other."""
    model = main_model(process)
    return model is not None and str(model.get("device") or "").startswith("cuda")


def torch_fact(process: Process, name: str) -> object:
    """A field of the last `torch` record that has it; None where none does."""
    return next((item.get(name) for item in reversed(process.of("torch")) if item.get(name) is not None), None)


def lowered(process: Process) -> bool | None:
    """Whether the model computes in 16 bits or less, by its own type or by autocast; None where not known."""
    model = main_model(process)
    if model is None:
        return None
    kinds = model.get("dtypes") or {}
    half = any(str(kind).startswith(HALF) for kind in kinds)
    cast = torch_fact(process, "autocast")
    return half or (cast is not None and str(cast).replace("torch.", "").startswith(HALF))


def capability(process: Process) -> float | None:
    """Compute capability as a number, 8.6; None where not known."""
    value = torch_fact(process, "capability")
    if isinstance(value, list | tuple) and len(value) == 2:
        return float(value[0]) + float(value[1]) / 10
    return None


def compiled(process: Process) -> bool:
    """Whether any model is compiled, or anything was compiled in the steps."""
    return any(item.get("compiled") for item in process.of("model")) or bool(process.of("compile"))


def replayed(process: Process) -> bool:
    """Whether whole steps, with the optimizer's, are replays of a device's graph."""
    return any(item.get("kind") == "replay" for item in process.of("compile"))


def wrapped(process: Process, *names: str) -> Record | None:
    """The model that is wrapped so (`DDP`, `FSDP`, `DataParallel`)."""
    return next((item for item in process.of("model") if item.get("wrapped") in names), None)


def model_place(process: Process) -> LinePlace | None:
    """Where the model was made or called."""
    model = main_model(process)
    return place_of(model) if model is not None else None


def gpus_here(recording: Recording) -> int:
    """GPUs that the command could see on the first node."""
    found = recording.machine_facts.get("gpus")
    return len(found) if isinstance(found, list | tuple) else 0
