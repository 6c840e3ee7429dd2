"""TF32: where a program sets what becomes of its products in float32."""

import ast

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.precision import TRAINING_ARGUMENTS, TRL_CONFIGS
from gpudoctor.analysis.source.syntax import keyword_value, nodes
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Script

_FLAGS = ("cuda.matmul.allow_tf32", "cudnn.allow_tf32", "fp32_precision")
_OFF = ("ieee", "none", "highest")


@frozen
class Tf32Setting:
    """One place that sets TF32."""

    script: Script
    node: ast.expr
    """The value's syntax."""
    target: str
    """What it sets, as written."""

    @property
    def off(self) -> bool:
        """It is switched off, for certain."""
        value = self.node.value if isinstance(self.node, ast.Constant) else None
        return value is False or value in _OFF


def tf32_settings(program: Program) -> list[Tf32Setting]:
    """Every place of the program that sets TF32."""
    return [setting for script in program.scripts for setting in settings_in(script)]


@once
def settings_in(script: Script) -> tuple[Tf32Setting, ...]:
    """Those of one script."""
    found = [
        Tf32Setting(script=script, node=node.value, target=target)
        for node in nodes(script, ast.Assign)
        if (target := ast.unparse(node.targets[0])).startswith("torch.backends.") and target.endswith(_FLAGS)
    ]
    for call in script.calls:
        if call.name == "torch.set_float32_matmul_precision" and call.node.args:
            if not any(guard.never for guard in call.guards):
                found.append(Tf32Setting(script=script, node=call.node.args[0], target=call.name))
        elif TRAINING_ARGUMENTS.search(call.name) or TRL_CONFIGS.search(call.name):
            given = keyword_value(call.node, "tf32")
            if given is not None:
                found.append(Tf32Setting(script=script, node=given, target="tf32"))
    return tuple(found)
