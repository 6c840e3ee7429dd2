"""Functions of torch whose result is a tensor that carries no graph, whatever they are given."""

NO_GRAPH = frozenset(
    {
        "all", "any", "argmax", "argmin", "argsort", "bincount", "bool", "byte", "clip_grad_norm",
        "clip_grad_norm_", "count_nonzero", "detach", "detach_", "empty_like", "eq", "equal", "full_like", "ge",
        "get_total_norm", "gt", "int", "isfinite", "isinf", "isnan", "le", "long", "lt", "multinomial", "ne",
        "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "nonzero", "one_hot", "ones_like",
        "rand_like", "randn_like", "unique", "zeros_like",
    }
)  # fmt: skip
"""Their last names. `round`, `floor`, `ceil` and `sign` keep their graph: only its gradient is zero."""
