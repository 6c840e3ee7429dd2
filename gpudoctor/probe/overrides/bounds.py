"""`trial.*`: the end of a bounded run, equal seeds, and random numbers that an evaluation does not move."""

from __future__ import annotations

import os
import random
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from . import wrap

if TYPE_CHECKING:
    from . import Trial

ENOUGH, DONE = "enough", "done"
"""Files of the recording's folder: the parent has seen enough; a rank has written all and stands still."""
_LOOK = 0.2
"""Seconds between two looks for the first."""


def apply(trial: Trial, detail: str, value: Any) -> None:
    """`steps` (None: until the parent says so), `seed`, `isolate`, `fences` (numbers of steps)."""
    probe = trial.probe
    if detail == "steps":
        _end(trial, value)
    elif detail == "seed":  # equal random numbers in every run, as long as the program does not seed by itself
        value = int(value) + (probe.identity.rank or 0)
        random.seed(value)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(value)
        trial.torch.manual_seed(value)
    elif detail == "isolate" and value:
        Isolation(trial).install()
    elif detail == "fences":

        def ends() -> None:
            if probe.device_clock.finish():
                trial.reached("trial.fences")

        # Before each of these steps the device has done what came before: the wait is the end of the last one.
        probe.steps.fences = frozenset(int(step) for step in value)
        probe.steps.fence = probe.guard.safely("fences", ends)


def _end(trial: Trial, steps: int | None) -> None:
    """End the window: what was recorded is written, and this process waits to be ended with all others.

    It does not end by itself: what started it (a shell script) would go on with its next line.
    """
    probe, identity = trial.probe, trial.probe.identity
    looked = time.perf_counter()

    def stepped() -> None:
        nonlocal looked
        now = time.perf_counter()
        enough = steps is not None and probe.steps.index >= steps
        if not enough and now - looked >= _LOOK:
            looked = now
            enough = os.path.exists(os.path.join(identity.folder, ENOUGH))
        if enough:
            stand_still()

    def stand_still() -> None:
        probe.end()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        with open(os.path.join(identity.folder, f"{DONE}-{identity.label}-{identity.pid}"), "w", encoding="utf-8"):
            pass
        while True:
            try:
                time.sleep(3600)
            except BaseException:  # the parent's SIGKILL ends this, nothing else
                continue

    probe.steps.after.append(stepped)


# Random numbers that evaluations do not move: an evaluation that runs less often leaves the training as it
# was.
#
# `model.eval()` and a second loader's `iter` draw the curtain: the states of all generators are kept, and put
# back when training goes on (`model.train()`, a batch of the training loader, a backward pass). Both arms of a
# trial do so, so their losses can be compared.


class Isolation:
    """Keeps and restores the states of the random generators."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._torch = trial.torch
        self._kept: tuple[Any, ...] | None = None

    def install(self) -> None:
        """Hook the signs of an evaluation's begin and end."""
        torch = self._torch
        dataloader: Any = sys.modules["torch.utils.data.dataloader"]
        for owner, name, work in (
            (torch.nn.Module, "eval", self._evaluates),
            (torch.nn.Module, "train", self._trains),
            (torch.autograd, "backward", lambda *_, **__: self._restore()),
            (dataloader.DataLoader, "__iter__", self._iterates),
            (dataloader._BaseDataLoaderIter, "__next__", self._draws),
        ):
            wrap(owner, name, partial(_preceded, work))

    def _evaluates(self, module: Any) -> None:
        if module.training:
            self._keep()

    def _trains(self, module: Any, mode: bool = True) -> None:
        if mode and not module.training:
            self._restore()
        elif not mode and module.training:
            self._keep()

    def _iterates(self, loader: Any) -> None:
        steps, loaders = self._trial.probe.steps, self._trial.probe.loaders
        # Before the first step any loader may become the training one.
        if steps.index and loaders is not None and loaders.of(loader).role != "training":
            self._keep()

    def _draws(self, iterator: Any) -> None:
        loaders = self._trial.probe.loaders
        if self._kept is not None and loaders is not None:
            entry = loaders.iterating.get(iterator)
            if entry is not None and entry.role == "training":
                self._restore()

    def _keep(self) -> None:
        if self._kept is not None or not self._trial.probe.steps.index:
            return
        torch = self._torch
        numpy = sys.modules.get("numpy")
        numbers = numpy.random.get_state() if numpy is not None else None
        device = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._kept = torch.get_rng_state(), random.getstate(), numbers, device

    def _restore(self) -> None:
        if self._kept is None:
            return
        state, python, numbers, device = self._kept
        self._kept = None
        self._torch.set_rng_state(state)
        random.setstate(python)
        numpy = sys.modules.get("numpy")
        if numpy is not None and numbers is not None:
            numpy.random.set_state(numbers)
        if device is not None:
            self._torch.cuda.set_rng_state_all(device)


def _preceded(before: Any, original: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        before(*args, **kwargs)
        return original(*args, **kwargs)

    return call
