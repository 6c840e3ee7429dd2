"""What autograd keeps of one block per token, counted tensor by tensor, and what is alive in a block's
backward.

The counts were checked byte for byte against torch's saved-tensor hooks (transformers 5.23, torch 2.13),
the live figures against a run of the same blocks with every storage followed from creation to release.
"""

from gpudoctor.estimate.analytic.layout import Layout
from gpudoctor.estimate.job import wanted
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.model.records import frozen

SCALED_IN_FP32 = frozenset({"gemma", "gemma2", "gemma3_text", "olmo2"})
"""Families whose norms scale in fp32, so that the normalized tensor is kept in fp32 too."""
PARTLY_ROTATED = frozenset({"stablelm", "glm", "glm4", "chatglm", "phi", "phi3"})
"""Families that glue rotated and unrotated parts of queries and keys together."""
TANH_BY_HAND = frozenset({"gpt2", "gptj", "phi", "gpt_neo"})
"""Families with `gelu_new`: five elementwise operations, each with its own saved tensor."""
RELU = frozenset({"opt"})
"""Families with ReLU, which is differentiated from its result."""


@frozen
class BlockActivations:
    """Activations of one block, in bytes per token."""

    attention: float
    """Saved by norms and attention up to and including its output projection."""
    before_mlp: float
    """Saved by the second norm and as inputs of the MLP's first matrices."""
    mlp: float
    mlp_live: float
    """The MLP's tensors at the worst operation of its backward."""
    again: float
    """Of a block that is recomputed with adapters: its MLP's tensors and gradients at the worst operation of
    the recomputation; 0 where the backward is always worse."""
    scores: float
    """What eager attention's backward holds of scores beyond what was saved; 0 with other kernels."""
    copies: float
    """16-bit copies of the block's weights that autocast makes: bytes, not per token."""
    formula: str
    """The saved bytes as a formula in the model's symbols, with numbers."""

    @property
    def saved(self) -> float:
        """Everything saved for the backward."""
        return self.attention + self.before_mlp + self.mlp


def block(layout: Layout) -> BlockActivations:
    """Activations of one block of the job, per token of this GPU."""
    job, shape = layout.job, layout.shape
    # k-bit preparation without TRL's return to bf16 keeps what full training in fp32 would (measured so)
    as_full = layout.prepared and layout.stack.kbit_vocab_fp32
    attention_trained = job.method in {"full", "freeze"} or as_full or layout.mixed_units
    e, r = layout.element, layout.residual
    h, t = shape.hidden, job.tp
    adapters = wanted(job, shape) if job.adapted else frozenset()
    norm = _norm_saved(layout, trained=attention_trained)
    inputs = _Inputs(layout, adapters, attention_trained)

    attention, parts = _attention(layout, inputs)
    single = shape.block_norms == 1
    first = norm + attention
    second = 0.0 if single else norm
    if shape.block_norms == 4:  # Gemma 2 and 3, GLM-4: a norm after attention and one after the MLP as well
        second += 2 * norm
    mlp_in = inputs.of(
        ("gate", "up") if shape.gated and not shape.fused_gate_up else ("gate_up",) if shape.gated else ("up",), h
    )
    shared_input = single and attention_trained  # parallel blocks: the same normalized tensor feeds both
    if single and inputs.kept_4bit:
        mlp_in -= 2 * h
    saved_mlp, worst_mlp = _mlp(layout, inputs)
    adapted_live, again = _adapters_live(layout, adapters, saved_mlp)
    live_mlp = max(saved_mlp, worst_mlp, adapted_live)  # when its backward begins, all that was saved is there
    copies = 2.0 * shape.layer_parameters if layout.autocast_fp32 else 0.0
    norms = shape.block_norms
    formula = (
        f"{norms} norms x {norm / h:g}h + inputs {(inputs.total + (0 if shared_input else mlp_in)) / h:.3g}h "
        f"+ {parts}"
        f" + MLP {saved_mlp / max(_width(shape), 1):.3g}i; h {h:,}, i {_width(shape):,}"
    )
    return BlockActivations(
        attention=first / t,
        before_mlp=(second + (0 if shared_input else mlp_in)) / t,
        mlp=saved_mlp / t,
        mlp_live=live_mlp / t,
        again=again / t,
        scores=_scores_live(layout) / t,
        copies=copies / t,
        formula=formula + (f"; / tp {t}" if t > 1 else "") + (f"; residual {r} B, inner {e} B" if r != e else ""),
    )


def _adapters_live(layout: Layout, adapters: frozenset[str], saved: float) -> tuple[float, float]:
    """Worst operations that fp32 adapters on a 16-bit stream add: in the backward, in the recomputation.

    PEFT's forward holds the base's 16-bit output, the adapter's scaled fp32 one and their fp32 sum at one time;
    its backward makes an fp32 gradient beside the fp32 copy of the input (peft/tuners/lora/layer.py, followed
    on real steps). Under autocast the adapter computes in 16 bits, but its input is cast to
    fp32 and back.
    """
    shape, job = layout.shape, layout.job
    other = not job.adapted or layout.element != 2 or job.lora_dtype != "fp32"
    autocast = job.mixed_precision != "no"
    if other or shape.experts or layout.fused_lora or (job.quantized and autocast):
        return 0.0, 0.0  # over a quantized base PEFT leaves the cast to autocast
    i, h, wide = shape.mlp, shape.hidden, 0.0 if autocast else 4.0
    backward = saved + wide * i if "down" in adapters else 0.0
    forward = 0.0
    if shape.fused_gate_up and "gate_up" in adapters:
        forward = (2.0 + 2 * (wide or 2)) * 2 * i
    elif "up" in adapters:  # the last of the wide matrices: gate and its activation are there already
        forward = (2.0 * (3 if shape.gated else 1) + 2 * (wide or 2)) * i
    if "down" in adapters:
        # its input's copy in the adapter's type is the last thing made again, for the sake of the adapter's
        # gradient; dropout makes another and a mask. The forward still holds its own output, the MLP's input
        # and the residual stream, and the output's gradient waits, scaled
        copies = 4.0 + (2.0 if autocast else 0.0) + (5.0 if job.lora_dropout else 0.0)
        forward = max(forward, (2.0 * (4 if shape.gated else 2) + copies) * i) + 8.0 * h
    return backward, forward


def _width(shape: ModelShape) -> int:
    """Inner width that a token sees."""
    if shape.experts and shape.moe_layers:
        return shape.expert_mlp * shape.top_k + shape.shared_mlp
    return shape.mlp


class _Inputs:
    """Inputs of linears: kept when the weight is trained or an adapter reads them."""

    def __init__(self, layout: Layout, adapters: frozenset[str], trained: bool) -> None:
        self._layout, self._adapters, self._trained = layout, adapters, trained
        self.kept_4bit = layout.job.quantized and layout.stack.keeps_4bit_inputs
        self.total = 0.0

    def of(self, roles: tuple[str, ...], width: int) -> float:
        """Bytes per token kept of one input that feeds linears of these roles."""
        layout = self._layout
        e = layout.element
        amount = 2.0 * width if self.kept_4bit else 0.0
        if self._trained:
            # under autocast over fp32 weights, each linear casts its input to 16 bits for itself
            amount = float(2 * width * len(roles)) if layout.autocast_fp32 else float(e * width)
        reading = [role for role in roles if role in self._adapters]
        if layout.stack.litgpt and "v" in roles:
            reading = reading[:1]  # one fused adapter for queries, keys and values
        if reading:
            amount += self._adapter_inputs(len(reading), width)
        self.total += amount
        return amount

    def copy(self, role: str, width: int, kept_anyway: bool) -> float:
        """Bytes per token kept of an input that something else keeps already (attention's output)."""
        layout = self._layout
        if layout.stack.litgpt:
            # rotated queries are glued in the order batch, heads, tokens; attention returns its output in the
            # layout of the queries (flash_attn/flash_api.cpp, empty_like(q)), so its reshape makes a copy
            return self.of((role,), width)
        if self._trained:
            return 0.0 if kept_anyway else float(layout.element * width)
        if role in self._adapters:
            amount = self._adapter_inputs(1, width, shared=kept_anyway)
            self.total += amount
            return amount
        return 0.0

    def _adapter_inputs(self, count: int, width: int, *, shared: bool = False) -> float:
        """PEFT casts each adapter's input to the adapter's type; autocast casts it back; dropout adds its
        mask."""
        job, layout = self._layout.job, self._layout
        rank = 4.0 * job.lora_rank * count
        if layout.fused_lora:
            # LoRA_QKV and LoRA_W keep the input once and each dropped-out copy, without masks
            return 2.0 * width * ((0 if shared else 1) + (count if job.lora_dropout else 0))
        autocast = job.mixed_precision != "no"
        low = job.lora_dtype != "fp32" or autocast
        per = 2.0 if low else 4.0
        if job.lora_dropout:
            return count * width * (per + 1.0) + rank
        cast = layout.element == 4 if low else layout.element == 2
        if cast and not (shared and low):
            return count * width * per + rank  # each adapter casts the input for itself
        if low and not job.quantized and job.lora_dtype == "fp32":
            return count * width * per + rank  # PEFT casts up, autocast casts down: a copy for each adapter
        return (0.0 if shared else per * width) + rank  # no cast: all adapters keep the same tensor


def _norm_saved(layout: Layout, *, trained: bool) -> float:
    """Bytes per token that one norm keeps."""
    shape, h = layout.shape, layout.shape.hidden
    if shape.norm == "plain":
        return 4.0 * h + 8  # OLMo casts to fp32 first
    eager = shape.norm == "rmsnorm" or shape.family == "cohere"
    if not eager or layout.job.fused_norm or layout.stack.fused_norms:
        return float(layout.residual * h) + 8
    if shape.family == "cohere":  # centred and normalized in fp32 by hand
        return 12.0 * h
    if layout.stack.litgpt or shape.family in SCALED_IN_FP32:
        return 4.0 * h + (4.0 * h if trained else 0.0) + 4
    if layout.residual == 4:  # fp32 stream: the input and, for the weight's gradient, the normalized tensor
        return 4.0 * h + (4.0 * h if trained else 0.0) + 4
    return 4.0 * h + (2.0 * h if trained else 0.0) + 4


def _attention(layout: Layout, inputs: _Inputs) -> tuple[float, str]:
    """Bytes per token that attention keeps, with the inputs of its projections."""
    shape, job = layout.shape, layout.job
    low = layout.autocast_fp32 or (
        layout.prepared
        and not layout.stack.kbit_vocab_fp32
        and (job.mixed_precision != "no" or job.attention == "flash")
    )
    e = 2 if low else layout.element
    h, a = shape.hidden, shape.heads
    if shape.latent is not None:
        latent = shape.latent
        wide = a * (latent.nope + latent.rope)
        values = a * latent.value
        amount = inputs.of(("q", "q_a", "kv_a"), h) + e * ((latent.q_rank or 0) + latent.kv_rank) * 3
        kept = e * (2.0 * wide + 2.0 * values) + 4 * a
        amount += kept + inputs.copy("o", values, kept_anyway=True)
        return amount, f"latent attention {kept:,} B"
    dq, dkv = shape.q_width, shape.kv_width
    roles = ("qkv",) if shape.fused_qkv else ("q", "k", "v")
    amount = inputs.of(roles, h)
    repeats = _repeats(layout)
    kv = dq if repeats else dkv
    if job.attention == "eager":
        kept = e * 4.0 * dq + _scores(layout, e) * a * job.seq
        text = f"attention {e * 4}dq + {_scores(layout, e):g}as"
    else:
        kept = e * (2.0 * dq + 2.0 * kv) + 4 * a
        if layout.stack.litgpt:
            kept += _litgpt_extra(layout, repeats)
        elif shape.fused_qkv and shape.positions == "rotary":
            kept += e * (dq + dkv)  # the values are a view, so the whole projection stays
        if job.attention == "sdpa" and shape.family in PARTLY_ROTATED:
            kept += e * dq  # queries in another layout: the output is copied for its projection
        text = f"attention {2 * e}dq + {2 * e}{'dq' if repeats else 'dkv'} + 4a (dq {dq:,}, dkv {dkv:,})"
    if shape.kind == "encoder":
        kept += 2 * h  # masks of the two hidden dropouts
    if shape.kind == "encoder-decoder":  # the decoder's blocks attend twice: half of all blocks
        kept *= 1.5
        amount *= 1.5
    if shape.qk_norm != "none":
        scaled = 4 if shape.family in SCALED_IN_FP32 or layout.element == 4 else 2
        kept += (4 + (scaled if not job.adapted else 0)) * (dq + dkv)
        kept += 4 * (shape.heads + shape.kv_heads if shape.qk_norm == "head" else 2)
    return amount + kept + inputs.copy("o", dq, kept_anyway=True), text


def _litgpt_extra(layout: Layout, repeats: bool) -> float:
    """What litgpt keeps beside: values as a view of the whole fused projection, and LoRA's outputs before
    padding."""
    shape, job, e = layout.shape, layout.job, layout.element
    extra = 0.0 if repeats else e * (shape.q_width + shape.kv_width)
    asked = set(job.lora_targets) if job.adapted else set()
    widths = {"q": shape.q_width, "k": shape.kv_width, "v": shape.kv_width}
    if asked and "all-linear" not in asked and not widths.keys() <= asked:
        extra += e * sum(width for role, width in widths.items() if role in asked)
    return extra


def _scores(layout: Layout, e: int) -> float:
    """Bytes per pair of tokens and head that eager attention keeps: probabilities, their cast, dropout."""
    shape = layout.shape
    if shape.kind == "encoder" or shape.family == "gpt2":  # softmax in the inputs' type, then dropout
        return 4.0 + 1 + e if layout.autocast_fp32 else 2.0 * e + 1
    if shape.family == "falcon":
        return float(e)
    if shape.family == "gemma2":  # soft-capped scores: tanh's result as well
        return 4.0 + 2 * e if e == 2 else 8.0
    return 4.0 + e if e == 2 else 4.0


def _scores_live(layout: Layout) -> float:
    """Bytes per token beyond the saved ones at the softmax's backward: probabilities, their gradient and the
    scores' gradient in fp32, the cast of the probabilities gone (followed on real steps)."""
    shape, job = layout.shape, layout.job
    other = shape.kind != "decoder" or shape.family in {"gpt2", "falcon", "gemma2"} or shape.latent is not None
    if job.attention != "eager" or other:
        return 0.0
    e = 2 if layout.autocast_fp32 else layout.element
    return (12.0 - _scores(layout, e)) * shape.heads * job.seq


def _repeats(layout: Layout) -> bool:
    """Whether attention is handed keys and values repeated to all heads."""
    shape, families = layout.shape, layout.stack.repeat_kv_families
    if shape.kv_heads == shape.heads:
        return False
    if layout.job.attention == "sdpa":
        return layout.stack.sdpa_repeats_kv
    return shape.family in families or "*" in families


def _mlp(layout: Layout, inputs: _Inputs) -> tuple[float, float]:
    """Bytes per token that the MLP keeps, and its tensors at the worst operation of its backward."""
    shape, e = layout.shape, 2 if layout.autocast_fp32 else layout.element
    if shape.experts and shape.moe_layers:
        return _experts(layout)
    i = shape.mlp
    if layout.stack.fused_lora and layout.job.adapted and shape.gated:  # gate and up, overwritten by their gradients
        return 2.0 * e * i, 3.0 * e * i
    product = inputs.of(("down",), i)
    if shape.gated:
        # gate, its activation, up; in the backward of their product also the three gradients
        return 3.0 * e * i + product, 6.0 * e * i
    if shape.family in RELU:  # its result is the next input
        return product, product + 2.0 * e * i
    # GELU as separate operations: transformers' own, not compiled
    ours = layout.stack.name.startswith("hf") or layout.stack.name == "timm"
    by_hand = ours and shape.family in TANH_BY_HAND and not layout.job.compiled
    plain = e * i * (4.0 if by_hand else 1.0)
    return plain + product, plain + 2.0 * e * i


def _experts(layout: Layout) -> tuple[float, float]:
    """The same for routed and shared experts."""
    shape, job, e = layout.shape, layout.job, 2 if layout.autocast_fp32 else layout.element
    k, i, h = shape.top_k, shape.expert_mlp, shape.hidden
    trained = not job.adapted
    three = 3 if shape.gated else 1
    routed = k * (three * e * i + (e * i + e * h if trained else 0)) + k * e * h  # outputs before weighing
    router = 8.0 * shape.experts
    shared = (three + trained) * e * shape.shared_mlp
    saved = routed + router + shared
    worst = 3.0 * e * i * k / (shape.experts if layout.stack.moe_loop else 1)
    return saved, saved - (e * i * k if trained and not layout.stack.moe_loop else 0) + worst
