"""The rate of the one optimizer of a script, and an edit that lowers it."""

import ast

from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.model import Edit, Patient

_LOWER = 10.0


def rate_edit(patient: Patient) -> tuple[str, tuple[Edit, ...]]:
    """A tenth of the rate, and the edit that sets it; no edit where several or no optimizers have a number."""
    found = []
    for script in scripts_given(patient).scripts:
        for call in script.calls:
            if not call.name.startswith("torch.optim.") or "lr_scheduler" in call.name:
                continue
            for keyword in call.node.keywords:
                value = keyword.value
                if keyword.arg == "lr" and isinstance(value, ast.Constant) and isinstance(value.value, float | int):
                    found.append((script, value, float(value.value)))
    if len(found) != 1 or found[0][2] <= 0:
        return "", ()
    script, node, rate = found[0]
    lower = f"{rate / _LOWER:.3g}"
    return lower, (replace_node(script, node, lower),)
