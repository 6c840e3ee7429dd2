"""What a call does to a training: a backward pass, an optimizer step, a forward pass, a switch of mode."""

import ast
import re
from typing import TYPE_CHECKING

from gpudoctor.model.signs.source import Call
from gpudoctor.vitals.source.qualified_names import kind_of
from gpudoctor.vitals.source.values import (
    BACKWARD,
    COLLECT,
    EVAL,
    FORWARD,
    GUESS,
    MODULE,
    OPTIMIZER,
    SCHEDULER,
    STEP,
    TRAIN,
    AbstractValue,
)

if TYPE_CHECKING:
    from gpudoctor.vitals.source.calls import Resolved

MODES = EVAL | TRAIN
_SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler")
_ENGINE = "deepspeed.DeepSpeedEngine"
_OPTIMIZER_NAME = re.compile(
    r"(?:^|[._\[])(?:\w{0,60}optim\w{0,60}|opt(?:_?[a-z0-9]{1,2})?|\w{1,60}_opt|opt_\w{1,60}|solver)(?:\[.{0,200}\])?$",
    re.I,
)
_ENVIRONMENT = re.compile(r"(?:^|[._])(?:\w{0,60}_)?(?:v?envs?|environment|vec_env|simulator)$", re.I)
_NOT_OPTIMIZER = re.compile(r"sched|env|prof|sampler|accelerator|sim|game|timer|tracker|progress|warmup", re.I)
_LOSS = re.compile(r"Loss\.__call__$")


def of_call(found: "Resolved", call: Call, node: ast.Call, args: list[AbstractValue]) -> int:
    """The effects of one call, as flags."""
    method, base = call.method, found.base
    if method in ("eval", "train") and (kind_of(base.type) == MODULE or not base.type):
        return _mode(call, node)
    if found.callee is not None and not found.called and method != "step":
        return 0
    if method in ("step", "reset") and _ENVIRONMENT.search(call.receiver):
        return COLLECT
    if method in ("backward", "manual_backward"):
        return BACKWARD
    if method == "step":
        return _step(found, call)
    if method in ("__call__", "forward", "generate", "eval_batch"):
        return _forward(found, call, args)
    if method == "train_batch" and base.type == _ENGINE:
        return BACKWARD | STEP
    return 0


def _mode(call: Call, node: ast.Call) -> int:
    if call.method == "eval":
        return EVAL if not node.args else 0
    return TRAIN if len(node.args) <= 1 and not node.keywords else 0


def _step(found: "Resolved", call: Call) -> int:
    kind = kind_of(found.base.type)
    if found.callee is not None:
        return STEP if kind == OPTIMIZER else 0
    if kind == OPTIMIZER:
        return STEP | (GUESS if found.base.guessed else 0)
    if kind in _SCALERS or kind == MODULE:  # modules have no step: it is an engine
        return STEP
    if kind is None and not _NOT_OPTIMIZER.search(call.receiver) and kind != SCHEDULER:
        return STEP | GUESS if _OPTIMIZER_NAME.search(call.receiver) else 0
    return 0


def _forward(found: "Resolved", call: Call, args: list[AbstractValue]) -> int:
    base = found.base
    kind = kind_of(base.type)
    if call.method == "generate" and kind != MODULE:
        return 0
    # timm's scalers do both: `scaler(loss, optimizer)`. No model is given an optimizer.
    scales = "scaler" in call.receiver.lower() or (base.type or "").endswith("Scaler")
    if scales and found.callee is None and any(kind_of(a.type) == OPTIMIZER for a in args):
        return BACKWARD | STEP
    if kind != MODULE or _LOSS.search(call.name):
        return 0
    if base.klass is not None and base.klass.name.endswith("Loss"):
        return 0
    return FORWARD | (GUESS if base.guessed else 0)
