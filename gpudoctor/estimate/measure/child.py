"""The process that measures: builds the model, makes the steps, tells each event as a line of JSON.

Everything that libraries print goes to standard error; what was reached is told before it is tried, so that
the parent knows it even when the system ends this process.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpudoctor.errors import DoctorError
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.measure import measuring_machine as machines
from gpudoctor.estimate.measure.meters import (
    BACKWARD,
    BETWEEN,
    FORWARD,
    STEP,
    CpuMeter,
    CudaMeter,
    Marker,
    MemoryMeter,
    MeterWindow,
    read_step,
)
from gpudoctor.estimate.shapes import Latent, ModelShape
from gpudoctor.lang import say

Tell = Callable[..., None]


def main() -> int:
    """Read a request from standard input, measure, and tell; the exit code is 0 when an ending was told."""
    with own_stdout() as stream:

        def tell(event: str, **fields: Any) -> None:
            stream.write(json.dumps({"event": event, **fields}) + "\n")
            stream.flush()

        _run(json.load(sys.stdin), tell)
    return 0


@contextmanager
def own_stdout() -> Iterator[Any]:
    """Standard output for our lines alone; what else is printed goes to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(own, "w", encoding="utf-8") as stream:
        yield stream


def _run(request: dict[str, Any], tell: Tell) -> None:
    """Everything, with what ends it told as an event."""
    tell("reached", what="start")
    meter: MemoryMeter | None = None
    try:
        before = machines.cards_used() if request["device"] == "cuda" else {}
        found = machines.here(request["device"])
        tell("machine", **found)
        limit_host_memory(request.get("host_bytes"))
        meter = CudaMeter() if request["device"] == "cuda" else CpuMeter()
        _measure(request, meter, tell)
        if request["device"] == "cuda":
            tell("card", **machines.card_reading(before))
        tell("ending", ending="complete", said="")
    except (DoctorError, ImportError) as error:
        tell("ending", ending="failed", said=str(error))
    except Exception as error:  # noqa: BLE001 - anything that a library raises becomes one sentence
        tell("ending", **ending_of(error, meter))


def ending_of(error: BaseException, meter: MemoryMeter | None) -> dict[str, Any]:
    """How a run ended that an error has ended, in the words of the `ending` event."""
    kind = "out of memory" if out_of_memory(error) else "failed"
    return {"ending": kind, "said": _first_line(error), "most": _most(meter)}


def _measure(request: dict[str, Any], meter: MemoryMeter, tell: Tell) -> None:
    from gpudoctor.estimate.real.build import build

    start = time.monotonic()
    shape, job = shape_of(request["shape"]), TrainingJob(**request["job"])
    tell("reached", what="load")
    built = build(request.get("source") or shape, job, device=request["device"])
    meter.mark("load")
    (loaded,) = meter.take()
    tell("load", bytes=loaded.end, most=loaded.peak, seconds=time.monotonic() - start)
    blocks = built.blocks()
    if not blocks:
        raise DoctorError(say("{name}: the built model has no list of blocks", name=shape.name))
    marker = Marker(blocks, meter, lambda name: tell("reached", what=f"step {step}: after {name}"))
    try:
        for step in range(1, request["steps"] + 1):
            tell("reached", what=f"step {step}")
            _step(built, job, marker)
            tell("step", **_plain(meter.take()), seconds=time.monotonic() - start)
    finally:
        marker.remove()


def _step(built: Any, job: TrainingJob, marker: Marker) -> None:
    """One optimizer step over all its micro batches."""
    for micro in range(job.accumulate):
        marker.begin(micro)
        loss = built.forward()
        marker.mark(FORWARD)
        marker.backward()
        loss.backward()
        del loss
        marker.mark(BACKWARD)
    built.optimizer.step()
    marker.mark(STEP)
    built.optimizer.zero_grad(set_to_none=True)
    marker.mark(BETWEEN)


def _plain(windows: list[MeterWindow]) -> dict[str, Any]:
    step = read_step(windows)
    return {"instants": step.instants, "peak": step.peak, "static": step.static, "scratch": step.scratch}


def shape_of(fields: dict[str, Any]) -> ModelShape:
    """A shape from its JSON."""
    given: dict[str, Any] = {
        key: tuple(_tuples(value)) if isinstance(value, list) else value for key, value in fields.items()
    }
    if given.get("latent") is not None:
        given["latent"] = Latent(**given["latent"])
    return ModelShape(**given)


def _tuples(values: list[Any]) -> list[Any]:
    return [tuple(value) if isinstance(value, list) else value for value in values]


def limit_host_memory(amount: int | None) -> None:
    """Let an allocation fail here before the system has to end processes; Linux counts private mappings."""
    if amount is None or not sys.platform.startswith("linux"):
        return
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (amount, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocator refused: torch's on CUDA, its CPU allocator, or Python's."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(
        text in str(error) for text in ("can't allocate memory", "out of memory", "not enough memory")
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def _most(meter: MemoryMeter | None) -> int | None:
    """The most that was allocated in what did not come to its end."""
    if meter is None:
        return None
    try:
        now = meter.reached()
        meter.mark("interrupted")
        return max([window.peak for window in meter.take()] + ([now] if now is not None else []))
    except Exception:  # noqa: BLE001 - after an allocator's refusal nothing is sure to work
        return None
