"""TF32: what becomes of the matrix products that stay in float32."""

import ast
from dataclasses import dataclass
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.precision import TRAINING_ARGUMENTS, TRL_CONFIGS
from gpudoctor.analysis.source.syntax import keyword_value, nodes
from gpudoctor.model.signs.source import Known, Script, Unknown


class Tf32(Enum):
    """What becomes of float32 matrix products."""

    ON = "on"
    OFF = "off"
    """Somebody switched it off."""
    DEFAULT = "default"
    """Nobody spoke of it: off for matrix products, on for convolutions."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tf32Setting:
    """One place that sets TF32."""

    script: Script
    node: ast.expr
    """The value's syntax."""
    target: str
    """What it sets, as written."""
    state: Tf32
    convolutions: bool
    """Whether it speaks of convolutions, not of matrix products."""
    guarded: bool = False


_TF32_PLACES = {
    "torch.backends.cuda.matmul.allow_tf32": False,
    "torch.backends.cudnn.allow_tf32": True,
    "torch.backends.cuda.matmul.fp32_precision": False,
    "torch.backends.cudnn.conv.fp32_precision": True,
    "torch.backends.fp32_precision": False,
}


def tf32_settings(program: Program) -> list[Tf32Setting]:
    """Every place of the program that sets TF32."""
    return [setting for script in program.scripts for setting in _settings(script)]


@once
def _settings(script: Script) -> list[Tf32Setting]:
    found: list[Tf32Setting] = []
    for node in nodes(script, ast.Assign):
        for target in node.targets:
            name = _dotted(script, target)
            if name in _TF32_PLACES:
                state = _state(node.value)
                found.append(
                    Tf32Setting(
                        script=script,
                        node=node.value,
                        target=ast.unparse(target),
                        state=state,
                        convolutions=_TF32_PLACES[name],
                    )
                )
    for call in script.calls:
        if call.name == "torch.set_float32_matmul_precision" and call.node.args:
            value = call.argument("precision", 0)
            word = value.value if isinstance(value, Known) else None
            states = {"highest": Tf32.OFF, "high": Tf32.ON, "medium": Tf32.ON}
            found.append(
                Tf32Setting(
                    script=script,
                    node=call.node.args[0],
                    target="torch.set_float32_matmul_precision",
                    state=states.get(str(word), Tf32.UNKNOWN),
                    convolutions=False,
                    guarded=any(guard.never for guard in call.guards),
                )
            )
        elif TRAINING_ARGUMENTS.search(call.name) or TRL_CONFIGS.search(call.name):
            value = call.keywords.get("tf32")
            given = keyword_value(call.node, "tf32")
            if value is not None and given is not None:
                state = Tf32.UNKNOWN if isinstance(value, Unknown) else (Tf32.ON if value.value else Tf32.OFF)
                if isinstance(value, Known) and value.value is None:
                    continue
                found.append(Tf32Setting(script=script, node=given, target="tf32", state=state, convolutions=False))
    return found


def _state(value: ast.expr) -> Tf32:
    plain = value.value if isinstance(value, ast.Constant) else None
    if plain in (True, "tf32"):
        return Tf32.ON
    if plain is False or plain in ("ieee", "none"):
        return Tf32.OFF
    return Tf32.UNKNOWN


def _dotted(script: Script, node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        head = _dotted(script, node.value)
        return f"{head}.{node.attr}" if head else ""
    return script.imports.get(node.id, "") if isinstance(node, ast.Name) else ""
