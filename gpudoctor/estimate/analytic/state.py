"""What stays from step to step: weights, adapters, optimizer state; and gradients and the step's temporaries."""

from gpudoctor.estimate.analytic.layout import Layout, block_parameters, covered, kbit, scales, trained
from gpudoctor.estimate.result import Line

WORKSPACE = 8_519_680
"""cuBLAS workspace per handle and stream, CUBLAS_WORKSPACE_CONFIG :4096:2:16:8 (before Hopper)."""
WORKSPACE_HOPPER = 32 << 20
"""The same on Hopper and later (aten/src/ATen/cuda/CUDABlas.cpp)."""
BUCKET = 500_000_000
"""DeepSpeed's default reduce and gather bucket, elements (deepspeed/runtime/zero/config.py)."""

_STATES = {
    "adamw": "two moments", "adamw-foreach": "two moments", "adamw-fused": "two moments", "paged-adamw": "two moments",
    "muon": "one momentum", "sgd-momentum": "one momentum", "lion": "one momentum", "in-backward": "two moments",
}  # fmt: skip
_COUNT = {"two moments": 2, "one momentum": 1}
_FEW_BITS = {
    "adamw-8bit": 2 * (1 + 4 / 256), "paged-adamw-8bit": 2 * (1 + 4 / 256), "adamw-ao-8bit": 2 * (1 + 4 / 256),
    "adamw-ao-4bit": 2 * (0.5 + 4 / 128), "lion-8bit": 1 + 4 / 256, "in-backward-8bit": 2 * (1 + 4 / 256),
}  # fmt: skip
"""Bytes per parameter of quantized states: bitsandbytes blocks of 256, torchao blocks of 256 and 128, fp32 scales."""


def weight_lines(layout: Layout) -> list[Line]:
    """Weights as they lie on the GPU between steps."""
    job, own, shape = layout.job, layout.own, layout.shape
    if job.offload == "params":
        return []
    n = layout.shards if layout.sharded else 1
    over = f" / {n} GPUs" if n > 1 else ""
    width = layout.weight_bytes
    if not job.quantized:
        count = own.total
        return [_line("weights", width * count / n, f"{width} B x {count:,} parameters{over}", "tensor count")]
    packed, per = covered(layout), kbit(job)
    whole = scales(job) if n > 1 else 0.0
    rest = own.total - packed - own.embedding - own.head
    prepared = layout.prepared
    small = 4 if prepared else 2
    vocabulary = 4 if prepared and layout.stack.kbit_vocab_fp32 else 2
    small_matrices = own.experts if own.linear - shape.extra_linear != packed else 0
    lines = [
        _line(
            "weights",
            (per - whole) * packed / n + whole * packed,
            f"{per - whole:.4f} B x {packed:,} quantized weights{over}"
            + (f" + {whole:.4f} B of scales, whole on each" if whole else ""),
            _kbit_source(job.method),
        ),
        _line(
            "embeddings",
            vocabulary * (own.embedding + own.head) / n,
            f"{vocabulary} B x {own.embedding + own.head:,} weights of embedding and head{over}",
            "quantizers leave the vocabulary matrices"
            + (" and PEFT's k-bit preparation turns them to fp32" if vocabulary == 4 else ""),
        ),
    ]
    if small_matrices:
        lines.append(
            _line("experts", 2 * small_matrices / n, f"2 B x {small_matrices:,} weights of fused experts{over}",
                  "transformers 5 fuses experts into 3-D parameters, which bitsandbytes passes by")
        )  # fmt: skip
    lines.append(
        _line(
            "small-weights",
            small * (rest - small_matrices) / n,
            f"{small} B x {rest - small_matrices:,} norms, biases and others{over}",
            "tensor count",
        )
    )
    return lines


def adapter_width(layout: Layout) -> int:
    """Bytes of an adapter's weight."""
    if layout.sharded and layout.job.quantized and layout.stack.fsdp_adapters_low:
        return 2
    if layout.master:
        return 2
    return 4 if layout.job.lora_dtype == "fp32" else 2


def _adapter_shards(layout: Layout) -> int:
    whole = layout.job.quantized and layout.stack.fsdp_adapters_low
    return layout.shards if layout.sharded and not whole else 1


def trained_width(layout: Layout) -> int:
    """Bytes of a trained parameter."""
    return adapter_width(layout) if layout.job.adapted else layout.weight_bytes


def adapter_lines(layout: Layout) -> list[Line]:
    """Adapters' weights."""
    if not layout.job.adapted:
        return []
    width, count, n = adapter_width(layout), trained(layout), _adapter_shards(layout)
    over = f" / {n} GPUs" if n > 1 else ""
    return [
        _line("adapters", width * count / n, f"{width} B x {count:,} adapter parameters of rank {layout.job.lora_rank}{over}",
              "rank x (inputs + outputs) for each adapted matrix (LoRA, arXiv 2106.09685)")
    ]  # fmt: skip


def optimizer_shards(layout: Layout) -> int:
    """Over how many GPUs the optimizer state is spread."""
    if layout.job.parallel in {"zero1", "zero2"}:
        return layout.shards
    if layout.stack.name == "megatron":
        return layout.job.data_parallel
    return _adapter_shards(layout) if layout.job.adapted else layout.shards if layout.sharded else 1


def gradient_shards(layout: Layout) -> int:
    """Over how many GPUs the gradients are spread."""
    if layout.job.parallel == "zero2":
        return layout.shards
    return _adapter_shards(layout) if layout.job.adapted else layout.shards if layout.sharded else 1


def gradient_lines(layout: Layout, what: str = "gradients") -> list[Line]:
    """All gradients of a step."""
    if layout.job.optimizer in {"lomo", "in-backward", "in-backward-8bit", "galore"}:
        block = sum(block_parameters(layout.shape))
        width = layout.gradient_bytes
        return [
            _line(
                what,
                width * block,
                f"{width} B x {block:,} parameters of one layer",
                "the optimizer steps inside the backward",
            )
        ]
    width = adapter_width(layout) if layout.job.adapted else layout.gradient_bytes
    count, n = trained(layout), gradient_shards(layout)
    if layout.job.offload != "none" and layout.job.parallel in {"zero1", "zero2", "zero3"}:
        return []
    over = f" / {n} GPUs" if n > 1 else ""
    return [_line(what, width * count / n, f"{width} B x {count:,} trained parameters{over}", "tensor count")]


def optimizer_lines(layout: Layout) -> list[Line]:
    """Optimizer state."""
    job = layout.job
    if job.offload != "none":
        return []
    width, count, n = trained_width(layout), trained(layout), optimizer_shards(layout)
    over = f" / {n} GPUs" if n > 1 else ""
    if layout.master:
        return [_line("optimizer", 12 * count / n, f"(4 B master + 8 B moments) x {count:,} trained parameters{over}",
                      "mixed precision with fp32 master weights (ZeRO, arXiv 1910.02054)")]  # fmt: skip
    name = job.optimizer
    if name in _FEW_BITS:
        per = _FEW_BITS[name]
        return [
            _line(
                "optimizer",
                per * count / n,
                f"{per:.3f} B x {count:,} trained parameters{over}",
                f"{name}: block-wise states with fp32 scales",
            )
        ]
    if name == "adafactor":
        factors = sum((linear.rows + linear.columns) * linear.count for linear in layout.shape.linears)
        return [
            _line(
                "optimizer",
                4 * min(factors, count) / n,
                f"4 B x {min(factors, count):,} row and column factors{over}",
                "Adafactor, arXiv 1804.04235",
            )
        ]
    if name == "galore":
        per = 2 * 4 * 0.25
        return [
            _line(
                "optimizer",
                per * count / n,
                f"{per:g} B x {count:,} parameters{over}",
                "GaLore at a quarter of the width (arXiv 2403.03507)",
            )
        ]
    if name not in _STATES:
        return []
    states = _COUNT[_STATES[name]]
    return [_line("optimizer", states * width * count / n, f"{states} x {width} B x {count:,} trained parameters{over} ({_STATES[name]})",
                  "torch.optim keeps states in the parameter's type")]  # fmt: skip


def step_lines(layout: Layout) -> list[Line]:
    """Temporaries of the optimizer step."""
    job = layout.job
    if job.offload != "none":
        return []
    width, count, n = trained_width(layout), trained(layout), optimizer_shards(layout)
    over = f" / {n} GPUs" if n > 1 else ""
    if layout.master:
        return [
            _line(
                "step-temporaries",
                4 * count / n,
                f"4 B x {count:,} fp32 gradients of this GPU's part{over}",
                "deepspeed/runtime/zero: gradients of the partition in fp32",
            )
        ]
    if job.optimizer in {"adamw", "adamw-foreach"}:
        return [_line("step-temporaries", width * count / n, f"{width} B x {count:,} trained parameters{over}",
                      "torch.optim._multi_tensor_adamw holds one square-root list of all parameters")]  # fmt: skip
    if job.optimizer == "adafactor" and count:
        largest = max((linear.rows * linear.columns for linear in layout.shape.linears), default=0)
        return [
            _line(
                "step-temporaries",
                4 * largest,
                f"4 B x {largest:,} elements of the largest update",
                "one update at a time",
            )
        ]
    return []


def fixed_lines(layout: Layout, capability: tuple[int, int] | None) -> list[Line]:
    """What no tensor of the model explains: workspaces in the allocator, the batch, communication buckets."""
    job = layout.job
    each = WORKSPACE_HOPPER if capability is not None and capability >= (9, 0) else WORKSPACE
    # one handle for the thread of the forward, one for autograd's
    threads = 2 if job.mode == "train" else 1
    lines = [
        _line(
            "workspace",
            threads * each,
            f"{threads} x {each:,} B (cuBLAS, one per thread and stream)",
            "aten/src/ATen/cuda/CublasHandlePool.cpp",
        )
    ]
    if job.mode == "train":
        lines.append(
            _line(
                "batch",
                24 * layout.tokens,
                f"3 x 8 B x {layout.tokens:,} tokens (ids, labels, mask)",
                "int64 tensors",
            )
        )
    trains = trained(layout)
    if job.parallel == "ddp" and layout.shards > 1 and job.mode == "train":
        width = adapter_width(layout) if job.adapted else layout.gradient_bytes
        lines.append(
            _line(
                "buckets",
                width * trains,
                f"{width} B x {trains:,} trained parameters",
                "DDP's gradient buckets (gradient_as_bucket_view=False)",
            )
        )
    if job.parallel in {"zero1", "zero2", "zero3"} and job.mode == "train":
        bucket = min(BUCKET, trains)
        lines.append(
            _line(
                "buckets",
                2 * 2 * bucket,
                f"2 x 2 B x {bucket:,} elements (reduce and gather buckets)",
                "deepspeed/runtime/zero/config.py defaults",
            )
        )
    return lines


def _kbit_source(method: str) -> str:
    return {
        "qlora": "bitsandbytes 4-bit with one scale per 64 weights (QLoRA, arXiv 2305.14314)",
        "int8-lora": "bitsandbytes LLM.int8 (arXiv 2208.07339)",
        "gptq-lora": "GPTQ 4-bit, one scale and zero point per 128 weights",
    }[method]


def _line(kind: str, amount: float, formula: str, source: str) -> Line:
    return Line(kind=kind, bytes=round(amount), formula=formula, source=source)
