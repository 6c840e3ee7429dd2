"""The instants of a training step: load, loss, one block's backward, the end of the backward, the optimizer
step."""

from gpudoctor.estimate.analytic import litgpt, state
from gpudoctor.estimate.analytic import optimizer as optim
from gpudoctor.estimate.analytic.activations import BlockActivations, block
from gpudoctor.estimate.analytic.layout import Layout, covered, kbit, lay_out
from gpudoctor.estimate.analytic.loss import head_width, loss_lines
from gpudoctor.estimate.analytic.optimizer import embedding_gradient, end_lines, one_by_one
from gpudoctor.estimate.job import IN_BACKWARD, TrainingJob
from gpudoctor.estimate.result import Instant, Line, line
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.lang import say, term
from gpudoctor.model.records import replace


def training_instants(
    shape: ModelShape, job: TrainingJob, capability: tuple[int, int] | None = None
) -> tuple[tuple[Instant, ...], int, list[str]]:
    """Instants of a checked job, the bytes that stay between steps, and notes."""
    layout = lay_out(shape, job)
    one = block(layout)
    weights = state.weight_lines(layout)
    adapters = state.adapter_lines(layout)
    optimizer = optim.optimizer_lines(layout)
    fixed = state.fixed_lines(layout, capability)
    gradients = [*optim.gradient_lines(layout), *litgpt.gradient_lines(layout)]
    held = [*weights, *adapters, *optimizer, *fixed, *litgpt.held_lines(layout)]

    root = _root_lines(layout)
    tower = _tower_lines(layout)
    loss = [*held, *root, *_checkpoint_lines(layout, one, 1), *tower, *_copies(layout), *loss_lines(layout)]
    layer = [
        *held, *root, *_gathered(layout), *litgpt.unit_lines(layout), *_head_gradient(layout),
        *_checkpoint_lines(layout, one, layout.in_flight), *_kept_twice(layout), *_live_lines(layout, one),
        *_kept_logits(layout), *tower,
    ]  # fmt: skip
    end = [*held, *root, *_gathered(layout), *end_lines(layout, _live_lines(layout, one, last=True), gradients)]
    step = [*held, *gradients, *optim.step_lines(layout), *litgpt.step_lines(layout)]
    instants = [
        Instant(name="load", title="loading the model", lines=(*weights, *adapters)),
        Instant(name="loss", title="the loss", lines=tuple(loss)),
        Instant(name="layer", title="the backward of the last block", lines=tuple(layer)),
        Instant(name="backward", title="the end of the backward", lines=tuple(end)),
        Instant(name="step", title="the optimizer step", lines=tuple(step)),
    ]
    if job.accumulate > 1:
        candidates = instants[1:3]
        if one_by_one(layout):
            lines = (*held, *embedding_gradient(layout, 3 if shape.tied else 1))
            candidates.append(Instant(name="backward", title="the end of the backward", lines=lines))
        if ends := litgpt.root_gradient_lines(layout):
            lines = (*held, *root, *ends, *_kept_logits(layout))
            candidates.append(Instant(name="backward", title="the end of the backward", lines=lines))
        worst = max(candidates, key=lambda instant: instant.bytes)
        title = say("{title}, with gradients of earlier micro batches", title=term(worst.title))
        lines = (*worst.lines, *litgpt.accumulated_lines(layout))
        instants.insert(4, Instant(name="accumulation", title=title, lines=lines))
    static = sum(line.bytes for line in held)
    if layout.sharded and job.parallel == "fsdp":  # FSDP1 frees the flat gradient in the next forward only
        static += sum(line.bytes for line in gradients)
    return tuple(instants), static, _notes(layout)


def _root_lines(layout: Layout) -> list[Line]:
    """The unsharded root unit: embedding, head and last norm stay gathered through forward and backward."""
    if not layout.sharded:
        return []
    width, count = _gathered_width(layout), layout.own.embedding + layout.own.head
    zero = "ZeRO-3 gathers the vocabulary matrices whole"
    source = zero if layout.job.parallel == "zero3" else "FSDP keeps the root unit gathered until the backward"
    return [line("gathered-root", width * count, f"{width} B x {count:,} weights of embedding and head", source)]


def _gathered_width(layout: Layout) -> int:
    return 2 if layout.element == 2 or layout.job.quantized else 4


def _gathered(layout: Layout) -> list[Line]:
    """Blocks gathered during the backward."""
    job, width = layout.job, _gathered_width(layout)
    if not layout.sharded:
        return []
    if job.pp > 1:  # a pipeline stage is gathered once for all its micro batches, its gradients reduced once
        count = layout.own.total
        text = f"2 x {width} B x {count:,} parameters of the stage"
        return [line("gathered-layer", 2 * width * count, text, "torchtitan: no resharding between micro batches")]
    if job.quantized:
        packed = covered(layout) / max(layout.layers, 1)
        amount, text = kbit(job) * packed, f"{kbit(job):.4f} B x {packed:,.0f} weights of one block"
    else:
        count = layout.shape.layer_parameters // job.tp
        amount, text = float(width * count), f"{width} B x {count:,} weights of one block"
    return [line("gathered-layer", amount, text, "FSDP gathers block by block")]


def _head_gradient(layout: Layout) -> list[Line]:
    """Gradients that exist when the last block's backward peaks: the head's, the MLP's last matrix's."""
    shape, job = layout.shape, layout.job
    if (job.adapted and not job.train_embeddings) or job.optimizer in IN_BACKWARD:
        return []
    width = 2 if layout.element == 2 and layout.sharded else layout.gradient_bytes
    head = layout.own.head or (layout.own.embedding if shape.tied else 0)
    text = f"{width} B x {head:,} weights of the head"
    lines = [line("head-gradient", width * head, text, "its gradient comes first")]
    if not job.adapted:
        down = shape.hidden * (shape.mlp if not shape.experts else shape.expert_mlp) // job.tp
        text = f"{width} B x {down:,} weights of the MLP's last matrix"
        lines.append(line("matrix-gradient", width * down, text, "its gradient was just made"))
    return lines


def _checkpoint_lines(layout: Layout, one: BlockActivations, flight: int) -> list[Line]:
    """Activations kept from the forward: block inputs, or everything."""
    job, t, n = layout.job, layout.tokens, layout.layers
    times = f" x {flight} micro batches in flight" if flight > 1 else ""
    lines = []
    whole = n if job.checkpointing == "none" else 0
    if job.checkpointing in {"layer", "offloaded"} and job.checkpoint_every > 1:
        whole = n - n // job.checkpoint_every
    if job.checkpointing == "layer":
        per = layout.residual * layout.shape.hidden / job.tp
        width = f"{layout.residual} B x {layout.shape.hidden:,} hidden" + (f" / tp {job.tp}" if job.tp > 1 else "")
        text = f"{width} x {n - whole} blocks x {t:,} tokens{times}"
        lines.append(line("checkpoints", per * (n - whole) * t * flight, text, "each block's input (arXiv 1604.06174)"))
    if job.checkpointing == "selective":
        products = [linear.rows for linear in layout.shape.linears if linear.count >= layout.shape.layers]
        outputs = layout.shape.hidden + layout.shape.q_width + sum(products[::2])
        per = min(one.saved, layout.element * outputs / job.tp)
        text = f"{per:,.0f} B x {n} blocks x {t:,} tokens{times}"
        source = "attention outputs and every second matrix product are kept (torchtitan)"
        lines.append(line("activations", per * n * t * flight, text, source))
    if whole:
        text = f"({one.formula}) = {one.saved:,.0f} B x {whole} blocks x {t:,} tokens{times}"
        source = "tensors saved for the backward, counted"
        lines.append(line("activations", one.saved * whole * t * flight, text, source))
    return lines


def _tower_lines(layout: Layout) -> list[Line]:
    """What the encoder beside the language model keeps where it is trained."""
    job, tower = layout.job, layout.shape.tower
    if tower is None or job.adapted or job.method == "freeze":
        return []
    beside = lay_out(tower, replace(job, seq=tower.max_positions, tp=1, pp=1, cp=1, ep=1))
    return _checkpoint_lines(beside, block(beside), 1)


def _kept_twice(layout: Layout) -> list[Line]:
    """FSDP1 over a frozen base: inputs of frozen units stay referenced to the end of the backward."""
    job = layout.job
    frozen = job.parallel == "fsdp" and layout.sharded and job.adapted and not layout.mixed_units
    if not frozen or job.checkpointing == "none":
        return []
    h, n, t = layout.shape.hidden, max(layout.layers - 2, 0), layout.tokens
    text = f"2 B x {h:,} hidden x {n} blocks x {t:,} tokens"
    source = "FSDP1 frees a frozen unit's input only when the backward ends"
    return [line("checkpoints-kept", 2 * h * n * t, text, source)]


def _live_lines(layout: Layout, one: BlockActivations, *, last: bool = False) -> list[Line]:
    """A block in its backward: what was recomputed (or saved) and the gradients on their way."""
    job, t, h = layout.job, layout.tokens, layout.shape.hidden
    r = layout.residual
    recomputed = job.checkpointing != "none"
    grads = r * h * (2 if recomputed and layout.stack.reentrant else 1)
    if recomputed or last:
        # whether the first norm keeps the block's input itself, which is counted as the checkpoint
        fused = job.fused_norm or layout.shape.norm != "rmsnorm" or layout.stack.fused_norms
        first_input = r * h if (fused or r == 4) and recomputed and not last else 0
        mlp = max(one.mlp_live, one.again if recomputed else 0.0)
        per = one.attention + one.before_mlp + mlp - first_input + grads
        text = (
            f"{one.attention + one.before_mlp - first_input:,.0f} B attention and norms + "
            f"{mlp:,.0f} B MLP + {grads:,.0f} B gradients"
        )
        if one.scores > one.before_mlp + mlp:  # the MLP is gone when attention's turn comes
            per = one.attention + one.scores - first_input + grads
            text = (
                f"{one.attention - first_input:,.0f} B attention and norm + {one.scores:,.0f} B gradients of "
                f"the scores + {grads:,.0f} B gradients"
            )
    else:
        per = one.mlp_live - one.mlp + grads
        text = f"{one.mlp_live - one.mlp:,.0f} B MLP gradients + {grads:,.0f} B gradients"
    source = "one block's tensors at the worst operation of its backward, counted"
    lines = [line("block", per * t, f"({text}) x {t:,} tokens", source)]
    if one.copies:
        text = f"2 B x {one.copies / 2:,.0f} weights of one block"
        lines.append(line("weight-copies", one.copies, text, "autocast's 16-bit copies"))
    return lines


def _copies(layout: Layout) -> list[Line]:
    """Autocast's cached 16-bit copies of all linear weights, alive to the end of the forward."""
    if not layout.autocast_fp32:
        return []
    head = layout.own.head or (layout.own.embedding if layout.shape.tied and layout.shape.kind == "decoder" else 0)
    count = layout.own.linear + head
    text, source = f"2 B x {count:,} weights of linear layers", "torch.autocast caches casts of leaf weights"
    if layout.job.checkpointing == "layer" and layout.stack.name == "hf" and layout.job.loss == "stock":
        # casts are freed when the forward leaves autocast; recomputed blocks save none, and the loss, whose
        # worst operation comes after that, has two bytes an entry more than it had before
        more = 2 * layout.shape.vocab * layout.tokens
        if 2 * count - more > 2 * head:
            text += f" - {more:,} B that the loss had not yet"
            return [line("weight-copies", 2 * count - more, text, source)]
        count, text = head, f"2 B x {head:,} weights of the head"
    return [line("weight-copies", 2 * count, text, source)]


def _kept_logits(layout: Layout) -> list[Line]:
    """Logits that the training loop keeps through the backward."""
    job, kept = layout.job, layout.job.outputs_kept
    kept = layout.stack.outputs_kept if kept is None else kept
    if not kept or (layout.no_logits and not layout.stack.litgpt) or layout.shape.kind == "vision":
        return []
    width = 4 if layout.stack.litgpt else head_width(layout)  # Lightning Fabric returns fp32
    amount = width * layout.shape.vocab * layout.tokens / job.tp
    text = f"{width} B x {layout.shape.vocab:,} vocabulary x {layout.tokens:,} tokens"
    return [line("logits-kept", amount, text, "the loop keeps its outputs until after backward")]


def _notes(layout: Layout) -> list[str]:
    """What the user should know about this job."""
    job, shape = layout.job, layout.shape
    upcast = layout.weight_bytes == 4 and job.dtype != "fp32" and job.method == "full"
    whole_experts = job.quantized and shape.experts and covered(layout) < layout.own.linear - shape.extra_linear
    rows = (
        (upcast, say(
            "accelerate turns trained weights to fp32 under FSDP with bf16 mixed precision: 20 bytes a "
            "parameter instead of 10"
        )),
        (whole_experts, say(
            "transformers 5 fuses routed experts into 3-D parameters, which bitsandbytes leaves in 16 bits"
        )),
        (job.method == "qlora" and layout.sharded, say(
            "{parallel} shards a 4-bit base only with bnb_4bit_quant_storage in the type of the other "
            "weights (bitsandbytes 0.43, PEFT 0.10)", parallel=job.parallel,
        )),
        (layout.prepared, say(
            "k-bit preparation makes norms fp32, and with them every activation: twice the bytes of bf16"
        )),
        (job.parallel == "fsdp" and job.adapted and layout.sharded, say(
            "FSDP1 keeps the inputs of frozen blocks to the end of the backward: a second copy of the checkpoints"
        )),
        (shape.experts and job.mode == "train", say("expert load was taken as even; an uneven one needs more")),
    )  # fmt: skip
    return [said for so, said in rows if so]
