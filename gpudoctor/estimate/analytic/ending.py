"""The end of the backward in full training: gradients of the first block and of the embedding come last."""

from gpudoctor.estimate.analytic import optimizer as optim
from gpudoctor.estimate.analytic.layout import Layout
from gpudoctor.estimate.result import Line


def end_lines(layout: Layout, live: list[Line], gradients: list[Line]) -> list[Line]:
    """The first block's worst operation (`live`), or the embedding's gradient after it."""
    if not one_by_one(layout):
        return [*gradients, *live]
    width, pending, first = layout.gradient_bytes, _pending(layout), [*gradients, *live]
    if pending:
        there = sum(line.bytes for line in gradients) - width * pending
        text = f"{width} B x {there // width:,} trained parameters, {pending:,} of the first ones not yet"
        first = [_line("gradients", there, text, "those gradients come last"), *live]
    last = [*gradients, *embedding_gradient(layout, 2 if layout.shape.tied else 0)]
    return max(first, last, key=lambda lines: sum(line.bytes for line in lines))


def one_by_one(layout: Layout) -> bool:
    """Whether all parameters are trained and their gradients stay whole on each GPU."""
    job = layout.job
    whole = layout.shards == 1 and job.tp == job.pp == job.ep == 1
    kept = job.optimizer not in optim.IN_BACKWARD
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
    return [_line("embedding-gradient", amount, text, "the embedding's backward makes a dense gradient")]


def _line(kind: str, amount: float, formula: str, source: str) -> Line:
    return Line(kind=kind, bytes=round(amount), formula=formula, source=source)
