"""What the fields of a recording's JSON may be (docs/recording.md): the one place where they are judged.

A value that is none of its kind is taken out and counted, so that nobody behind the reader has to ask again.
Null is "not known" and stays; a field that this version does not know stays too.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.external_files import deeper
from gpudoctor.text import count

_FAR = 1 << 63
"""No count is that large."""
_HUGE = 1e30
"""No amount of anything is that large: two of them multiplied are still a number."""
_NAMED = 6
"""Kinds of wrong values that a sentence names."""
_DEEP = 8
"""Levels of nesting of a field."""

Judge = Callable[[Any], Any]
"""The value as it is to be taken; raises `ValueError` for one that makes no sense."""


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError
    return value


def how(value: Any) -> bool | str:
    """True or false, or a word that says which kind of true."""
    return value if isinstance(value, bool) else text(value)


def whole(value: Any) -> int:
    """A count."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _FAR:
        raise ValueError
    return value


def step(value: Any) -> int:
    """The number of a step; -1 before the first."""
    return -1 if value == -1 and not isinstance(value, bool) else whole(value)


def code(value: Any) -> int:
    """An exit code."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 32:
        raise ValueError
    return value


def line(value: Any) -> int:
    """The number of a line."""
    if whole(value) >= 1 << 31:
        raise ValueError
    return int(value)


def number(value: Any) -> float | int:
    """A number of any sign."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not -_HUGE < value < _HUGE:
        raise ValueError
    return value


def amount(value: Any) -> float | int:
    """A number of seconds, bytes, calls: not below zero."""
    if number(value) < 0:
        raise ValueError
    return number(value)


def reading(value: Any) -> float | int | None:
    """What was read of a tensor: infinity may be the truth, NaN is not known."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else value
    return number(value)


def nullable(judge: Judge) -> Judge:
    """The same, or null."""
    return lambda value: None if value is None else judge(value)


def every(judge: Judge) -> Judge:
    """A list of these."""

    def judged(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError
        return [judge(item) for item in value]

    return judged


def row(*judges: Judge, least: int | None = None) -> Judge:
    """A list of these, one after the other; what is beyond them is left out."""
    fewest = len(judges) if least is None else least

    def judged(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) < fewest:
            raise ValueError
        return [judge(item) for judge, item in zip(judges, value, strict=False)]

    return judged


def by_name(judge: Judge) -> Judge:
    """An object whose values are these."""

    def judged(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        return {str(key): judge(item) for key, item in value.items()}

    return judged


_PATH, _LINE = nullable(text), nullable(line)
_FRAME = row(_PATH, _LINE, _PATH, _PATH, least=3)
_NAMES, _STACK = every(text), every(_FRAME)
_COMMON: Mapping[str, Judge] = {
    **dict.fromkeys(("path", "function", "kind", "phase", "what", "name", "device", "node", "cwd", "python"), text),
    "line": line,
    "step": step,
    **dict.fromkeys(("calls", "steps", "count", "elements", "pid", "loader", "worker", "items", "batches"), whole),
    **dict.fromkeys(("seconds", "longest", "bytes", "share"), amount),
    "stack": _STACK,
}
"""Fields that mean the same in every record."""
_OF: Mapping[str, Mapping[str, Judge]] = {
    "start": {**dict.fromkeys(("format", "rank", "world", "ppid"), whole), "wall": amount},
    "torch": {
        **dict.fromkeys(("version", "cuda", "tf32", "backend", "autocast"), text),
        "threads": whole,
        "device_bytes": amount,
        "capability": every(amount),
        **dict.fromkeys(("cudnn_benchmark", "find_unused", "unused"), flag),
    },
    "loop": {"marker": text, "engine": text},
    "model": {
        **dict.fromkeys(("parameters", "trainable"), whole),
        "flops": amount,
        "dtypes": by_name(amount),
        "wrapped": text,
        "compiled": flag,
        "training": flag,
    },
    "optimizer": {
        **dict.fromkeys(("parameters", "missing_count"), whole),
        "twin": flag,
        "lr": reading,
        "foreach": flag,
        "fused": flag,
        "missing": _NAMES,
    },
    "loader": {
        **dict.fromkeys(("id", "workers", "prefetch", "batch_size"), whole),
        "dataset": text,
        "role": text,
        "order": text,
        **dict.fromkeys(("pin_memory", "persistent", "iterable"), flag),
    },
    "call": {
        **dict.fromkeys(("dims", "of", "rows", "rounded", "finite", "constant", "labels", "pads"), whole),
        **dict.fromkeys(("least", "most", "mean"), number),
        **dict.fromkeys(("model", "layer", "next", "mask"), text),
        **dict.fromkeys(("causal", "takes_mask", "attention", "several"), flag),
        **dict.fromkeys(("shape", "hits", "counted"), every(whole)),
    },
    "batch": {
        **dict.fromkeys(
            (
                "draw",
                "epoch",
                "samples",
                "rows",
                "width",
                "tokens",
                "padding",
                "full",
                "cut",
                "labels",
                "unlabelled",
                "unlabelled_full",
                "same",
                "ahead",
                "ends",
                "trained_ends",
                "unended",
                "left",
                "opened",
                "opened_left",
                "seen_after",
                "seen_before",
                "jumps",
            ),
            whole,
        ),
        "pad": number,
        "masked": flag,
        "role": text,
        **dict.fromkeys(("hashes", "eos"), every(whole)),
        "shapes": every(row(text, text, every(whole))),
    },
    "items": dict.fromkeys(("busy", "waiting"), amount),
    "site": {"tensor": flag},
    "lines": {
        **dict.fromkeys(("samples", "interval"), amount),
        "open": flag,
        "counts": every(row(text, _PATH, _LINE, _PATH, amount)),
        "leaves": every(row(whole, _PATH, _PATH, amount)),
    },
    "numeric": {
        **dict.fromkeys(("value", "first_name", "last_name", "kind_of", "model"), text),
        **dict.fromkeys(("norm", "first", "last", "scale"), reading),
        "stuck": amount,
        **dict.fromkeys(("skipped", "found", "backwards", "of", "losses", "shards"), whole),
        "made_by": every(row(text, whole)),
        "labels": every(row(number, whole)),
        "classes": whole,
        "shapes": every(row(every(whole), every(whole), whole, how, least=3)),
        "loss": text,
        **dict.fromkeys(("since", "until"), step),
        **dict.fromkeys(("parameters", "none", "affected"), _NAMES),
        **dict.fromkeys(("all", "reached", "training", "shared", "alone"), flag),
    },
    "logged": {"by": text, "series": every(row(text, whole, every(row(step, reading))))},
    "parameters": {
        **dict.fromkeys(("total", "trained", "adapter", "adapter_trained", "adapter_held", "base_trained"), whole),
        **dict.fromkeys(("new_inputs", "loaded", "loaded_kept"), whole),
        "sharded": flag,
        **dict.fromkeys(("targets", "left", "frozen_tables"), _NAMES),
        **dict.fromkeys(("ranks", "grown"), every(whole)),
    },
    "gradients": {**dict.fromkeys(("looks", "undivided", "twice", "again", "leaf", "micro"), whole), "uneven": amount},
    "clips": {**dict.fromkeys(("clips", "scaled"), whole), **dict.fromkeys(("limit", "scale"), amount)},
    "memory": {
        "retries": whole,
        "since": step,
        "rss": amount,
        "growth": every(row(text, nullable(whole), nullable(number), _PATH, _LINE, least=3)),
        "shares": every(number),
    },
    "compile": {"reason": text},
    "window": {"begin": step, "end": step, "on": flag},
    "lost": {"hook": text, "error": text},
    "warning": {"library": text, "text": text},
    "exception": {
        **dict.fromkeys(("exception", "message"), text),
        "frames": _STACK,
        "user": whole,
        "cause": _NAMES,
        "oom": lambda value: _object("oom", value),
        "beyond": lambda value: _object("beyond", value),
    },
    "shown": {"text": every(every(row(text, flag))), "pictures": _NAMES, "width": whole, "height": whole},
    "signal": {"signal": text},
    "end": {"clean": flag, "dropped": by_name(whole)},
    "facts": {
        "gpus": every(lambda value: _object("gpu", value)),
        **dict.fromkeys(("cpus", "machine_cpus", "memory", "cgroup_memory"), amount),
    },
    "recording.json": {
        "schema": text,
        "gpudoctor": text,
        "command": _NAMES,
        "started": text,
        "commit": text,
        "python": text,
        "environment": by_name(text),
        "settings": by_name(lambda value: value),
    },
    "end.json": {
        "exit_code": code,
        "signal": text,
        "stopped_by": text,
        "kernel": _NAMES,
        "problems": _NAMES,
        "seconds": amount,
        "oom_kills": whole,
        "lost_bytes": whole,
    },
    "ranks": {
        **dict.fromkeys(("of", "size"), whole),
        **dict.fromkeys(("grouped", "ddp"), flag),
        "sums": row(*[nullable(reading)] * 4),
    },
    "schedule": {
        "id": whole,
        "made": step,
        "mode": text,
        "first": row(step, reading),
        "total": row(text, reading),
        **dict.fromkeys(("base", "position"), reading),
        "metrics": every(reading),
    },
    "split": {**dict.fromkeys(("size", "each", "first", "batch"), whole), "splits": every(row(text, whole))},
    "state": {
        "files": every(row(text, text, number)),
        "taken": whole,
        "again": flag,
        "weights": every(row(text, whole, whole, whole, text, text, _PATH, _LINE)),
    },
    "settings": {"hang_after": amount},
    "gpu": {
        "uuid": text,
        "index": whole,
        **dict.fromkeys(
            (
                "power_limit",
                "temperature_slowdown",
                "temperature_max",
                "temperature_memory_max",
                "pcie_width_max",
                "pcie_generation_max",
            ),
            amount,
        ),
    },
    "beyond": {"what": text, **dict.fromkeys(("least", "most"), number), "count": whole},
    "oom": {"device": text, **dict.fromkeys(("allocated", "reserved", "total", "requested"), amount)},
}
"""Fields by the type of their record, where they are not common or mean something else."""


def judged(type: str, fields: Mapping[str, Any], wrong: Counter[str]) -> dict[str, Any]:
    """The fields that make sense; those that do not are counted in `wrong`, as `type.field`."""
    own = _OF.get(type, {})
    found: dict[str, Any] = {}
    for name, value in fields.items():
        judge = own.get(name) or _COMMON.get(name)
        if value is not None and judge is not None:
            try:
                value = judge(value)
            except ValueError:
                wrong[f"{type}.{name}"] += 1
                continue
        elif judge is None and deeper(value, _DEEP - 1):
            wrong[f"{type}.{name[:40]}"] += 1
            continue
        found[name] = value
    for name, points, into in _POINTS.get(type, ()):
        most = len(found.get(into) or ())
        if any(place >= most for place in points(found.get(name))):
            wrong[f"{type}.{name}"] += 1
            del found[name]
    return found


_POINTS: Mapping[str, tuple[tuple[str, Callable[[Any], list[int]], str], ...]] = {
    "lines": (("leaves", lambda value: [item[0] for item in value or ()], "counts"),),
    "exception": (("user", lambda value: [] if value is None else [value], "frames"),),
}
"""Fields that count places of another one: name, those places, the other one."""


def left_out(wrong: Counter[str]) -> str:
    """What was taken out of a file, as a clause."""
    named = [say("{name} ({often:,})", name=name, often=often) for name, often in wrong.most_common(_NAMED)]
    more = say(" and {wrong} more kinds", wrong=len(wrong) - _NAMED) if len(wrong) > _NAMED else ""
    verb = say("was") if wrong.total() == 1 else say("were")
    return say(
        "{values} {verb} not plausible and {verb} ignored: {named}{more}",
        values=count(wrong.total(), "value"),
        verb=verb,
        named=concatenated(", ", named),
        more=more,
    )


def moment(value: Any) -> float:
    """The seconds of a record. Raises `ValueError`."""
    return float(number(value))


def _object(type: str, value: Any) -> dict[str, Any]:
    """An object inside a record; one field that makes no sense makes none of the whole."""
    wrong: Counter[str] = Counter()
    found = judged(type, by_name(lambda item: item)(value), wrong)
    if wrong:
        raise ValueError
    return found
