"""An attention that transformers calls as it calls flash-attention, where that package has no kernel.

It keeps what flash-attention keeps (queries, keys, values, output, one fp32 number a head and token; Dao, arXiv
2307.08691) and never a mask.
"""

from typing import Any

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
