"""One step with more digits: every operation in float32 or float64, whatever the program asks for.

A dispatch mode widens what goes into an operator and asks it for a wide result, so half precision (autocast's
or the model's own) and single precision do not take part. Weights and data stay as they are between the
operators. What has no such kernel runs as it would have.
"""

from __future__ import annotations

from typing import Any

from .op_domains import base_name
from .pytree import mapped, tensors_in


class Wide:
    """Widens the operations of a step."""

    def __init__(self, torch: Any, precision: str) -> None:
        self.torch = torch
        self.dtype = getattr(torch, precision)
        self._size = torch.finfo(self.dtype).bits
        self.narrow = 0
        """Operations that ran as they would have."""
        self.all = 0
        self.passing = False
        """Whether a backward pass runs: its casts are autograd's, which wants each gradient in its own type."""
        self._mode = _mode(self)

    def begin(self) -> None:
        """From now on."""
        self._mode.__enter__()

    def end(self) -> None:
        """No longer."""
        self._mode.__exit__(None, None, None)

    def widened(self, tensor: Any) -> Any:
        """The tensor in the wide type, if it is a narrower number."""
        if tensor.is_floating_point() and torch_bits(self.torch, tensor.dtype) < self._size:
            return tensor.to(self.dtype)
        return tensor

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's result."""
        self.all += 1
        base = base_name(func)
        if base == "_local_scalar_dense" or (self.passing and base == "_to_copy"):
            return func(*args, **kwargs)
        try:
            return self._run(func, args, kwargs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            self.narrow += 1
            return self._as_it_was(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        torch = self.torch
        dtype = kwargs.get("dtype")
        if dtype is not None and dtype.is_floating_point and torch_bits(torch, dtype) < self._size:
            kwargs = {**kwargs, "dtype": self.dtype}
        if not func._schema.is_mutable:
            if any(item.alias_info is not None for item in func._schema.returns):
                return func(*args, **kwargs)  # a view stays one
            return func(*mapped(torch, args, self.widened), **mapped(torch, kwargs, self.widened))
        written = {
            id(tensor)
            for place, item in enumerate(func._schema.arguments)
            if item.alias_info is not None and item.alias_info.is_write
            for tensor in tensors_in(torch, args[place] if place < len(args) else kwargs.get(item.name))
        }
        change = lambda tensor: tensor if id(tensor) in written else self.widened(tensor)  # noqa: E731
        return func(*mapped(torch, args, change), **mapped(torch, kwargs, change))

    def _as_it_was(self, func: Any, args: Any, kwargs: Any) -> Any:
        """With arguments of one type, the narrowest among them: wide ones came from here."""
        torch = self.torch
        try:
            return func(*args, **kwargs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            if func._schema.is_mutable:
                raise
        kinds = [t.dtype for t in tensors_in(torch, (args, kwargs)) if t.is_floating_point()]
        least = min(kinds, key=lambda kind: torch_bits(torch, kind), default=torch.float32)
        least = torch.float32 if least is self.dtype else least
        narrowed = lambda tensor: tensor.to(least) if tensor.dtype is self.dtype else tensor  # noqa: E731
        return func(*mapped(torch, args, narrowed), **mapped(torch, kwargs, narrowed))


def torch_bits(torch: Any, dtype: Any) -> int:
    """Bits of a floating type."""
    return int(torch.finfo(dtype).bits)


def _mode(wide: Wide) -> Any:
    """The dispatch mode."""

    def dispatch(_mode: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return wide.run(func, args, kwargs or {})

    base = wide.torch.utils._python_dispatch.TorchDispatchMode
    return type("Widening", (base,), {"__torch_dispatch__": dispatch})()
