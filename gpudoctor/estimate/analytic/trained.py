"""What is trained: how many parameters in which type, and over how many GPUs each of their parts is spread."""

from dataclasses import dataclass

from gpudoctor.estimate.analytic.layout import Layout, adapter_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Trained parameters that are held alike."""

    kind: str
    """Kind of line for their weights where these are extra: `adapters`, `trained-copies`."""
    what: str
    """The same in a formula."""
    count: int
    """How many there are on a GPU before data-parallel sharding."""
    width: int
    """Bytes of a weight."""
    gradient: int
    """Bytes of a gradient."""
    shards: int
    """Over how many GPUs the weights are spread."""
    gradient_shards: int
    """The same for gradients."""
    optimizer_shards: int
    """The same for optimizer state."""


def groups(layout: Layout) -> tuple[Group, ...]:
    """Adapters and whole trained modules, or the trained part of the model."""
    job = layout.job
    if not job.adapted:
        return (
            _group(
                layout,
                "weights",
                "trained parameters",
                _trained(layout),
                layout.weight_bytes,
                layout.gradient_bytes,
                whole=False,
            ),
        )
    width = _adapter_width(layout)
    whole = job.quantized and layout.stack.fsdp_adapters_low
    count = -(-adapter_count(layout.shape, job) // (job.pp * job.tp))
    found = [
        _group(
            layout, "adapters", f"adapter parameters of rank {job.lora_rank}", count, width, width, whole=whole
        )
    ]
    if job.train_embeddings:
        rows = layout.own.embedding + layout.own.head
        held = layout.weight_bytes
        found.append(
            _group(layout, "trained-copies", "weights of embedding and head", rows, held, held, whole=whole)
        )
    return tuple(found)


def _group(
    layout: Layout, kind: str, what: str, count: int, width: int, gradient: int, *, whole: bool
) -> Group:
    job = layout.job
    sharded = layout.shards if layout.sharded and not whole else 1
    spread = layout.shards if job.parallel in {"zero1", "zero2"} else sharded
    if layout.stack.name == "megatron":
        spread = job.data_parallel
    return Group(
        kind=kind, what=what, count=count, width=width, gradient=gradient, shards=sharded,
        gradient_shards=layout.shards if job.parallel == "zero2" else sharded, optimizer_shards=spread,
    )  # fmt: skip


def _adapter_width(layout: Layout) -> int:
    """Bytes of an adapter's weight."""
    low = layout.sharded and layout.job.quantized and layout.stack.fsdp_adapters_low
    return 2 if low or layout.master or layout.job.lora_dtype != "fp32" else 4


def _trained(layout: Layout) -> int:
    """Parameters of the model that get gradients, on this GPU."""
    shape, job, own = layout.shape, layout.job, layout.own
    if job.method != "freeze":
        return own.total
    frozen = max(shape.blocks - 2, 0) if job.freeze_layers is None else job.freeze_layers
    share = (shape.blocks - frozen) / shape.blocks
    return round((own.total - own.embedding - own.head) * share) + (0 if shape.tied else own.head)
