"""What statements do, by their calls: they make passes, write, flush, save or collect."""

import ast
import re
from collections.abc import Iterable
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.recorded_statements import calls_on, statements_on
from gpudoctor.model.signs.source import Call, Script

_WRITES = re.compile(
    r"^(print|pprint|write|writelines|writerow|writerows|log|log_dict|log_metrics?|add_scalars?|add_text|add_image|"
    r"add_images|add_figure|info|warning|debug|error|critical|track|report_scalar|dump|dumps|to_csv|savetxt)$"
)
_SAVES = re.compile(r"^(save|save_file|save_model|save_pretrained|save_checkpoint|save_state|async_save)$")
_ARITHMETIC = frozenset({"log"})
FLUSHES = re.compile(r"^(flush|fsync|fdatasync|sync)$")
COLLECTS = re.compile(r"^(collect|empty_cache|malloc_trim)$")


class LineOwner(Enum):
    """Who has to answer for a line."""

    METRICS = "metrics"
    HISTOGRAMS = "histograms"
    LOGGING = "logging"
    FLUSHING = "flushing"
    SAVING = "checkpoint"
    COLLECTING = "collecting"
    PROFILING = "profiler"
    EVALUATION = "evaluation"
    COMMUNICATION = "collective"
    COMPUTE = "compute"
    """The loss and what leads to it, and how the passes are called: the job itself."""
    PLAYING = "playing"
    """An environment is stepped, or acted in: the job itself, too."""
    ENGINE = "engine"
    """A framework's own loop, which one line of the user's starts."""
    NOBODY = "nobody"
    """Nothing explains it."""


_BY_NAME = (
    (FLUSHES, LineOwner.FLUSHING),
    (_WRITES, LineOwner.LOGGING),
    (_SAVES, LineOwner.SAVING),
    (COLLECTS, LineOwner.COLLECTING),
)


def effect(calls: Iterable[Call]) -> LineOwner | None:
    """Who answers for a statement with these calls by what it does; None where none of them does such a thing."""
    known = [call for call in calls if not _arithmetic(call)]
    for pattern, what in _BY_NAME:
        if any(pattern.match(call.method) for call in known):
            return what
    return None


def effect_at(script: Script, line: int) -> LineOwner | None:
    """The same of the statements on a line."""
    found = (effect(calls_on(script, whole)) for whole in statements_on(script, line))
    return next((one for one in found if one is not None), None)


def _arithmetic(call: Call) -> bool:
    """Whether a call that is named like one that writes is arithmetic: `torch.log`, `x.log()`."""
    if call.method not in _ARITHMETIC:
        return False
    return call.name.startswith(("torch.", "numpy.", "math.")) and "tensorboard" not in call.name


def calls_module(call: Call) -> bool:
    """Whether a call is one of a module of torch."""
    return call.method == "__call__" and (call.receiver_type or "").startswith("torch.nn.")


_PASSES = ("torch.autograd.", "torch.func.", "torch.nn.functional.", "functorch.")


def makes_passes(script: Script, loop: ast.For | ast.While) -> bool:
    """Whether a module is called, or gradients are taken, on each turn of a Python loop."""
    last = loop.end_lineno or loop.lineno
    return any(loop.lineno <= line <= last for line in _passes(script))


@once
def _passes(script: Script) -> tuple[int, ...]:
    return tuple(
        call.span.line
        for call in script.calls
        if call.method == "backward" or call.name.startswith(_PASSES) or calls_module(call)
    )
