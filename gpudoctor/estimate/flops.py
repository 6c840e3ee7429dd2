"""Model FLOPs of a training step: what model FLOPs utilisation (MFU) is counted with.

A product of [m, k] and [k, n] is 2 m k n operations. The backward of a weight takes as many for its input's
gradient and as many again for its own where it is trained. Attention counts all pairs of tokens, masked ones
too, as in PaLM's appendix B (arXiv 2204.02311). What checkpointing computes again is no work of the model and
is not counted; norms, activations, softmax and the optimizer are left out, as everywhere.
"""

from gpudoctor.estimate.analytic.layout import adapter_count
from gpudoctor.estimate.analytic.state import trained_share
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.model.records import frozen


@frozen
class StepFlops:
    """Operations of one optimizer step on one GPU."""

    forward: float
    backward: float
    """Recomputation left out."""
    tokens: int
    """Tokens (for images: patches) that go through the model."""

    @property
    def total(self) -> float:
        """Both together."""
        return self.forward + self.backward


def step_work(shape: ModelShape, job: TrainingJob) -> StepFlops:
    """The operations of one step of a checked training job on one GPU, all its micro batches together."""
    each = shape.max_positions if shape.kind == "vision" else job.seq
    tokens = job.batch * job.accumulate * each
    # of routed experts a token meets those that it is sent to
    sent = shape.top_k / shape.experts if shape.experts else 1.0
    active = sum(one.weights * (sent if one.expert else 1.0) for one in shape.linears) + shape.extra_linear
    products, scores, head = 2.0 * tokens * active, tokens * _attention(shape, each), _head(shape, tokens, each)
    forward = products + scores + head
    if not job.adapted:
        body = trained_share(shape, job) * (products + scores)
        kept = job.method == "freeze" and shape.tied  # the head is frozen with the embedding
        return StepFlops(forward=forward, backward=2 * body + (1 if kept else 2) * head, tokens=tokens)
    low = 2.0 * tokens * adapter_count(shape, job)
    trained = head if job.train_embeddings else 0.0
    backward = products + 2 * scores + head + trained + 2 * low
    return StepFlops(forward=forward + low, backward=backward, tokens=tokens)


def _attention(shape: ModelShape, tokens: int) -> float:
    """Scores and their products with values for one token of a row, all blocks."""
    values = shape.heads * shape.latent.value if shape.latent is not None else shape.q_width
    window = min(tokens, shape.window) if shape.window else tokens
    keys = shape.window_share * window + (1 - shape.window_share) * tokens if shape.window else tokens
    times = 3 if shape.kind == "encoder-decoder" else 1  # encoder, decoder, and the decoder on the encoder
    return times * shape.layers * 2.0 * (shape.q_width + values) * keys


def _head(shape: ModelShape, tokens: int, each: int) -> float:
    """The output matrix; an image has one prediction, and patches that are made by a product."""
    if shape.kind != "vision":
        return 2.0 * tokens * shape.vocab * shape.hidden
    patches = dict(shape.extras).get("patch convolution", 0)
    return 2.0 * tokens * patches + 2.0 * tokens / each * shape.vocab * shape.hidden
