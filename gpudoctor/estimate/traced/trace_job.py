"""Trace a job: build it on fake tensors at two depths, run two steps, extrapolate."""

import math
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from gpudoctor.errors import IncompleteError
from gpudoctor.estimate.analytic.state import WORKSPACE
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.real.build import BuiltJob, build, refuse
from gpudoctor.estimate.real.config import NEEDS, Pattern, Source, hf_config, layer_pattern
from gpudoctor.estimate.result import Instant, Line, line
from gpudoctor.estimate.traced.cuda_behaviour import fake_world
from gpudoctor.estimate.traced.extrapolate import Depth, Grown, Role, depth_of, grow, whole
from gpudoctor.estimate.traced.ledger import Ledger, rounded
from gpudoctor.estimate.traced.traced_estimate import Traced
from gpudoctor.estimate.traced.tracker import Tracker, mark_model, run_steps
from gpudoctor.model import Provenance

TITLES = {
    "load": "loading the model", "forward": "the forward of a block", "loss": "the loss",
    "layer": "the backward of the last block", "backward": "the end of the backward",
    "accumulation": "a later micro batch, with gradients of earlier ones", "step": "the optimizer step",
}  # fmt: skip
WEIGHTS = ("weights", "adapters")


def follow(built_by: Any) -> tuple[Ledger, BuiltJob]:
    """Build a job by a function without arguments and run two steps of it under a tracker."""
    tracker = Tracker()
    with tracker.watching():
        built = built_by()
    mark_model(tracker, built)
    run_steps(tracker, built)
    return tracker.ledger, built


def trace(source: Source, job: TrainingJob, *, workspace: int = WORKSPACE) -> Traced:
    """The memory of a job by its own code. `workspace`: bytes of cuBLAS' workspace, two of which are alive.

    Raises `UsageError` for what cannot be built and `IncompleteError` without torch.
    """
    refuse(job)
    _import()
    start = time.perf_counter()
    config = hf_config(source)
    pattern = _pattern(config, job)
    shown = replace(job, accumulate=min(job.accumulate, 2))
    found = [_at_depth(source, shown, pattern, layers) for layers in pattern.depths()]
    return traced_of(found, pattern, workspace, time.perf_counter() - start, _notes(job))


def _import() -> None:
    """Import what a trace needs, so that its time is the trace's own."""
    try:
        import peft  # noqa: F401
        import torch  # noqa: F401
        import transformers.models.auto.modeling_auto  # noqa: F401
    except ImportError:
        raise IncompleteError(NEEDS) from None


def _pattern(config: Any, job: TrainingJob) -> Pattern:
    pattern = layer_pattern(config)
    if job.checkpointing == "none" or job.checkpoint_every == 1:
        return pattern
    return replace(pattern, period=min(math.lcm(pattern.period, job.checkpoint_every), pattern.layers))


def _at_depth(source: Source, job: TrainingJob, pattern: Pattern, layers: int) -> Depth:
    with fake_world():
        ledger, built = follow(lambda: build(source, job, layers=layers))
        parameters = sum(each.numel() for each in built.model.parameters())
        return depth_of(ledger, pattern, layers, numbers_of(ledger, parameters))


def numbers_of(ledger: Ledger, parameters: int) -> dict[str, int]:
    """What else grows with the blocks: parameters, weights and adapters in bytes."""
    held = ledger.alive_at(len(ledger.events))
    kinds = {kind: sum(rounded(each.bytes) for each in held if each.kind == kind) for kind in WEIGHTS}
    return {"parameters": parameters} | kinds


def traced_of(found: list[Depth], pattern: Pattern, workspace: int, seconds: float, notes: tuple[str, ...]) -> Traced:
    """The whole model's memory from what was followed at some depths."""
    depths = tuple(found)
    windows = whole(depths, pattern)
    low, high = depths[0], depths[-1]
    groups = (pattern.layers - low.layers) // pattern.period if high is not low else 0
    numbers = {name: grow(value, high.scalars[name], groups) for name, value in low.scalars.items()}
    text = f"2 x {workspace:,} B (cuBLAS, one per thread and stream)"
    extra = line("workspace", 2 * workspace, text, "aten/src/ATen/cuda/CublasHandlePool.cpp")
    instants = [_instant("load", {kind: numbers[kind] for kind in WEIGHTS}, low.layers, [])]
    for name, roles in _instants(windows, pattern.period).items():
        worst = max(roles, key=lambda role: sum(each.bytes for each in windows[role].values()))
        instants.append(_instant(name, windows[worst], low.layers, [extra]))
    idle = next(kinds for (phase, *_), kinds in windows.items() if phase == "idle")
    return Traced(
        instants=tuple(instants), static=sum(each.bytes for each in idle.values()) + extra.bytes,
        parameters=numbers["parameters"].bytes, layers=pattern.layers,
        depths=tuple(each.layers for each in depths), seconds=seconds,
        libraries=libraries(), notes=notes,
    )  # fmt: skip


def _instants(windows: dict[Role, Any], period: int) -> dict[str, list[Role]]:
    """Windows by the instant that they belong to, in the order of a step."""
    found: dict[str, list[Role]] = {name: [] for name in list(TITLES)[1:]}
    for role in windows:
        phase, end, _, place, micro = role
        if phase == "idle":
            continue
        if phase == "step":
            found["step"].append(role)
        elif micro:
            found["accumulation"].append(role)
        elif phase == "backward" and end == "last" and place < period:
            found["layer"].append(role)
        elif phase in {"backward", "tail"}:
            found["backward"].append(role)
        else:
            found["forward" if phase == "forward" else "loss"].append(role)
    return {name: roles for name, roles in found.items() if roles}


def _instant(name: str, kinds: dict[str, Grown], layers: int, extra: list[Line]) -> Instant:
    versions = libraries()
    source = f"transformers {versions.get('transformers', '?')} on torch {versions.get('torch', '?')}, fake tensors"
    lines = [
        Line(
            kind=kind, bytes=max(each.bytes, 0), formula=_formula(each, layers), source=source,
            provenance=Provenance.TRACED,
        )
        for kind, each in sorted(kinds.items(), key=lambda pair: -pair[1].bytes) if each.bytes > 0
    ]  # fmt: skip
    return Instant(name=name, title=TITLES[name], lines=(*lines, *extra))


def _formula(each: Grown, layers: int) -> str:
    if not each.groups:
        return f"{each.bytes:,} B followed"
    if not each.slope:
        return f"{each.base:,} B followed at {layers} blocks, the same at any depth"
    return f"{each.base:,} B followed at {layers} blocks + {each.groups} x {each.slope:,} B more a group"


@cache
def libraries() -> dict[str, str]:
    """Versions of what was traced."""
    from importlib import metadata

    found = {}
    for name in ("torch", "transformers", "peft"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _notes(job: TrainingJob) -> tuple[str, ...]:
    notes = []
    if job.attention == "sdpa":
        notes.append("SDPA is taken to choose flash-attention where no mask is needed, as on Ampere and later")
    if job.quantized:
        notes.append("bitsandbytes has no kernels for fake tensors: replacements keep and allocate what its layers do")
    if job.optimizer not in {"adamw", "adamw-foreach", "adamw-fused", "sgd", "sgd-momentum", "adafactor"}:
        notes.append(f"{job.optimizer} is a stand-in with states of its size and no temporaries")
    return tuple(notes)
