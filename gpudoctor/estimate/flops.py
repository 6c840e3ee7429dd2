"""Model FLOPs of a training step: what model FLOPs utilisation (MFU) is counted with.

A product of [m, k] and [k, n] is 2 m k n operations. The backward of a weight takes as many for its input's
gradient and as many again for its own where it is trained. Attention counts all pairs of tokens, masked ones
too, as in PaLM's appendix B (arXiv 2204.02311). What checkpointing computes again is no work of the model and
is not counted; norms, activations, softmax and the optimizer are left out, as everywhere.
"""

from dataclasses import dataclass

from gpudoctor.estimate.analytic.layout import adapted
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.shapes import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFlops:
    """Operations of one optimizer step on one GPU."""

    forward: float
    """Operations of all forwards."""
    backward: float
    """Operations of all backwards, recomputation left out."""
    tokens: int
    """Tokens (for images: patches) that go through the model."""

    @property
    def total(self) -> float:
        """Both together."""
        return self.forward + self.backward


def step_work(shape: ModelShape, job: TrainingJob) -> StepFlops:
    """The operations of one step of a checked training job on one GPU, all its micro batches together."""
    each = shape.max_positions if shape.kind == "vision" else job.seq
    rows = job.batch * job.accumulate
    tokens = rows * each
    body = 2.0 * tokens * _active(shape)
    scores = float(rows) * _attention(shape, each)
    ends = _ends(shape, rows, tokens)
    if job.adapted:
        low = _adapters(shape, job, tokens)
        whole = ends if job.train_embeddings else 0.0
        backward = body + 2 * scores + ends + whole + 2 * low - _first(shape, job, tokens)
        return StepFlops(forward=body + scores + ends + low, backward=backward, tokens=tokens)
    share = _trained_share(shape, job)
    head = 1 if job.method == "freeze" and shape.tied else 2  # a tied head is frozen with the embedding
    backward = 2 * share * (body + scores) + head * ends
    return StepFlops(forward=body + scores + ends, backward=backward, tokens=tokens)


def _adapters(shape: ModelShape, job: TrainingJob, tokens: int) -> float:
    """The two products of every adapter."""
    return 2.0 * tokens * job.lora_rank * sum((one.rows + one.columns) * one.count for one in adapted(shape, job))


def _first(shape: ModelShape, job: TrainingJob, tokens: int) -> float:
    """What the backward spares: nothing below the first block is trained, so its input wants no gradient."""
    if job.train_embeddings:
        return 0.0
    roles = {"q", "k", "v", "qkv", "q_a", "kv_a"}
    if shape.block_norms == 1 or shape.family == "gpt_neox":  # the MLP stands beside attention
        roles |= {"gate", "up", "gate_up"}
    base = sum(one.rows * one.columns for one in shape.linears if one.role in roles)
    low = sum(one.columns * job.lora_rank for one in adapted(shape, job) if one.role in roles)
    return 2.0 * tokens * (base + low)


def _active(shape: ModelShape) -> float:
    """Weights of the body that a token meets: all linears, of routed experts those it is sent to."""
    sent = shape.top_k / shape.experts if shape.experts else 1.0
    return sum(one.weights * (sent if one.expert else 1.0) for one in shape.linears) + shape.extra_linear


def _attention(shape: ModelShape, tokens: int) -> float:
    """Scores times values of one row of tokens, all blocks: 2 s^2 of the queries' width, and of the values'."""
    latent = shape.latent
    values = shape.heads * latent.value if latent is not None else shape.q_width
    pair = 2.0 * (shape.q_width + values)
    window = min(tokens, shape.window) if shape.window else tokens
    keys = shape.window_share * window + (1 - shape.window_share) * tokens if shape.window else tokens
    times = 3 if shape.kind == "encoder-decoder" else 1  # encoder, decoder, and the decoder on the encoder
    return times * shape.layers * pair * tokens * keys


def _ends(shape: ModelShape, rows: int, tokens: int) -> float:
    """The output matrix; an image has one prediction, and patches that are made by a product."""
    if shape.kind != "vision":
        return 2.0 * tokens * shape.vocab * shape.hidden
    patches = dict(shape.extras).get("patch convolution", 0)
    return 2.0 * tokens * patches + 2.0 * rows * shape.vocab * shape.hidden


def _trained_share(shape: ModelShape, job: TrainingJob) -> float:
    """Share of the blocks that a backward goes through."""
    if job.method != "freeze":
        return 1.0
    frozen = max(shape.blocks - 2, 0) if job.freeze_layers is None else job.freeze_layers
    return (shape.blocks - frozen) / shape.blocks
