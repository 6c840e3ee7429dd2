"""How a job lies on its GPUs: which share of the model one GPU holds and in which types."""

from gpudoctor.estimate.job import TrainingJob, bare, wanted
from gpudoctor.estimate.shapes import Linear, ModelShape, ParameterCounts
from gpudoctor.estimate.tables import Stack, stack
from gpudoctor.model.records import frozen, replace

SIZE = {"fp32": 4, "bf16": 2, "fp16": 2}
KBIT = {"nf4": 0.5 + 4 / 64, "fp4": 0.5 + 4 / 64, "int8": 1.0}
"""Bytes per covered weight: 4-bit with an fp32 scale per 64 weights; LLM.int8."""
DOUBLE_QUANT = 0.5 + 1 / 64 + 4 / (64 * 256)
"""4-bit whose scales are 8-bit, with an fp32 scale of scales per 256 of them (QLoRA, arXiv 2305.14314)."""


@frozen
class Layout:
    """What one GPU, the fullest, holds of a job."""

    shape: ModelShape
    job: TrainingJob
    stack: Stack
    tokens: int
    """Tokens of a micro batch on one GPU, after context parallelism."""
    sharded: bool
    """Whether weights are sharded and gathered layer by layer (ZeRO-3, FSDP)."""
    shards: int
    """Over how many GPUs sharded state is spread."""
    element: int
    """Bytes of an activation inside a block."""
    residual: int
    """Bytes of an element of the residual stream."""
    prepared: bool
    """Whether k-bit preparation made the norms, and with them the residual stream, fp32."""
    autocast_fp32: bool
    """Whether autocast works on fp32 weights (and copies them to 16 bits)."""
    weight_bytes: int
    """Bytes of a held, unquantized weight."""
    gradient_bytes: int
    master: bool
    """Whether the optimizer holds an fp32 master copy."""
    own: ParameterCounts
    """Parameters on this GPU before data-parallel sharding (after tensor, pipeline and expert parallelism)."""
    layers: int
    in_flight: int
    """Micro batches whose activations a pipeline stage holds."""

    @property
    def no_logits(self) -> bool:
        """Whether head and loss run together in chunks: whole logits never exist."""
        return self.job.loss == "chunked" or (self.job.loss == "fused" and not self.stack.fused_vocab)

    @property
    def fused_lora(self) -> bool:
        """Whether fused kernels run the adapters (foak's are for quantized bases)."""
        return self.job.adapted and (self.stack.fused_lora or (self.job.lora_fused and self.job.quantized))

    @property
    def mixed_units(self) -> bool:
        """Whether FSDP1 wraps frozen weights and adapters in one flat parameter (litgpt wraps whole blocks)."""
        job = self.job
        return self.stack.litgpt and self.sharded and job.parallel == "fsdp" and job.adapted and not job.quantized


def lay_out(shape: ModelShape, job: TrainingJob) -> Layout:
    """Types and shares of a checked job."""
    code = stack(job.stack)
    if code.litgpt:  # it never ties embedding and head, and has gate and up apart (litgpt/model.py)
        shape = replace(shape, tied=False, fused_gate_up=False)
    sharded = job.parallel in {"zero3", "fsdp", "fsdp2"} and job.shards > 1
    trains_all = job.method in {"full", "freeze"}
    low = 2 if job.mixed_precision != "no" or job.dtype != "fp32" else 4
    upcast = (
        trains_all and sharded and job.parallel in {"fsdp"} and code.fsdp_upcasts_trainable
        and job.mixed_precision != "no" and job.dtype != "fp32"
    )  # fmt: skip
    deepspeed = job.parallel in {"zero1", "zero2", "zero3"} and low == 2
    master = job.master_weights or deepspeed or (code.name == "megatron" and low == 2)
    held = 2 if deepspeed or master else 4 if upcast else SIZE[job.dtype]
    prepared = job.quantized and job.kbit_prepare and not sharded and not code.fused_lora
    # autocast runs layer_norm in fp32 and a 4-bit linear returns its input's type, so the stream turns fp32 too
    wide = job.quantized and job.mixed_precision != "no" and shape.norm.startswith("layernorm")
    fsdp_low = sharded and held == 4 and job.mixed_precision != "no"
    autocast_fp32 = held == 4 and low == 2 and not fsdp_low and not prepared
    element = 4 if prepared or wide else 2 if fsdp_low else low
    return Layout(
        shape=shape, job=job, stack=code, tokens=-(-job.batch * job.seq // job.cp), sharded=sharded,
        shards=job.shards if job.parallel != "none" else 1, element=element,
        residual=4 if autocast_fp32 else element, prepared=prepared, autocast_fp32=autocast_fp32,
        weight_bytes=held, gradient_bytes=4 if code.name == "megatron" else held, master=master,
        own=_own(shape, job), layers=-(-shape.blocks // job.pp), in_flight=job.pp,
    )  # fmt: skip


def _own(shape: ModelShape, job: TrainingJob) -> ParameterCounts:
    """Parameters on the fullest GPU of a tensor, pipeline and expert parallel split."""
    whole = shape.parameters
    if job.tp == job.pp == job.ep == 1:
        return whole
    stage = -(-shape.layers // job.pp) / shape.layers
    dense = whole.linear - whole.experts
    # the first stage holds the embedding, the last the head; with one stage both, so the fuller counts
    vocabulary = (whole.embedding, whole.head) if job.pp == 1 else (max(whole.embedding, whole.head), 0)
    experts = round(whole.experts * stage / job.tp / job.ep)
    return ParameterCounts(
        embedding=-(-vocabulary[0] // job.tp),
        head=-(-vocabulary[1] // job.tp),
        linear=round(dense * stage / job.tp) + experts,
        experts=experts,
        norms=round(whole.norms * stage),
        biases=round(whole.biases * stage / job.tp),
        positions=whole.positions,
        others=round(whole.others * stage),
    )


def adapter_count(shape: ModelShape, job: TrainingJob) -> int:
    """Parameters of the adapters: rank x (inputs + outputs) a matrix, and DoRA's magnitudes."""
    return sum(
        linear.count * (job.lora_rank * (linear.rows + linear.columns) + (linear.rows if job.lora_dora else 0))
        for linear in adapted(shape, job)
    )


def adapted(shape: ModelShape, job: TrainingJob) -> list[Linear]:
    """Linears that get an adapter."""
    asked = wanted(job, shape)
    found = [
        linear
        for linear in shape.linears
        if linear.adaptable and bare(linear.role) in asked and (not linear.expert or _experts_reached(job))
    ]
    if "head" in asked:
        found.append(Linear(role="head", rows=shape.vocab, columns=shape.hidden, count=1))
    return found


def _experts_reached(job: TrainingJob) -> bool:
    return stack(job.stack).experts_in_linears if job.experts_quantized is None else job.experts_quantized


def covered(layout: Layout) -> int:
    """Weights that a quantizer turns to few bits, on this GPU."""
    count = layout.own.linear - layout.shape.extra_linear
    return count if _experts_reached(layout.job) else count - layout.own.experts


def quantized_head(layout: Layout) -> int:
    """Weights of the output matrix where it is quantized: Lightning's plugin replaces every nn.Linear, the head
    too (lightning/fabric/plugins/precision/bitsandbytes.py); transformers leaves it out."""
    return layout.own.head if layout.stack.litgpt and layout.job.quantized else 0


def kbit(job: TrainingJob) -> float:
    """Bytes per quantized weight."""
    if job.method == "int8-lora":
        return KBIT["int8"]
    if job.method == "gptq-lora":
        return 0.5 + (2.5 / job.quant_group if job.quant_group else 0.0)
    return DOUBLE_QUANT if job.double_quant else KBIT[job.quant]


def scales(job: TrainingJob) -> float:
    """Of these bytes, those of scales: bitsandbytes' quantization state and GPTQ's buffers, which FSDP does
    not shard."""
    if job.method == "gptq-lora":
        return 2 / job.quant_group if job.quant_group else 0.0
    return kbit(job) - 0.5 if job.method == "qlora" else 0.0
