"""A user's script, run as it is on fake tensors until its optimizer has made two steps.

What counts as the device's memory: parameters and buffers of modules that are called, what a module is called
with, what is moved to `cuda`, and whatever is computed from these or inside a module, a backward or a step.
Everything else (a dataset's tensors) stays on the host.
"""

import os
import re
import runpy
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gpudoctor.errors import DoctorError, IncompleteError, UsageError
from gpudoctor.estimate.real.config import NEEDS, Pattern
from gpudoctor.estimate.traced.cuda_behaviour import fake_world
from gpudoctor.estimate.traced.extrapolate import depth_of
from gpudoctor.estimate.traced.ledger import TracedWindow
from gpudoctor.estimate.traced.trace_job import numbers_of, traced_of
from gpudoctor.estimate.traced.traced_estimate import Traced
from gpudoctor.estimate.traced.tracker import Tracker, entering, leaving, mark_states
from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import SCRIPT

STEPS = 2
"""Optimizer steps that are followed: the first makes the optimizer's states, the second is like all others."""


_MOST_FILES = 500


class _EnoughError(BaseException):
    """Ends the script when its steps are made; no handler of the script's own catches it."""


class TracedScript:
    """One script under the tracker: what phase it is in, by the calls that it makes."""

    def __init__(self) -> None:
        self.tracker = Tracker(placing=True)
        self.roots: dict[Any, None] = {}
        self.steps: dict[int, int] = {}
        self.backwards = 0
        self.depth = 0
        self.blocks = 0

    @property
    def step(self) -> int:
        """Steps that every optimizer that ever stepped has made."""
        return min(self.steps.values(), default=0)

    def enter_module(self, module: Any, args: Any, kwargs: Any) -> None:
        """A module is called; outside a backward the outermost one is the model."""
        self.depth += 1
        if self.depth > 1 or self.tracker.in_backward:
            return
        if self.step >= STEPS:
            raise _EnoughError
        self._enter("forward")
        if module not in self.roots:
            self.roots[module] = None
            self._meet(module)
        for tensor in _tensors((args, kwargs)):
            self.tracker.claim(tensor, "batch")

    def leave_module(self) -> None:
        """A module returned, or raised."""
        self.depth -= 1
        if not self.depth and not self.tracker.in_backward and self.tracker.window.phase == "forward":
            self._enter("loss")

    @contextmanager
    def backward(self) -> Iterator[None]:
        """A backward; the next forward belongs to another micro batch."""
        if not self.tracker.in_backward and not self.depth:
            self.tracker.enter("loss-backward")
            self.backwards += 1
        with self.tracker.backward():
            yield

    def before_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """An optimizer steps."""
        self.tracker.enter("step")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.tracker.claim(parameter, "weights")

    def after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """It has its states now."""
        mark_states(self.tracker, optimizer)
        self.steps[id(optimizer)] = self.steps.get(id(optimizer), 0) + 1
        self.backwards = 0

    def _enter(self, phase: str) -> None:
        if phase == "forward" and not self.backwards:  # what is there between two steps
            self.tracker.ledger.enter(TracedWindow("idle", -1, self.step, 0))
        self.tracker.window = TracedWindow(phase, -1, self.step, min(self.backwards, 1))
        self.tracker.ledger.enter(self.tracker.window)

    def _meet(self, module: Any) -> None:
        """A model that is called for the first time: its weights, its gradients, its blocks."""
        tracker = self.tracker
        for name, parameter in module.named_parameters():
            adapter = "lora_" in name and parameter.requires_grad
            tracker.claim(parameter, "adapters" if adapter else "weights")
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(lambda each: tracker.mark(each.grad, "gradients"))
        for buffer in module.buffers():
            tracker.claim(buffer, "weights")
        found = _blocks(module)
        for at, block in enumerate(found):
            block.register_forward_pre_hook(entering(tracker, self.blocks + at), with_kwargs=True)
            block.register_forward_hook(leaving(tracker, self.blocks + at, last=at == len(found) - 1))
        self.blocks += len(found)


def trace_script(path: str, arguments: list[str], workspace: int) -> Traced:
    """The memory of a script's training, by its own code. `workspace`: bytes of cuBLAS' workspace.

    Raises `UsageError` where the script makes no optimizer step, or stops before its first one with an error.
    """
    _import_libraries(path)
    start = time.perf_counter()
    run = TracedScript()
    with fake_world():
        failed = _execute(run, path, arguments)
        notes = _notes(run, path, failed)
        pattern = Pattern(layers=max(run.blocks, 1), prefix=0, period=1)
        parameters = sum(each.numel() for each in {each: None for root in run.roots for each in root.parameters()})
        numbers = numbers_of(run.tracker.ledger, parameters)
        found = depth_of(run.tracker.ledger, pattern, pattern.layers, numbers)
    seconds = time.perf_counter() - start
    return traced_of([found], pattern, workspace, seconds, notes)


_FAMILY = re.compile(rb"^\s*(?:from|import)\s+(?:transformers|peft|trl|accelerate|unsloth)\b", re.MULTILINE)


def _import_libraries(path: str) -> None:
    """Import what has to be there before the world is faked: torch, and transformers where a file of the
    script's folder imports it, which takes seconds."""
    try:
        import torch
        import torch._dynamo  # noqa: F401 - would make tensors of its own inside the fake world

        folder = Path(path).resolve().parent  # the script, and the files beside and one folder below it
        files = [*folder.glob("*.py"), *folder.glob("*/*.py")][:_MOST_FILES]
        if any(_FAMILY.search(read_file(each, SCRIPT)) for each in [Path(path), *filter(Path.is_file, files)]):
            import peft  # noqa: F401
            import transformers.modeling_utils
            import transformers.models.auto.modeling_auto  # noqa: F401
    except ImportError:
        if "torch" not in sys.modules:
            raise IncompleteError(NEEDS) from None


def _notes(run: TracedScript, path: str, failed: BaseException | None) -> tuple[str, ...]:
    """What is to be said of how the script ended; raises where there is nothing to tell."""
    words = "" if failed is None else " ".join(f"{type(failed).__name__}: {failed}".split())[:300]
    if not run.step:
        if isinstance(failed, DoctorError):
            raise failed
        reached = "its first optimizer step" if run.roots else "its model's first forward"
        why = f"it stopped before {reached}: {words}" if words else "it ended without an optimizer step"
        raise UsageError("{path}: {why}; --trace runs it without a GPU, weights or network", path=path, why=why)
    notes = [
        "SDPA is taken to choose flash-attention where no mask is needed, as on Ampere and later",
        "values are not computed: the script sees zeros and ones if it reads values of tensors",
    ]
    if run.step < STEPS:
        notes.append("it made one optimizer step only, in which the optimizer's states are made")
    if words:
        notes.append(f"it stopped after its optimizer step: {words}")
    return tuple(notes)


def _execute(run: TracedScript, path: str, arguments: list[str]) -> BaseException | None:
    """Run the script; what ended it early, if anything did."""
    from gpudoctor.estimate.traced.fake_gpu import script_world

    folder = os.path.dirname(os.path.abspath(path))
    argv, sys.argv = sys.argv, [path, *arguments]
    sys.path.insert(0, folder)
    try:
        with script_world(run.tracker, folder), _hooks(run), run.tracker.watching():
            runpy.run_path(path, run_name="__main__")
    except _EnoughError:
        return None
    except SystemExit as error:
        return None if error.code in {None, 0} else error
    except Exception as error:  # noqa: BLE001 - a user's code may raise anything
        return error
    finally:
        sys.argv = argv
        sys.path.remove(folder)
    return None


@contextmanager
def _hooks(run: TracedScript) -> Iterator[None]:
    """The run hears of every module, backward and optimizer step."""
    import torch
    from torch.optim import optimizer as optimizers

    engine, call = torch.autograd._engine_run_backward, torch.nn.Module.__call__

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        with run.backward():
            return engine(*args, **kwargs)

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        run.enter_module(self, args, kwargs)
        try:
            return call(self, *args, **kwargs)
        finally:
            run.leave_module()

    handles = [
        optimizers.register_optimizer_step_pre_hook(run.before_step),
        optimizers.register_optimizer_step_post_hook(run.after_step),
    ]
    with (
        patch.object(torch.autograd, "_engine_run_backward", run_backward),
        patch.object(torch.nn.Module, "__call__", called),
    ):
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _tensors(given: Any) -> Iterator[Any]:
    """Tensors in what a module is called with."""
    import torch

    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, dict):
        for each in given.values():
            yield from _tensors(each)
    elif isinstance(given, list | tuple):
        for each in given:
            yield from _tensors(each)


def _blocks(model: Any) -> list[Any]:
    """Blocks of a model that is not known: the outermost rows of modules of one class, two or more."""
    import torch

    rows: list[tuple[str, Any]] = []
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.ModuleList | torch.nn.Sequential) or len(module) < 2:
            continue
        alike = len({type(each) for each in module}) == 1 and bool(list(module[0].children()))
        if alike and not any(name.startswith(f"{outer}.") for outer, _ in rows):
            rows.append((name, module))
    return [block for _, row in rows for block in row]
