"""What litgpt's own model and loop hold beside the tensors of a block (litgpt/finetune/lora.py and full.py).

The sums were checked against litgpt's code on meta tensors with every storage followed from its creation to its
release, over three iterations (docs/estimate.md).
"""

from gpudoctor.estimate.analytic import optimizer as optim
from gpudoctor.estimate.analytic.layout import Layout, quantized_head
from gpudoctor.estimate.job import wanted
from gpudoctor.estimate.result import Line, line

CHUNK = 128
"""Positions that the head works on at a time (`lm_head_chunk_size`, the same chunk of the loss)."""
SOFT_CAPPED = frozenset({"gemma2"})
"""Families whose logits pass a tanh, which is kept (litgpt/config.py, final_logit_softcapping)."""


def held_lines(layout: Layout) -> list[Line]:
    """What stays between steps beside weights and optimizer."""
    if not (layout.stack.stable_embedding and layout.job.quantized):
        return []
    count = layout.own.embedding
    text = f"2 B x {count:,} weights of the embedding"
    source = "litgpt puts in a StableEmbedding after the optimizer was made: it has a gradient that nothing clears"
    return [line("embedding-gradient", 2 * count, text, source)]


def loss_lines(layout: Layout) -> list[Line]:
    """The end of the forward, where the last iteration's logits are still named, or the loss's backward."""
    t, v = layout.tokens, _vocabulary(layout)
    kept = _graph_lines(layout)
    if not layout.job.adapted:
        text = f"3 x 4 B x {v:,} vocabulary x {t:,} tokens"
        source = "litgpt full.py: fp32 logits, their copy without the last position, and a gradient or softmax"
        return [line("loss", 12 * v * t, text, source), *kept]
    found = max(_forward(layout), _backward(layout), key=lambda lines: sum(line.bytes for line in lines))
    return [*found, *kept]


def _forward(layout: Layout) -> list[Line]:
    """The end of a forward after the first.

    Fabric turns the logits to fp32 when the forward returns, so both types are there at one time. Where 4-bit
    products keep their inputs, the last iteration's graph holds them until `logits` is named anew, after that.
    """
    t, v = layout.tokens, _vocabulary(layout)
    low = 0 if layout.element == 4 and not layout.autocast_fp32 else 2
    before, unpacked = max(t - _chunk(layout), 0), _unpacked(layout)
    cast, last = (low + 4) * v * t, low * v * before + unpacked
    text = f"{low} B and 4 B x {v:,} vocabulary x {t:,} tokens"
    if last > cast:
        text = f"{low} B x {v:,} vocabulary x {before:,} tokens + {unpacked:,} B unpacked head"
    source = "litgpt model.py: the head in chunks; Lightning Fabric copies all of them to fp32"
    old = f"4 B x {v:,} vocabulary x {t:,} tokens"
    return [
        line("loss", max(cast, last), text, source),
        line("last-logits", 4 * v * t, old, "the loop names its last logits until the forward returns"),
        *_last_inputs(layout),
    ]


def _backward(layout: Layout) -> list[Line]:
    t, v, rows = layout.tokens, _vocabulary(layout), _chunk(layout)
    amount = 8 * v * t + max(8 * v * rows, _unpacked(layout))
    text = f"2 x 4 B x {v:,} vocabulary x {t:,} tokens + one chunk of {rows:,}"
    source = "litgpt utils.py chunked_cross_entropy: logits and log-softmax in fp32"
    return [line("loss", amount, text, source)]


def _vocabulary(layout: Layout) -> int:
    return -(-layout.shape.vocab // layout.job.tp)


def _chunk(layout: Layout) -> int:
    """Tokens of a micro batch that the head works on at a time."""
    return layout.job.batch * min(CHUNK, layout.job.seq)


def _unpacked(layout: Layout) -> int:
    """Bytes of the quantized head unpacked: as fp16, which Lightning quantizes from, and cast to bf16."""
    return 4 * quantized_head(layout)


def step_lines(layout: Layout) -> list[Line]:
    """What the loop still names at the optimizer's step."""
    if not layout.stack.litgpt:
        return []
    t, v = layout.tokens, _vocabulary(layout)
    text = f"4 B x {v:,} vocabulary x {t:,} tokens"
    return [line("logits-kept", 4 * v * t, text, "the loop names its logits until the next forward returns")]


def unpacked_line(layout: Layout) -> list[Line]:
    """Inference: the largest quantized matrix, unpacked for a prompt of more than one token."""
    count = max([quantized_head(layout), *(linear.rows * linear.columns for linear in layout.shape.linears)])
    if not (layout.stack.litgpt and layout.job.method == "qlora"):
        return []
    source = "bitsandbytes unpacks to fp16, what Lightning quantized from; then it is cast to bf16"
    return [line("unpacked-weights", 4 * count, f"(2 + 2) B x {count:,} weights of the largest matrix", source)]


def _graph_lines(layout: Layout) -> list[Line]:
    """What the head keeps for its backward."""
    shape, job, t = layout.shape, layout.job, layout.tokens
    lines = []
    if shape.family in SOFT_CAPPED:
        text = f"{layout.element} B x {shape.vocab:,} vocabulary x {t:,} tokens"
        lines.append(line("soft-cap", layout.element * shape.vocab * t, text, "tanh keeps its result"))
    if job.adapted and "head" in wanted(job, shape):
        per = 2 * job.lora_rank + (3 if job.lora_dropout else 0) * shape.hidden
        lines.append(line("head-adapter", per * t, f"{per:,} B x {t:,} tokens", "the adapter's input and mask"))
    chunks = -(-job.seq // CHUNK)
    if layout.autocast_fp32 and job.adapted and chunks > 1:
        head = layout.own.head
        text = f"2 B x {head:,} weights of the head x {chunks - 1} more chunks"
        source = "autocast caches copies of trained weights only, so each chunk of the head keeps its own"
        lines.append(line("head-copies", 2 * head * (chunks - 1), text, source))
    return lines


def _last_inputs(layout: Layout) -> list[Line]:
    """Inputs of the last iteration's 4-bit products."""
    shape, job = layout.shape, layout.job
    if not (layout.stack.keeps_4bit_inputs and job.quantized):
        return []
    into = shape.hidden * (1 if shape.block_norms == 1 else 2)  # one norm feeds both where they run in parallel
    inner = shape.expert_mlp * shape.top_k + shape.shared_mlp if shape.experts else shape.mlp
    per = 2 * (into + shape.q_width + inner)
    amount = (per * layout.layers + 2 * shape.hidden) * layout.tokens
    text = f"2 B x (({into:,} + {shape.q_width:,} + {inner:,}) x {layout.layers} blocks + {shape.hidden:,}) inputs"
    text += f" x {layout.tokens:,} tokens"
    source = "bitsandbytes 0.41 to 0.43 MatMul4Bit: ctx.tensors lives as long as the logits of the last iteration"
    return [line("last-inputs", amount, text, source)]


def _units(layout: Layout) -> bool:
    """Whether whole blocks, and the root with embedding and head, are FSDP1's units, all their weights with
    gradients."""
    job = layout.job
    return layout.stack.litgpt and layout.sharded and job.parallel == "fsdp" and not job.quantized


def unit_lines(layout: Layout) -> list[Line]:
    """What a block's backward holds of units: the next block, gathered ahead, and its own gradient, whole."""
    if not _units(layout):
        return []
    count = layout.shape.layer_parameters
    text = f"2 x 2 B x {count:,} weights of one block (the next one, and the gradient)"
    source = "torch FSDP: BACKWARD_PRE; one flat parameter a unit, so frozen weights in it have gradients too"
    return [line("unit-gradient", 4 * count, text, source)]


def root_gradient_lines(layout: Layout) -> list[Line]:
    """The root unit's gradient at the end of the backward: those of embedding and head, and the flat one."""
    if not _units(layout) or layout.job.adapted:
        return []
    count = layout.own.embedding + layout.own.head
    text = f"2 x 2 B x {count:,} weights of embedding and head"
    source = "torch FSDP: the views' gradients are joined to the flat parameter's"
    return [line("root-gradient", 4 * count, text, source)]


def gradient_lines(layout: Layout) -> list[Line]:
    """The frozen weights' share of those gradients, reduced."""
    if not layout.mixed_units:
        return []
    count, n = layout.shape.layer_parameters * layout.layers, layout.shards
    text = f"2 B x {count:,} weights of the blocks / {n} GPUs"
    return [line("frozen-gradients", 2 * count / n, text, "a flat parameter's gradient has its whole size")]


def accumulated_lines(layout: Layout) -> list[Line]:
    """Gradients of earlier micro batches: under `no_backward_sync` FSDP keeps them whole on each GPU."""
    kind = "accumulated-gradients"
    if not _units(layout):
        return optim.gradient_lines(layout, kind)
    own, width = layout.own, layout.gradient_bytes
    count = own.total - own.embedding - own.head if layout.job.adapted else own.total
    source = "torch FSDP.no_sync: gradients are neither reduced nor sharded"
    return [line(kind, width * count, f"{width} B x {count:,} weights, whole", source)]
