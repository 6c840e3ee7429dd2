"""The instants of inference: loading, prefill, decoding."""

from gpudoctor.estimate.analytic import litgpt, state
from gpudoctor.estimate.analytic.layout import Layout, lay_out
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Instant, Line, line
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.estimate.tables import read_table
from gpudoctor.text import percent

KV_BYTES: dict[str, float] = read_table("names.json")["kv_bytes"]


def inference_instants(
    shape: ModelShape, job: TrainingJob, capability: tuple[int, int] | None = None
) -> tuple[tuple[Instant, ...], int, list[str]]:
    """Instants of a checked job, the bytes that stay between requests, and notes."""
    layout = lay_out(shape, job)
    weights = state.weight_lines(layout)
    fixed = state.fixed_lines(layout, capability)
    cache = cache_line(layout)
    held = [*weights, *fixed, cache]
    prefill = [*held, _prefill_line(layout), *litgpt.unpacked_line(layout)]
    decode = [*held, _logits_line(layout, job.concurrency)]
    instants = (
        Instant(name="load", title="loading the model", lines=tuple(weights)),
        Instant(name="prefill", title="the prefill of one prompt", lines=tuple(prefill)),
        Instant(name="decode", title="decoding at full context", lines=tuple(decode)),
    )
    return instants, sum(line.bytes for line in held), []


def cache_line(layout: Layout) -> Line:
    """The keys and values of all sequences at full context."""
    shape, job = layout.shape, layout.job
    tokens = float(job.context if job.context is not None else job.seq)
    width, n = KV_BYTES[job.kv_dtype], -(-shape.layers // job.pp)
    if shape.latent is not None:
        latent = shape.latent.kv_rank + shape.latent.rope
        per, text = latent * width, f"{width:g} B x {latent} latent"
    else:
        heads = max(shape.kv_heads // job.tp, 1)
        per, text = 2 * heads * shape.head_dim * width, f"2 x {width:g} B x {heads} heads x {shape.head_dim}"
        if shape.window is not None and shape.window < tokens:  # averaged over layers with and without a window
            tokens = shape.window_share * shape.window + (1 - shape.window_share) * tokens
    text += f" x {n} layers x {tokens:,.0f} tokens x {job.concurrency} sequences"
    source = "keys and values of every layer"
    source += f"; a window of {shape.window:,} caps {percent(shape.window_share)} of the layers" if shape.window else ""
    return line("kv-cache", per * n * tokens * job.concurrency, text, source)


def _prefill_line(layout: Layout) -> Line:
    shape, job = layout.shape, layout.job
    t, h, i = job.seq * job.batch, shape.hidden, shape.mlp or shape.expert_mlp * shape.top_k
    e = 2 if job.dtype != "fp32" else 4
    inner = (3 if shape.gated else 2) * i / job.tp
    amount = e * t * (4 * h + inner) + _logits_line(layout, job.batch).bytes
    text = f"{e} B x {t:,} tokens x (4 x {h:,} + {inner:,.0f}) + logits of the last token"
    return line("activations", amount, text, "the widest point of one block without gradients")


def _logits_line(layout: Layout, rows: int) -> Line:
    shape, job = layout.shape, layout.job
    text = f"(2 + 4) B x {shape.vocab:,} vocabulary x {rows} sequences"
    return line("logits", 6.0 * rows * shape.vocab / job.tp, text, "logits and their fp32 copy for sampling")
