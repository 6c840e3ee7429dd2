"""What stays from step to step beside the optimizer: trained parts, weights, adapters, workspaces, buckets."""

from gpudoctor.estimate.analytic.layout import Layout, adapter_count, covered, kbit, quantized_head, scales
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Line, line
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.model.records import frozen

# What is trained: how many parameters in which type, and over how many GPUs each of their parts is spread.


@frozen
class Group:
    """Trained parameters that are held alike."""

    kind: str
    """Kind of line for their weights where these are extra: `adapters`, `trained-copies`."""
    what: str
    count: int
    """How many there are on a GPU before data-parallel sharding."""
    width: int
    """Bytes of a weight."""
    gradient: int
    shards: int
    """Over how many GPUs the weights are spread."""
    gradient_shards: int
    optimizer_shards: int


def groups(layout: Layout) -> tuple[Group, ...]:
    """Adapters and whole trained modules, or the trained part of the model."""
    job = layout.job
    if not job.adapted:
        held, gradient = layout.weight_bytes, layout.gradient_bytes
        count, experts = _trained(layout), layout.own.experts if job.ep > 1 and job.method == "full" else 0
        found = [_group(layout, "weights", "trained parameters", count - experts, held, gradient, whole=False)]
        if experts:  # their copies are on fewer GPUs
            found.append(
                _group(layout, "weights", "experts' parameters", experts, held, gradient, whole=False, ep=job.ep)
            )
        return tuple(found)
    width = _adapter_width(layout)
    whole = job.quantized and layout.stack.fsdp_adapters_low
    count = -(-adapter_count(layout.shape, job) // (job.pp * job.tp))
    found = [
        _group(layout, "adapters", f"adapter parameters of rank {job.lora_rank}", count, width, width, whole=whole)
    ]
    if job.train_embeddings:
        rows = layout.own.embedding + layout.own.head
        held = layout.weight_bytes
        found.append(_group(layout, "trained-copies", "weights of embedding and head", rows, held, held, whole=whole))
    return tuple(found)


def _group(
    layout: Layout, kind: str, what: str, count: int, width: int, gradient: int, *, whole: bool, ep: int = 1
) -> Group:
    job, shards = layout.job, layout.shards // ep
    sharded = shards if layout.sharded and not whole else 1
    megatron = layout.stack.name == "megatron" and job.parallel != "ddp"
    spread = shards if job.parallel in {"zero1", "zero2"} or megatron else sharded
    return Group(
        kind=kind, what=what, count=count, width=width, gradient=gradient, shards=sharded,
        gradient_shards=shards if job.parallel == "zero2" else sharded, optimizer_shards=spread,
    )  # fmt: skip


def _adapter_width(layout: Layout) -> int:
    """Bytes of an adapter's weight."""
    low = layout.sharded and layout.job.quantized and layout.stack.fsdp_adapters_low
    return 2 if low or layout.master or layout.job.lora_dtype != "fp32" else 4


def _trained(layout: Layout) -> int:
    """Parameters of the model that get gradients, on this GPU."""
    shape, own = layout.shape, layout.own
    if layout.job.method != "freeze":
        return own.total
    blocks = own.total - own.embedding - own.head
    return round(blocks * trained_share(shape, layout.job)) + (0 if shape.tied else own.head)


def trained_share(shape: ModelShape, job: TrainingJob) -> float:
    """Share of the blocks that a backward goes through."""
    if job.method != "freeze":
        return 1.0
    frozen = max(shape.blocks - 2, 0) if job.freeze_layers is None else job.freeze_layers
    return (shape.blocks - frozen) / shape.blocks


WORKSPACE = 8_519_680
"""cuBLAS workspace per handle and stream, CUBLAS_WORKSPACE_CONFIG :4096:2:16:8 (before Hopper)."""
WORKSPACE_HOPPER = 32 << 20
"""The same on Hopper and later (aten/src/ATen/cuda/CUDABlas.cpp)."""
_KBIT_SOURCES = {
    "qlora": "bitsandbytes 4-bit with one scale per 64 weights (QLoRA, arXiv 2305.14314)",
    "int8-lora": "bitsandbytes LLM.int8 (arXiv 2208.07339)",
    "gptq-lora": "GPTQ 4-bit, one scale and zero point a group of weights",
}
BUCKET = 500_000_000
"""DeepSpeed's default reduce and gather bucket, elements (deepspeed/runtime/zero/config.py)."""


def weight_lines(layout: Layout) -> list[Line]:
    """Weights as they lie on the GPU between steps."""
    job, own, shape = layout.job, layout.own, layout.shape
    if job.offload == "params":
        return []
    n = layout.shards if layout.sharded else 1
    over = f" / {n} GPUs" if n > 1 else ""
    width = layout.weight_bytes
    if not job.quantized:
        experts = own.experts if n > 1 else 0  # spread over fewer GPUs where expert parallelism holds them
        count = own.total + (job.ep - 1) * experts
        return [line("weights", width * count / n, f"{width} B x {count:,} parameters{over}", "tensor count")]
    inside, per, head = covered(layout), kbit(job), quantized_head(layout)
    whole = scales(job) if n > 1 else 0.0
    small = 4 if layout.prepared else 2
    vocabulary = 4 if layout.prepared and layout.stack.kbit_vocab_fp32 else 2
    rows = own.embedding + own.head - head
    experts = own.experts if own.linear - shape.extra_linear != inside else 0
    rest = own.total - inside - own.embedding - own.head - experts
    text = f"{per - whole:.4f} B x {inside + head:,} quantized weights{over}"
    text += f" + {whole:.4f} B of scales, whole on each" if whole else ""
    left = (
        "Lightning quantizes every nn.Linear, so the head too"
        if layout.stack.litgpt
        else "quantizers leave the vocabulary matrices"
    )
    left += " and PEFT's k-bit preparation turns them to fp32" if vocabulary == 4 else ""
    fused = "transformers 5 fuses experts into 3-D parameters, which bitsandbytes passes by"
    fused += " and PEFT's k-bit preparation turns to fp32" if small == 4 else ""
    what = "the embedding" if head else "embedding and head"
    held = [
        ("weights", ((per - whole) / n + whole) * (inside + head), text, _KBIT_SOURCES[job.method]),
        ("embeddings", vocabulary * rows / n, f"{vocabulary} B x {rows:,} weights of {what}{over}", left),
        ("experts", small * experts / n, f"{small} B x {experts:,} weights of fused experts{over}", fused),
        ("small-weights", small * rest / n, f"{small} B x {rest:,} norms, biases and others{over}", "tensor count"),
    ]
    return [line(*each) for each in held if each[0] != "experts" or experts]


def adapter_lines(layout: Layout) -> list[Line]:
    """Adapters' weights, and the copies of embedding and head that are trained whole."""
    if not layout.job.adapted:
        return []
    sources = {
        "adapters": "rank x (inputs + outputs) for each adapted matrix (LoRA, arXiv 2106.09685)",
        "trained-copies": "PEFT copies modules_to_save",
    }
    lines = []
    for group in groups(layout):
        n = group.shards
        text = f"{group.width} B x {group.count:,} {group.what}" + (f" / {n} GPUs" if n > 1 else "")
        lines.append(line(group.kind, group.width * group.count / n, text, sources[group.kind]))
    return lines


def fixed_lines(layout: Layout, capability: tuple[int, int] | None) -> list[Line]:
    """What no tensor of the model explains: workspaces in the allocator, the batch, communication buckets."""
    job = layout.job
    each = WORKSPACE_HOPPER if capability is not None and capability >= (9, 0) else WORKSPACE
    # one handle for the thread of the forward, one for autograd's
    threads = 2 if job.mode == "train" else 1
    text = f"{threads} x {each:,} B (cuBLAS, one per thread and stream)"
    lines = [line("workspace", threads * each, text, "aten/src/ATen/cuda/CublasHandlePool.cpp")]
    if job.mode == "train":
        text = f"3 x 8 B x {layout.tokens:,} tokens (ids, labels, mask)"
        lines.append(line("batch", 24 * layout.tokens, text, "int64 tensors"))
    parts = groups(layout)
    if job.parallel == "ddp" and layout.shards > 1 and job.mode == "train":
        for part in parts:
            text = f"{part.gradient} B x {part.count:,} {part.what}"
            source = "DDP's gradient buckets (gradient_as_bucket_view=False)"
            lines.append(line("buckets", part.gradient * part.count, text, source))
    if job.parallel in {"zero1", "zero2", "zero3"} and job.mode == "train":
        bucket = min(BUCKET, sum(part.count for part in parts))
        text = f"2 x 2 B x {bucket:,} elements (reduce and gather buckets)"
        lines.append(line("buckets", 4 * bucket, text, "deepspeed/runtime/zero/config.py defaults"))
    return lines
