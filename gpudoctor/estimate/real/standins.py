"""Stand-ins where a kernel is missing: for flash-attention, and for the linear layers of bitsandbytes."""

from functools import cache
from typing import Any

from gpudoctor.estimate.job import TrainingJob

# An attention that transformers calls as it calls flash-attention, where that package has no kernel.
#
# It keeps what flash-attention keeps (queries, keys, values, output, one fp32 number a head and token; Dao,
# arXiv 2307.08691) and never a mask.

FLASH = "gpudoctor_tiled"
"""Its name in transformers; one with `flash` in it would be looked for among the kernels on the hub."""


def register_flash() -> str:
    """Make it known to transformers; its name."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(FLASH, _flash)
    AttentionMaskInterface.register(FLASH, _no_mask)
    return FLASH


def _no_mask(*_: Any, **__: Any) -> None:
    """Causality and windows are the kernel's own matter."""


def _flash(
    module: Any, query: Any, key: Any, value: Any, _mask: Any, dropout: float = 0.0,
    scaling: float | None = None, is_causal: bool | None = None, **_: Any,
) -> tuple[Any, None]:  # fmt: skip
    """query [b, heads, s, d], key and value [b, kv heads, s, d] -> [b, s, heads, d]; fp32 inputs are cast to 16
    bits first, values are padded to the width of the queries (transformers/integrations/flash_attention.py)."""
    import torch

    given, width = query.dtype, value.shape[-1]
    if given == torch.float32:
        low = _low(module, query.device.type)
        query, key, value = query.to(low), key.to(low), value.to(low)
    if width != query.shape[-1]:
        value = torch.nn.functional.pad(value, [0, query.shape[-1] - width])
    causal = is_causal if is_causal is not None else bool(getattr(module, "is_causal", True))
    found = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, dropout_p=dropout, is_causal=causal and query.shape[2] > 1, scale=scaling,
        enable_gqa=key.shape[1] != query.shape[1],
    )  # fmt: skip
    return found.transpose(1, 2)[..., :width].contiguous(), None


def _low(module: Any, device: str) -> Any:
    """The type that flash-attention gets in place of fp32."""
    import torch

    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    types = {parameter.dtype for parameter in module.parameters()}
    return torch.float16 if torch.float16 in types else torch.bfloat16


# Stand-ins for bitsandbytes' linear layers, which have no kernels for fake tensors or for the CPU.
#
# Each holds what the real layer holds, byte for byte, and allocates in its forward and backward what the real
# one allocates: the weight restored to the compute type for one product, the output in the input's type. The
# values are arbitrary: a stand-in tells memory, not losses.

BLOCK, NESTED = 64, 256
"""Weights that share a scale, and scales that share a scale (bitsandbytes/nn/modules.py, Params4bit)."""


def quantize(model: Any, job: TrainingJob) -> Any:
    """Every linear of the body replaced; embedding and head stay, as transformers keeps them."""
    head = model.get_output_embeddings()  # which transformers does not quantize, tied or not
    kept = {name for name, module in model.named_modules() if module is head} | {"lm_head", "classifier"}
    made = four_bit_class()
    for name, module in list(model.named_modules()):
        for child_name, child in list(module.named_children()):
            whole = f"{name}.{child_name}" if name else child_name
            if is_linear(child) and child_name not in kept and whole not in kept:
                setattr(module, child_name, made(child, job))
    return model


def is_linear(module: Any) -> bool:
    """Whether a module is what transformers quantizes: linears, their heirs, and GPT-2's transposed ones
    (transformers/integrations/bitsandbytes.py)."""
    import torch

    return isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"


@cache
def four_bit_class() -> Any:
    """The class of 4-bit linears: 0.5 B a weight, and scales: fp32 for 64 weights, or, quantized too, one byte
    for 64 with an fp32 for 256 of these (0.5625 and 0.5159 B a weight; QLoRA, arXiv 2305.14314)."""
    import torch

    product = _product(torch)

    class FourBit(torch.nn.Linear):
        """Stand-in for `bitsandbytes.nn.Linear4bit`."""

        def __init__(self, linear: Any, job: TrainingJob) -> None:
            torch.nn.Module.__init__(self)
            self.in_features, self.out_features = _widths(linear)
            self.compute_dtype = _compute_dtype(job)
            count, device = linear.weight.numel(), linear.weight.device
            packed = torch.zeros((count + 1) // 2, 1, dtype=torch.uint8, device=device)
            self.weight = torch.nn.Parameter(packed, requires_grad=False)
            self.bias = linear.bias
            scales = -(-count // BLOCK)
            small = torch.uint8 if job.double_quant else torch.float32
            self.register_buffer("absmax", torch.zeros(scales, dtype=small, device=device), persistent=False)
            if job.double_quant:
                nested = torch.zeros(-(-scales // NESTED), device=device)
                self.register_buffer("nested_absmax", nested, persistent=False)

        def forward(self, x: Any) -> Any:
            """x [..., in] in any type -> [..., out] in the same (bitsandbytes/nn/modules.py, Linear4bit)."""
            given = x.dtype
            x = x.to(self.compute_dtype)
            bias = None if self.bias is None else self.bias.to(self.compute_dtype)
            found = product.apply(x, self.weight, self.out_features, self.in_features, self.absmax.dtype)
            return (found if bias is None else found + bias).to(given)

    return FourBit


def _product(torch: Any) -> Any:
    """x W^T for a packed W, as bitsandbytes' MatMul4Bit: W is restored for the product, forward and backward,
    and nothing but the packed W is kept."""

    class Product(torch.autograd.Function):
        """x [..., in], packed W of out x in -> [..., out]."""

        @staticmethod
        def forward(ctx: Any, x: Any, packed: Any, rows: int, columns: int, scale: Any) -> Any:
            """The product; the restored weight is freed when it returns."""
            ctx.rows, ctx.columns, ctx.scale = rows, columns, scale
            ctx.save_for_backward(packed)
            return torch.nn.functional.linear(x, _restored(torch, packed, rows, columns, scale, x.dtype))

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> tuple[Any, None, None, None, None]:
            """The input's gradient, by the weight restored once more."""
            (packed,) = ctx.saved_tensors
            weight = _restored(torch, packed, ctx.rows, ctx.columns, ctx.scale, gradient.dtype)
            return gradient @ weight, None, None, None, None

    return Product


def _restored(torch: Any, packed: Any, rows: int, columns: int, scale: Any, dtype: Any) -> Any:
    """A weight of [rows, columns]; quantized scales are restored first (functional.dequantize_4bit)."""
    if scale is torch.uint8:
        scales = torch.empty(-(-rows * columns // BLOCK), device=packed.device)
        weight = torch.full((rows, columns), 0.01, dtype=dtype, device=packed.device)
        del scales
        return weight
    return torch.full((rows, columns), 0.01, dtype=dtype, device=packed.device)


def _widths(linear: Any) -> tuple[int, int]:
    """Input and output width; GPT-2's linears hold their weight as [in, out]."""
    if type(linear).__name__ == "Conv1D":
        rows, columns = linear.weight.shape
        return int(rows), int(columns)
    return linear.in_features, linear.out_features


def _compute_dtype(job: TrainingJob) -> Any:
    """Type of the 4-bit products: that of autocast, else the 16-bit type that was asked for."""
    import torch

    low = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return low.get(job.mixed_precision) or low.get(job.dtype, torch.float32)


@cache
def adapter_class() -> Any:
    """PEFT's adapter on a 4-bit or 8-bit linear: it clones the base's output and adds to the clone
    (peft/tuners/lora/bnb.py)."""
    import torch
    from peft.tuners.lora.layer import Linear, LoraLayer

    class Adapted(Linear):
        """`peft.tuners.lora.bnb.Linear4bit` over a stand-in."""

        def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
            """The base's output and the adapter's, added out of place."""
            result = self.base_layer(x, *args, **kwargs).clone()
            converts = not torch.is_autocast_enabled(x.device.type)
            for name in self.active_adapters:
                if converts:
                    x = self._cast_input_dtype(x, self.lora_A[name].weight.dtype)
                if name in self.lora_variant:
                    result = self.lora_variant[name].forward(self, active_adapter=name, x=x, result=result)
                    continue
                down, up = self.lora_A[name], self.lora_B[name]
                output = up(down(self.lora_dropout[name](x))) * self.scaling[name]
                result = result + (output.to(result.dtype) if converts else output)
            return result

    assert issubclass(Adapted, LoraLayer)
    return Adapted
