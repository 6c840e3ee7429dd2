"""What torch would do on a GPU, where the tensors are fake or say that they are on the CPU."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from gpudoctor.estimate.tables import read_table

# Fake tensors of a CUDA device cannot run a backward in a torch that sees no card, so the trace runs on fake
# CPU tensors and makes CUDA's choices by hand where they change what is kept: the kernel of attention, the mask
# of a dropout, the operations that autocast runs in fp32. Sources:
# aten/src/ATen/native/transformers/attention.cpp and cuda/sdp_utils.cpp, aten/src/ATen/native/Dropout.cpp,
# aten/src/ATen/autocast_mode.h.

_FP32, _FP32_FUNCTIONAL = read_table("autocast.json")["wide"]


@contextmanager
def cuda_choices() -> Iterator[None]:
    """Inside, CPU tensors are treated as CUDA would treat them."""
    import torch

    mode = _choosing()()
    engine, apply = torch.autograd._engine_run_backward, torch.nn.Module._apply

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        with mode:  # a mode is off while it decides about backward(), which recomputes the model
            return engine(*args, **kwargs)

    torch.autograd._engine_run_backward, torch.nn.Module._apply = run_backward, _apply
    try:
        with mode:
            yield
    finally:
        torch.autograd._engine_run_backward, torch.nn.Module._apply = engine, apply


def _apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
    """`Module._apply` for fake tensors: torch's own swaps them, which fails where anything refers to them."""
    import torch

    for module in self.children() if recurse else ():
        module._apply(fn)
    for parameter in self._parameters.values():
        if parameter is None:
            continue
        with torch.no_grad():
            moved = fn(parameter)
            if moved is not parameter:
                parameter.data = moved
            if parameter.grad is not None:
                parameter.grad = fn(parameter.grad)
    for name, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[name] = fn(buffer)
    return self


@cache
def _choosing() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    functional = torch.nn.functional
    special: dict[Any, Any] = {
        functional.scaled_dot_product_attention: attention,
        functional.dropout: _dropout,
        torch.dropout: _dropout,
    }
    for owner, name in ((functional, "grouped_mm"), (torch, "_grouped_mm")):
        if hasattr(owner, name):
            special[getattr(owner, name)] = _grouped(getattr(owner, name))
    wide = {getattr(torch, name) for name in _FP32 if hasattr(torch, name)}
    wide |= {getattr(torch.Tensor, name) for name in _FP32 if hasattr(torch.Tensor, name)}
    wide |= {getattr(functional, name) for name in _FP32_FUNCTIONAL if hasattr(functional, name)}

    class Choosing(TorchFunctionMode):
        """Python's calls into torch pass here before they are taken apart."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            chosen = special.get(func)
            if chosen is not None:
                return chosen(*args, **kwargs)
            if func in wide and torch.is_autocast_enabled("cpu"):
                args = tuple(_widened(each) for each in args)
                kwargs = {name: _widened(each) for name, each in kwargs.items()}
            return func(*args, **kwargs)

    return Choosing


def _widened(value: Any) -> Any:
    """A 16-bit tensor in fp32; a softmax that is asked for 16 bits keeps its word."""
    import torch

    low = isinstance(value, torch.Tensor) and value.dtype in {torch.bfloat16, torch.float16}
    return value.float() if low else value


def _dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """A fused kernel with a mask of one byte an element; on the CPU the mask would have x's type."""
    import torch

    if not training or p == 0:
        return x
    if inplace:
        return x.mul_(torch.empty_like(x, dtype=torch.bool).to(x.dtype))
    return torch.native_dropout(x, p, True)[0]


def _grouped(real: Callable[..., Any]) -> Callable[..., Any]:
    """Products of experts: CUDA's kernel takes fp32 and fp16 too, whose fake knows bf16 only; transformers' own
    operation keeps the same tensors (integrations/moe.py)."""
    import torch

    def product(x: Any, weight: Any, offs: Any = None, **kwargs: Any) -> Any:
        if x.dtype is torch.bfloat16 or offs is None or not hasattr(torch.ops.transformers, _FALLBACK):
            return real(x, weight, offs=offs, **kwargs)
        return getattr(torch.ops.transformers, _FALLBACK)(x, weight, offs)

    return product


_FALLBACK = "grouped_mm_fallback"


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """The kernel that CUDA takes: flash without a mask in 16 bits, else the memory-efficient one, else plain
    operations. query [b, heads, s, d] -> [b, heads, s, d of value]."""
    import torch

    if torch.is_autocast_enabled("cpu"):
        low = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(low), key.to(low), value.to(low)
    grouped = key.shape[1] != query.shape[1]
    widths = {query.shape[-1], key.shape[-1], value.shape[-1]}
    half = query.dtype in {torch.bfloat16, torch.float16}
    if half and attn_mask is None and len(widths) == 1 and max(widths) <= 256:
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if not grouped:
        return _efficient(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def _flash(query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, scale: float | None) -> Any:
    """Heads are padded to a multiple of 8; keys and values of fewer heads are read as they are."""
    import torch

    width = query.shape[-1]
    scale = scale if scale is not None else width**-0.5
    if width % 8:
        query, key, value = (torch.nn.functional.pad(each, (0, 8 - width % 8)) for each in (query, key, value))
    found = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, dropout_p, is_causal, False, scale=scale
    )[0]
    return found[..., :width] if width % 8 else found


def _efficient(
    query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool, scale: float | None
) -> Any:
    """A mask of truth values becomes an additive one in the queries' type, made anew in every call."""
    import torch

    if mask is not None:
        if mask.dtype == torch.bool:
            added = torch.zeros_like(mask, dtype=query.dtype)
            mask = added.masked_fill_(mask.logical_not(), float("-inf"))
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, True, dropout_p, is_causal, scale=scale
    )[0]


# The world in which a job is followed: fake tensors, CUDA's choices, answers that fakes cannot give.


@contextmanager
def fake_world() -> Iterator[None]:
    """Inside, tensors have shapes and types and no memory, and operations choose what CUDA would choose."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with ExitStack() as stack:
        for target, name, value in _answers():
            if hasattr(target, name):
                stack.enter_context(patch.object(target, name, value))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(cuda_choices())
        yield


def _answers() -> list[tuple[Any, str, Any]]:
    """What transformers asks of a mask's or positions' values, which decides whether a mask is made at all: no
    row is padded, and none is packed of several."""
    from transformers import masking_utils

    return [
        (masking_utils, "find_packed_sequence_indices", lambda *_: None),
        (masking_utils, "fast_all", lambda *_: True),
        (masking_utils, "is_tracing", lambda *_: False),
    ]
