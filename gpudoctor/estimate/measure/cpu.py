"""What an estimate, which is of a GPU, is on the CPU: each difference named, with its reason and source."""

from dataclasses import dataclass, replace

from gpudoctor.estimate.analytic.layout import SIZE, adapted, lay_out
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Estimate, Instant, Line
from gpudoctor.estimate.shapes import Linear, ModelShape
from gpudoctor.estimate.tables import read_table
from gpudoctor.lang import say


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuDifference:
    """One thing that the CPU does otherwise."""

    kind: str
    """The line that it changes."""
    why: str
    """What is otherwise, in a clause."""
    source: str
    """Where that was read."""


_TABLE = read_table("cpu.json")
DIFFERENCES = tuple(CpuDifference(**row) for row in _TABLE["differences"])
"""Everything that is computed otherwise for the CPU; nothing else is changed."""
ONE_BY_ONE = CpuDifference(**_TABLE["one_by_one"])
"""What takes the place of the second where nobody tells AdamW foreach=True."""
UNPACKED = CpuDifference(**_TABLE["unpacked"])
"""What bitsandbytes itself does on the CPU with 8 bits."""

_COUNTED = frozenset({"adamw", "adamw-foreach", "adamw-fused"})
"""Optimizers that keep a step count for each parameter."""


def on_cpu(estimate: Estimate, *, foreach: bool = True) -> Estimate:
    """The same estimate with what the CPU does otherwise: its instants, peak and static state; the card's
    reading stays a GPU's. `foreach` is whether AdamW is told so, as on a GPU it tells itself."""
    changed = tuple(_instant(instant, estimate) for instant in estimate.instants)
    if not foreach and estimate.job.optimizer == "adamw" and not lay_out(estimate.shape, estimate.job).master:
        changed = tuple(_one_by_one(instant, estimate) for instant in changed)
    peak = max(changed, key=lambda instant: instant.bytes)
    lost = sum(line.bytes for line in estimate.peak.lines if line.kind == "workspace")
    static = estimate.static - lost + _counters(estimate).bytes
    return replace(estimate, instants=changed, peak=peak, static=static)


def _instant(instant: Instant, estimate: Estimate) -> Instant:
    lines = [line for line in instant.lines if line.kind != "workspace"]
    counters = _counters(estimate)
    if instant.name != "load" and counters.bytes:
        lines.append(counters)
    return replace(instant, lines=tuple(lines))


def _one_by_one(instant: Instant, estimate: Estimate) -> Instant:
    """Temporaries of AdamW's plain loop in place of a list of all roots."""
    old = [line for line in instant.lines if line.kind == "step-temporaries"]
    if not old:
        return instant
    largest, width = _largest(estimate.shape, estimate.job)
    line = Line(
        kind="step-temporaries",
        bytes=2 * width * largest,
        source=ONE_BY_ONE.source,
        formula=say("2 x {width} B x {largest:,} elements of the largest trained tensor", width=width, largest=largest),
    )
    return replace(instant, lines=(*(each for each in instant.lines if each not in old), line))


def _largest(shape: ModelShape, job: TrainingJob) -> tuple[int, int]:
    """Elements of the largest trained tensor, and bytes of one."""
    if job.adapted:
        sides = [max(linear.rows, linear.columns) * job.lora_rank for linear in adapted(shape, job)]
        if job.train_embeddings:
            return shape.vocab * shape.hidden, SIZE[job.dtype]
        return max(sides, default=0), SIZE[job.lora_dtype]
    body = max((_tensor(shape, linear) for linear in shape.linears), default=0)
    ends = 0 if shape.kind == "vision" else shape.vocab * shape.hidden
    if job.method == "freeze" and shape.tied:
        ends = 0
    return max(body, ends), SIZE[job.dtype]


def _tensor(shape: ModelShape, linear: Linear) -> int:
    """Elements of one parameter: routed experts of a layer lie in one (transformers 5)."""
    return linear.rows * linear.columns * (shape.experts if linear.expert else 1)


def _counters(estimate: Estimate) -> Line:
    count = trained_tensors(estimate.shape, estimate.job) if estimate.job.optimizer in _COUNTED else 0
    source = next(each.source for each in DIFFERENCES if each.kind == "step-counters")
    return Line(
        kind="step-counters",
        bytes=4 * count,
        formula=say("4 B x {count:,} trained tensors", count=count),
        source=source,
    )


def trained_tensors(shape: ModelShape, job: TrainingJob) -> int:
    """How many parameters are trained, as tensors: each has its own step count. Approximate for families with
    parts of their own; four bytes each."""
    if job.adapted:
        return 2 * sum(linear.count for linear in adapted(shape, job))
    norms = shape.block_norms * shape.blocks + int(shape.final_norm)
    matrices = sum(linear.count * (1 + linear.bias) for linear in shape.linears if not linear.expert)
    return matrices + norms + 1 + (0 if shape.tied else 1)
