"""Gradients, optimizer state, the temporaries of a step, and the gradients that come last in the backward."""

from gpudoctor.estimate.analytic.layout import Layout
from gpudoctor.estimate.analytic.state import Group, groups
from gpudoctor.estimate.job import IN_BACKWARD
from gpudoctor.estimate.result import Line, line

_MOMENTS = {
    "adamw": 2, "adamw-foreach": 2, "adamw-fused": 2, "paged-adamw": 2, "in-backward": 2, "muon": 1,
    "sgd-momentum": 1, "lion": 1,
}  # fmt: skip
"""States in the parameter's own type."""
_FEW_BITS = {
    "adamw-8bit": 2 * (1 + 4 / 256), "paged-adamw-8bit": 2 * (1 + 4 / 256), "adamw-ao-8bit": 2 * (1 + 4 / 256),
    "adamw-ao-4bit": 2 * (0.5 + 4 / 128), "lion-8bit": 1 + 4 / 256, "in-backward-8bit": 2 * (1 + 4 / 256),
}  # fmt: skip
"""Bytes per parameter of quantized states: bitsandbytes blocks of 256, torchao blocks of 256 and 128, fp32
scales."""
GALORE = 2 * 4 * 0.25
"""Two fp32 moments at a quarter of the width, the rank that the paper uses for 7B (arXiv 2403.03507)."""


def gradient_lines(layout: Layout, what: str = "gradients") -> list[Line]:
    """All gradients of a step."""
    job = layout.job
    if job.optimizer in IN_BACKWARD:
        block, width = layout.shape.layer_parameters, layout.gradient_bytes
        text = f"{width} B x {block:,} parameters of one layer"
        return [line(what, width * block, text, "the optimizer steps inside the backward")]
    if job.offload != "none" and job.parallel in {"zero1", "zero2", "zero3"}:
        return []
    return [
        line(
            what,
            group.gradient * group.count / group.gradient_shards,
            f"{group.gradient} B x {_of(group, group.gradient_shards)}",
            "tensor count",
        )
        for group in groups(layout)
    ]


def optimizer_lines(layout: Layout) -> list[Line]:
    """Optimizer state."""
    return [] if layout.job.offload != "none" else [line for group in groups(layout) for line in _states(layout, group)]


def _states(layout: Layout, group: Group) -> list[Line]:
    name, n, of = layout.job.optimizer, group.optimizer_shards, _of(group, group.optimizer_shards)
    per: float
    count = group.count
    if layout.master:
        per, text = 12, f"(4 B master + 8 B moments) x {of}"
        source = "mixed precision with fp32 master weights (ZeRO, arXiv 1910.02054)"
    elif name in _FEW_BITS:
        per = _FEW_BITS[name]
        text, source = f"{per:.3f} B x {of}", f"{name}: block-wise states with fp32 scales"
    elif name == "adafactor":
        factors = sum((linear.rows + linear.columns) * linear.count for linear in layout.shape.linears)
        per, count = 4, min(factors, group.count)
        text, source = f"4 B x {count:,} row and column factors", "Adafactor, arXiv 1804.04235"
    elif name == "galore":
        per, text = GALORE, f"{GALORE:g} B x {of}"
        source = "GaLore at a quarter of the width (arXiv 2403.03507)"
    elif name in _MOMENTS:
        per, text = _MOMENTS[name] * group.width, f"{_MOMENTS[name]} x {group.width} B x {of}"
        source = "torch.optim keeps states in the parameter's type"
    else:
        return []
    return [line("optimizer", per * count / n, text, source)]


def step_lines(layout: Layout) -> list[Line]:
    """Temporaries of the optimizer step."""
    if layout.job.offload != "none":
        return []
    return [line for group in groups(layout) for line in _temporaries(layout, group)]


def _temporaries(layout: Layout, group: Group) -> list[Line]:
    name, n, of = layout.job.optimizer, group.optimizer_shards, _of(group, group.optimizer_shards)
    if layout.master:
        source = "deepspeed/runtime/zero: gradients of the partition in fp32"
        return [line("step-temporaries", 4 * group.count / n, f"4 B x {of}", source)]
    if name in {"adamw", "adamw-foreach"}:
        source = "torch.optim._multi_tensor_adamw keeps one square-root list of all parameters"
        return [line("step-temporaries", group.width * group.count / n, f"{group.width} B x {of}", source)]
    if name == "adafactor" and group.count:
        largest = max((linear.rows * linear.columns for linear in layout.shape.linears), default=0)
        text = f"4 B x {largest:,} elements of the largest update"
        return [line("step-temporaries", 4 * largest, text, "one update at a time")]
    return []


def _of(group: Group, shards: int) -> str:
    return f"{group.count:,} {group.what}" + (f" / {shards} GPUs" if shards > 1 else "")


# The end of the backward in full training: gradients of the first block and of the embedding come last.


def end_lines(layout: Layout, live: list[Line], gradients: list[Line]) -> list[Line]:
    """The first block's worst operation (`live`), or the embedding's gradient after it."""
    if not one_by_one(layout):
        return [*gradients, *live]
    width, pending, first = layout.gradient_bytes, _pending(layout), [*gradients, *live]
    if pending:
        there = sum(line.bytes for line in gradients) - width * pending
        text = f"{width} B x {there // width:,} trained parameters, {pending:,} of the first ones not yet"
        first = [line("gradients", there, text, "those gradients come last"), *live]
    last = [*gradients, *embedding_gradient(layout, 2 if layout.shape.tied else 0)]
    return max(first, last, key=lambda lines: sum(line.bytes for line in lines))


def one_by_one(layout: Layout) -> bool:
    """Whether all parameters are trained and their gradients stay whole on each GPU."""
    job = layout.job
    whole = layout.shards == 1 and job.tp == job.pp == job.ep == 1
    kept = job.optimizer not in IN_BACKWARD
    return job.method == "full" and whole and kept and layout.shape.kind == "decoder"


def _pending(layout: Layout) -> int:
    """Parameters without a gradient when the first block's MLP is differentiated: the embedding (a tied one has
    the head's), positions, that block's attention."""
    shape = layout.shape
    attention = shape.layer_parameters - (3 if shape.gated else 2) * shape.hidden * shape.mlp
    if shape.experts or shape.latent is not None or attention < 0:
        attention = 0
    return attention + layout.own.positions + (0 if shape.tied else layout.own.embedding)


def embedding_gradient(layout: Layout, copies: int) -> list[Line]:
    """The embedding's backward: its output's gradient and dense gradients beside those that are counted.

    A tied matrix has the head's gradient, the embedding's and their sum at one time: autograd's engine adds out
    of place (torch 2.13, allocations followed in the profiler).
    """
    width, count, h, t = layout.gradient_bytes, layout.own.embedding, layout.shape.hidden, layout.tokens
    text = f"{layout.residual} B x {h:,} hidden x {t:,} tokens"
    if copies:
        text += f" + {copies} x {width} B x {count:,} weights"
    amount = copies * width * count + layout.residual * h * t
    return [line("embedding-gradient", amount, text, "the embedding's backward makes a dense gradient")]
