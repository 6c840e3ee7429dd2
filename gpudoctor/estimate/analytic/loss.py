"""The loss: logits, their fp32 copies and gradients."""

from gpudoctor.estimate.analytic import litgpt
from gpudoctor.estimate.analytic.layout import Layout
from gpudoctor.estimate.result import Line, line

CHUNK_WIDTHS = 6
"""A chunked loss works on about hidden / vocabulary of the rows at a time: logits, their fp32 copy, about 6h a
token."""


def final_norm(layout: Layout) -> float:
    """Bytes per token of the last norm and its output."""
    shape, job = layout.shape, layout.job
    h, out = shape.hidden, float(layout.element)
    if not shape.final_norm:
        return out * h
    fused = job.fused_norm or shape.norm != "rmsnorm" or layout.stack.fused_norms
    if fused:
        return (layout.residual + out) * h
    if layout.residual == 4:
        return (4 + 4 * (not job.adapted) + out) * h
    return (4 + 2 * (not job.adapted) + out) * h


def loss_lines(layout: Layout) -> list[Line]:
    """Everything alive at the loss beside state and saved activations of the blocks."""
    shape, job, code = layout.shape, layout.job, layout.stack
    t, h, v = layout.tokens, shape.hidden, -(-shape.vocab // job.tp)
    norm = final_norm(layout)
    if layout.no_logits:
        if code.litgpt:
            text = f"{norm / h:g} B x {h:,} x {t:,} tokens"
            return [*litgpt.loss_lines(layout), line("final-norm", t * norm / job.tp, text, "tensor count")]
        text = f"({CHUNK_WIDTHS} + {norm / h:g}) B x {h:,} hidden x {t:,} tokens"
        return [line("loss", t * (CHUNK_WIDTHS * h + norm), text, "chunked head and loss: whole logits never exist")]
    if shape.kind == "vision":
        text = f"16 B x {shape.vocab:,} classes x {job.batch} images"
        return [line("loss", 16 * job.batch * shape.vocab, text, "one row of logits an image")]
    per, why = _per_entry(layout)
    lines = [line("loss", t * per * v, f"{per} B x {v:,} vocabulary x {t:,} tokens", why)]
    text = f"{norm / h:g} B x {h:,} hidden x {t:,} tokens"
    lines.append(line("final-norm", t * norm, text, "tensor count: the last norm and its output"))
    if shape.family in {"granite", "granitemoe", "granitemoeshared"}:
        text = f"2 B x {h:,} hidden x {t:,} tokens"
        lines.append(line("embedding-scale", t * 2 * h, text, "Granite scales the embedding: both tensors stay"))
    return lines


def _per_entry(layout: Layout) -> tuple[int, str]:
    """Bytes per logit at the worst operation."""
    job, code = layout.job, layout.stack
    kept = job.outputs_kept if job.outputs_kept is not None else code.outputs_kept
    head = head_width(layout)
    if layout.shape.family == "gpt_bigcode" and code.name != "hf":
        # no cast of its own: logits, their shifted copy, log-softmax and one gradient in the logits' type
        entries = 3 if job.loss == "fused" else 4
        return entries * head, "transformers 4 modeling_gpt_bigcode.py: the loss in the type of the logits"
    if job.loss == "fused":
        return code.fused_vocab, f"fused cross entropy: {code.source}"
    vocabulary = code.compiled_vocab if job.compiled else code.stock_vocab
    extra = head if kept and code.name == "hf" else 0
    if layout.shape.kind != "decoder" and code.name == "hf" and job.mixed_precision == "no":
        # torch's CrossEntropyLoss on the logits as they are: log-softmax and two gradients in their type
        return (3 * head + extra, "transformers modeling_bert.py, modeling_t5.py: the loss in the type of the logits")
    note = f", {head} B of logits kept by the caller" if extra else ""
    return vocabulary + extra, f"{code.source}{note}"


def head_width(layout: Layout) -> int:
    """Bytes of a logit as the head returns it."""
    if layout.prepared:
        return 4 if layout.stack.kbit_vocab_fp32 else 2
    return 4 if layout.element == 4 else 2
