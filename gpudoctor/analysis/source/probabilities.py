"""Calls that make probabilities: softmax, log-softmax and sigmoid."""

from gpudoctor.model.signs.source import Call, Known

MAKERS = {"softmax": "softmax", "log_softmax": "log_softmax", "sigmoid": "sigmoid", "softmax_": "softmax"}
LAYERS = {
    "torch.nn.Softmax": "softmax",
    "torch.nn.Softmax2d": "softmax",
    "torch.nn.LogSoftmax": "log_softmax",
    "torch.nn.Sigmoid": "sigmoid",
}
OWNERS = ("torch.", "torch.nn.functional.", "torch.Tensor.", "torch.special.", "?.")


def maker(call: Call) -> str | None:
    """What a call makes of its input: `softmax`, `log_softmax`, `sigmoid`; None for anything else."""
    for layer, kind in LAYERS.items():
        if call.name == layer + ".__call__":
            return kind
    if call.method in MAKERS and call.name == call.name.rpartition(".")[0] + "." + call.method:
        owner = call.name[: -len(call.method)]
        if owner in OWNERS and not _whole(call) and (owner != "?." or _by_dimension(call)):
            return MAKERS[call.method]
    return None


def _whole(call: Call) -> bool:
    """Whether it runs over the first dimension, so the values of one sample do not add up to one."""
    dim = call.argument("dim", 0 if _is_method(call) else 1)
    return isinstance(dim, Known) and dim.value == 0


def _by_dimension(call: Call) -> bool:
    """Whether a method of an unknown object is called as a tensor's is: with a dimension and nothing else."""
    if call.method == "sigmoid":
        return not call.node.args and not call.node.keywords and call.receiver != "self"
    numbers = all(isinstance(item, Known) and isinstance(item.value, int) for item in call.positional)
    return numbers and set(call.keywords) <= {"dim", "dtype"} and bool(call.positional or call.keywords)


def _is_method(call: Call) -> bool:
    return call.name.startswith(("torch.Tensor.", "?."))
