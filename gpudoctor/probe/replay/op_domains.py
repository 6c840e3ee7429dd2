"""What an operation did that is not finite, in words: a logarithm of 0, a sum beyond float16."""

from __future__ import annotations

import re
from typing import Any

from .nonfinite import badness, mapped, tensors_in

_LOGS = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0, "xlogy": 0.0, "special_xlog1py": -1.0}
_ROOTS = {"sqrt": 0.0, "rsqrt": 0.0}
_GROWS = {"exp", "expm1", "exp2", "sinh", "cosh", "special_expit"}
_SOFTMAX = {"_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "_logcumsumexp", "_masked_softmax"}
_SPREADS = {"std", "var", "std_mean", "var_mean"}
_TARGETS = {"nll_loss_forward", "nll_loss2d_forward"}
_INVERSE = {"acos": 1.0, "asin": 1.0, "atanh": 1.0, "acosh": 1.0}
_NORMS = {"native_batch_norm", "_native_batch_norm_legit", "native_layer_norm", "native_group_norm",
          "_fused_rms_norm", "_batch_norm_with_update"}  # fmt: skip

NAMES = {
    "_to_copy": "a cast", "addmm": "a matrix product", "mm": "a matrix product", "bmm": "a matrix product",
    "baddbmm": "a matrix product", "linear": "a matrix product", "convolution": "a convolution",
    "mkldnn_convolution": "a convolution", "convolution_overrideable": "a convolution",
    "_softmax": "softmax", "_log_softmax": "log_softmax", "_safe_softmax": "softmax", "div": "a division",
    "mul": "a product", "add": "a sum", "sub": "a difference", "native_layer_norm": "layer_norm",
    "native_batch_norm": "batch_norm", "_native_batch_norm_legit": "batch_norm",
    "_batch_norm_with_update": "batch_norm", "native_group_norm": "group_norm", "_fused_rms_norm": "rms_norm",
    "nll_loss_forward": "nll_loss", "nll_loss2d_forward": "nll_loss", "reciprocal": "a reciprocal",
    "addcdiv": "a division", "addcmul": "a product", "lift_fresh": "a new tensor", "fill": "fill_",
    "linalg_vector_norm": "norm", "special_xlog1py": "xlog1py",
}  # fmt: skip
"""Operators of torch's own by the names that users know."""
_ATTENTION = re.compile(r"^_(scaled_dot_product|efficient|flash)_?\w*attention")


def base_name(func: Any) -> str:
    """`log` of `aten.log_.default`."""
    name = str(func).split(".")
    middle = name[1] if len(name) > 1 else name[0]
    return middle[:-1] if middle.endswith("_") and not middle.endswith("__") else middle


def operation_name(base: str) -> str:
    """The name that a user knows."""
    if _ATTENTION.match(base):
        return "scaled_dot_product_attention"
    return NAMES.get(base, base.lstrip("_"))


class Edge:
    """What is known of one operation at its edge."""

    def __init__(self, torch: Any, func: Any, args: Any, kwargs: Any, value: str) -> None:
        self._torch = torch
        self._func = func
        self._args = args
        self._kwargs = kwargs
        self._value = value
        self.base = base_name(func)
        self.tensors = list(tensors_in(torch, (args, kwargs)))

    def wide(self) -> tuple[str | None, float | None]:
        """The same operation in float64: `finite`, `nan`, `inf` (None: it cannot be told), largest size."""
        torch = self._torch
        func = self._func
        try:
            if func._schema.is_mutable:  # the operator that leaves its arguments alone, where there is one
                func = getattr(getattr(torch.ops.aten, self.base), str(func).rpartition(".")[2])
            kwargs = dict(self._kwargs)
            dtype = kwargs.get("dtype")
            if dtype is not None and dtype.is_floating_point:
                kwargs["dtype"] = torch.float64
            result = func(*mapped(torch, self._args, self._doubled), **mapped(torch, kwargs, self._doubled))
            found = [tensor for tensor in tensors_in(torch, result) if tensor.is_floating_point()]
            words = [badness(torch, tensor) for tensor in found]
            bad = "nan" if "nan" in words else "inf" if any(words) else "finite"
            sizes = [float(tensor.abs().max()) for tensor in found if tensor.numel()]
            return bad, max(sizes) if bad == "finite" and sizes else None
        except Exception:  # no such kernel, too little memory: nobody knows
            return None, None

    def _doubled(self, tensor: Any) -> Any:
        return tensor.double() if tensor.is_floating_point() else tensor

    def words(self) -> tuple[str, str]:
        """A key (`zero`, `negative`, `empty`, `masked`, `spread`, `overflow`, "") and a clause."""
        try:
            found = self._special()
        except Exception:
            found = None
        return found or ("", "")

    def _special(self) -> tuple[str, str] | None:
        base = self.base
        first = self.tensors[0] if self.tensors else None
        if base in _LOGS and first is not None:
            x = self.tensors[-1] if base in ("xlogy", "special_xlog1py") else first
            return self._below(x, _LOGS[base], "the logarithm")
        if base in _ROOTS and first is not None:
            return self._below(first, 0.0, "the square root" if base == "sqrt" else "1/sqrt")
        if base in ("div", "true_divide", "reciprocal", "addcdiv", "divide"):
            return self._division()
        if base == "pow":
            return self._power()
        if base in _GROWS and first is not None:
            return "overflow", f"{base} of {float(first.max()):.4g}"
        if base in _SOFTMAX and first is not None:
            return self._masked(first)
        if base in _SPREADS and first is not None:
            return self._spread(first)
        if base in ("mean", "sum", "nanmean") and first is not None and not first.numel():
            return "empty", "the mean of no value at all"
        if base in _TARGETS:
            return self._ignored()
        if base in _INVERSE and first is not None:
            return "domain", f"{base} of {float(first.abs().max()):.9g}"
        if base in _NORMS and first is not None:
            return self._normalised(first)
        return None

    def _below(self, x: Any, edge: float, what: str) -> tuple[str, str] | None:
        at, under = int((x == edge).sum()), int((x < edge).sum())
        if under:
            where = f"{under:,} of {x.numel():,} values are below {edge:g}, the smallest {float(x.min()):.4g}"
            return "negative", f"{what} of a number below {edge:g}: {where}"
        if at:
            return "zero", f"{what} of {edge:g}: {at:,} of {x.numel():,} values are {edge:g}"
        return None

    def _division(self) -> tuple[str, str] | None:
        torch = self._torch
        divisor = self._args[-1] if self.base != "reciprocal" else self._args[0]
        if isinstance(divisor, (int, float)):
            return ("zero", "a division by the number 0") if divisor == 0 else None
        if not isinstance(divisor, torch.Tensor):
            return None
        zeros = int((divisor == 0).sum())
        if not zeros:
            return None
        what = "0/0" if self._value == "nan" else "a division by 0"
        if divisor.numel() == 1:
            return "zero", f"{what}: the divisor is 0"
        return "zero", f"{what}: {zeros:,} of {divisor.numel():,} divisors are 0"

    def _power(self) -> tuple[str, str] | None:
        torch = self._torch
        base, exponent = self._args[0], self._args[1]
        if not isinstance(base, torch.Tensor):
            return None
        power = f"{exponent:g}" if isinstance(exponent, (int, float)) else "a tensor"
        zeros, under = int((base == 0).sum()), int((base < 0).sum())
        if self._value == "nan" and under:
            return "negative", f"a number below 0 to the power {power}: {under:,} of {base.numel():,} values"
        if zeros and not (isinstance(exponent, (int, float)) and exponent >= 0):
            return "zero", f"0 to the power {power}: {zeros:,} of {base.numel():,} values are 0"
        return None

    def _masked(self, x: Any) -> tuple[str, str] | None:
        given = self._args[1] if len(self._args) > 1 else -1
        axis = given[0] if isinstance(given, (list, tuple)) else given
        if not isinstance(axis, int):
            return None
        rows = (x == float("-inf")).all(dim=axis)
        count = int(rows.sum())
        if not count:
            return None
        return (
            "masked",
            f"{count:,} of {rows.numel():,} rows are -inf throughout: every place of them is masked",
        )

    def _spread(self, x: Any) -> tuple[str, str] | None:
        axes = self._args[1] if len(self._args) > 1 and isinstance(self._args[1], (list, tuple)) else None
        count = x.numel()
        if axes:
            count = 1
            for axis in axes:
                count *= x.shape[axis]
        if count > 1:
            return None
        what = "standard deviation" if "std" in self.base else "variance"
        many = "no value" if count == 0 else "one value"
        return "spread", f"the {what} of {many}: its unbiased form divides by 0"

    def _ignored(self) -> tuple[str, str] | None:
        target, ignored = self._args[1], self._args[4]
        if not target.numel():
            return "empty", "the mean over an empty batch"
        if bool((target == ignored).all()):
            return "empty", f"all {target.numel():,} targets are {ignored} (ignore_index): a mean over nothing"
        return None

    def _normalised(self, x: Any) -> tuple[str, str] | None:
        epsilon = [value for value in self._args if isinstance(value, float)]
        if epsilon and epsilon[-1] == 0.0:
            return "zero", f"a division by a spread of 0 (eps=0, {x.numel():,} values)"
        return None


_DERIVATIVES = {
    "sqrt": "the derivative of sqrt is infinite at 0",
    "rsqrt": "the derivative of rsqrt is infinite at 0",
    "pow": "the derivative of a power below 1 is infinite at 0",
    "log": "the derivative of log is infinite at 0",
    "acos": "the derivative of acos is infinite at 1 and -1",
    "asin": "the derivative of asin is infinite at 1 and -1",
    "atan2": "the derivative of atan2 does not exist at (0, 0)",
    "div": "the derivative of a division by 0 is infinite",
    "reciprocal": "the derivative of 1/x is infinite at 0",
    "norm": "the derivative of a norm does not exist at 0",
}
_NODE = re.compile(r"(?:torch::autograd::)?(\w+?)Backward\d*$")


def node_operation(name: str) -> str:
    """`sqrt` of `SqrtBackward0`; the class's name of a function of the user's."""
    found = _NODE.match(name)
    base = found[1] if found else name.rpartition("::")[2]
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", base).lower()
    for known in ("linalg_vector_norm", "norm"):
        if snake.startswith(known):
            return "norm"
    return snake


def derivative(operation: str) -> str:
    """What a derivative does at its edge; "" where that is nothing to know by heart."""
    return _DERIVATIVES.get(operation, "")
