"""Measures a training program as it is: its first steps, memory by instant, told from outside the program.

    python program.py EVENTS STEPS SCRIPT [ARGUMENTS]

The script is run as it stands, `--steps STEPS` added; torch's global hooks tell when its model is called, when
a backward begins and ends, and when the optimizer has stepped. Every rank writes its events to `EVENTS.RANK`, a
line of JSON each, that `start_measurement` reads.
"""

import functools
import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a file: its folder must not be where `import result` looks
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]
    sys.path.append(str(Path(__file__).resolve().parents[3]))

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
    read_step,
)

Tell = Callable[..., None]
_WRAPPERS = ("module", "_orig_mod")


def main(words: list[str]) -> int:
    """Run the script under the meter; the exit code is its own."""
    events, steps, script, *arguments = words
    rank = os.environ.get("RANK", "0")
    with open(f"{events}.{rank}", "w", encoding="utf-8") as stream:

        def tell(event: str, **fields: Any) -> None:
            stream.write(json.dumps({"event": event, **fields}) + "\n")
            stream.flush()

        sys.argv = [script, *arguments, "--steps", steps]
        sys.path.insert(0, str(Path(script).resolve().parent))
        return _run(script, tell)


def _run(script: str, tell: Tell) -> int:
    tell("reached", what="start")
    watch: ProgramMarks | None = None
    try:
        kind = "cuda" if _cuda() else "cpu"
        before = machines.cards_used() if kind == "cuda" else {}
        tell("machine", **machines.here(kind))
        watch = ProgramMarks(CudaMeter() if kind == "cuda" else CpuMeter(), tell)
        watch.install()
        runpy.run_path(script, run_name="__main__")
        watch.end()
        if kind == "cuda":
            tell("card", **machines.card_reading(before))
        tell("ending", ending="complete", said="")
        return 0
    except Exception as error:  # noqa: BLE001 - anything that a library raises becomes one sentence
        tell("ending", **ending_of(error, watch.meter if watch is not None else None))
        return 1


def _cuda() -> bool:
    """Whether there is a card; then this rank's is the current one, before a meter looks at another."""
    import torch

    if not torch.cuda.is_available():
        return False
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return True


def ending_of(error: BaseException, meter: MemoryMeter | None) -> dict[str, Any]:
    """How a run ended that an error has ended, in the words of the `ending` event."""
    kind = "out of memory" if out_of_memory(error) else "failed"
    return {"ending": kind, "said": _first_line(error), "most": _most(meter)}


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


class ProgramMarks:
    """Marks on the meter as the program trains."""

    def __init__(self, meter: MemoryMeter, tell: Tell) -> None:
        self.meter = meter
        self._tell = tell
        self._marker: Marker | None = None
        self._depth = 0
        self._backward = False
        self._stepped = False
        self._micro = 0
        self._step = 0
        self._begun = time.monotonic()

    def install(self) -> None:
        """Put the hooks into torch."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        modules = torch.nn.modules.module
        modules.register_module_forward_pre_hook(self._enter)
        modules.register_module_forward_hook(self._leave, always_call=True)
        register_optimizer_step_post_hook(self._updated)
        torch.Tensor.backward = self._around(torch.Tensor.backward)

    def _enter(self, module: Any, _inputs: Any) -> None:
        self._depth += 1
        if self._depth == 1 and not self._backward and module.training:
            self._begin(module)

    def _leave(self, module: Any, _inputs: Any, _output: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and not self._backward and module.training and self._marker is not None:
            self._marker.mark(FORWARD)

    def _begin(self, module: Any) -> None:
        """The model is called: the first time with its memory as loaded, later after a step perhaps."""
        if self._marker is None:
            self._loaded()
            self._marker = Marker(_blocks(module), self.meter, self._reached)
        elif self._stepped:
            self._close()
        self._marker.begin(self._micro)
        self._micro += 1

    def _loaded(self) -> None:
        self.meter.mark("load")
        (loaded,) = self.meter.take()
        seconds = time.monotonic() - self._begun
        self._tell("load", bytes=loaded.end, most=loaded.peak, seconds=seconds)
        self._step = 1
        self._tell("reached", what="step 1")

    def _reached(self, name: str) -> None:
        self._tell("reached", what=f"step {self._step}: after {name}")

    def _around(self, original: Any) -> Any:
        @functools.wraps(original)
        def backward(*words: Any, **named: Any) -> Any:
            if self._marker is None or self._backward:
                return original(*words, **named)
            self._backward = True
            self._marker.backward()
            try:
                return original(*words, **named)
            finally:
                self._backward = False
                self._marker.mark(BACKWARD)

        return backward

    def _updated(self, *_: Any) -> None:
        self._stepped = True

    def _close(self) -> None:
        """A step is over: gradients are cleared, the next batch is there."""
        assert self._marker is not None
        self._marker.mark(STEP)
        self._marker.mark(BETWEEN)
        step = read_step(self.meter.take())
        self._tell(
            "step", instants=step.instants, peak=step.peak, static=step.static, scratch=step.scratch,
            seconds=time.monotonic() - self._begun,
        )  # fmt: skip
        self._stepped, self._micro = False, 0
        self._step += 1
        self._tell("reached", what=f"step {self._step}")

    def end(self) -> None:
        """The program is over."""
        if self._stepped:
            self._close()


def _blocks(module: Any) -> list[Any]:
    """The blocks of the model inside whatever wraps it; none where its parts are compiled away."""
    from gpudoctor.estimate.real.build import blocks

    for _ in range(4):
        inner = next((getattr(module, name) for name in _WRAPPERS if hasattr(module, name)), None)
        if inner is None or not hasattr(inner, "parameters"):
            break
        module = inner
    base = module.get_base_model() if hasattr(module, "get_base_model") else module
    if getattr(base, "_compiled_call_impl", None) is not None or getattr(module, "_compiled_call_impl", None):
        return []
    return blocks(base) if hasattr(base, "config") else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
