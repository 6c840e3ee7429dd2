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


def _fields(*rows: tuple[Judge, str]) -> Mapping[str, Judge]:
    """Rows of a judge and the names of the fields that it judges."""
    return {name: judge for judge, names in rows for name in names.split()}


_COMMON = _fields(
    (text, "path function kind phase what name device node cwd python"),
    (line, "line"),
    (step, "step"),
    (whole, "calls steps count elements pid loader worker items batches"),
    (amount, "seconds longest bytes share"),
    (_STACK, "stack"),
)
"""Fields that mean the same in every record."""
_OF: Mapping[str, Mapping[str, Judge]] = {
    "start": _fields((whole, "format rank world ppid"), (amount, "wall")),
    "torch": _fields(
        (text, "version cuda tf32 backend autocast"),
        (whole, "threads"),
        (amount, "device_bytes"),
        (every(amount), "capability"),
        (flag, "cudnn_benchmark find_unused unused"),
    ),
    "loop": _fields((text, "marker engine")),
    "model": _fields(
        (whole, "parameters trainable"),
        (amount, "flops"),
        (by_name(amount), "dtypes"),
        (text, "wrapped"),
        (flag, "compiled training"),
    ),
    "optimizer": _fields(
        (whole, "parameters missing_count"), (flag, "twin foreach fused"), (reading, "lr"), (_NAMES, "missing")
    ),
    "loader": _fields(
        (whole, "id workers prefetch batch_size"),
        (text, "dataset role order"),
        (flag, "pin_memory persistent iterable"),
    ),
    "call": _fields(
        (whole, "dims of rows rounded finite constant labels pads"),
        (number, "least most mean"),
        (reading, "mixed"),
        (text, "model layer next mask"),
        (flag, "causal takes_mask attention several"),
        (every(whole), "shape hits counted"),
    ),
    "batch": _fields(
        (whole, "draw epoch samples rows width tokens padding full cut labels unlabelled unlabelled_full same ahead"),
        (whole, "ends trained_ends unended left opened opened_left seen_after seen_before jumps run_on"),
        (number, "pad"),
        (flag, "masked masks"),
        (text, "role"),
        (every(whole), "hashes eos"),
        (every(row(text, text, every(whole))), "shapes"),
    ),
    "items": _fields((amount, "busy waiting")),
    "site": _fields((flag, "tensor")),
    "lines": _fields(
        (amount, "samples interval"),
        (flag, "open"),
        (every(row(text, _PATH, _LINE, _PATH, amount)), "counts"),
        (every(row(whole, _PATH, _PATH, amount)), "leaves"),
    ),
    "numeric": _fields(
        (text, "value first_name last_name kind_of model loss"),
        (reading, "norm first last scale least most"),
        (amount, "stuck"),
        (whole, "skipped found backwards of losses shards classes"),
        (every(row(text, whole)), "made_by"),
        (every(whole), "updates"),
        (every(row(number, whole)), "labels"),
        (every(row(every(whole), every(whole), whole, how, least=3)), "shapes"),
        (step, "since until"),
        (_NAMES, "parameters none affected"),
        (flag, "all reached training shared alone"),
    ),
    "logged": _fields((text, "by"), (every(row(text, whole, every(row(step, reading)))), "series")),
    "parameters": _fields(
        (whole, "total trained stray adapter adapter_trained adapter_held base_trained new_inputs loaded loaded_kept"),
        (flag, "sharded"),
        (_NAMES, "targets left frozen_tables"),
        (every(whole), "ranks grown"),
    ),
    "gradients": _fields((whole, "looks undivided twice again leaf cleared micro"), (amount, "uneven")),
    "clips": _fields((whole, "clips scaled"), (amount, "limit scale")),
    "memory": _fields(
        (whole, "retries"),
        (step, "since"),
        (amount, "rss"),
        (every(row(text, nullable(whole), nullable(number), _PATH, _LINE, least=3)), "growth"),
        (every(number), "shares"),
    ),
    "compile": _fields((text, "reason")),
    "window": _fields((step, "begin end"), (flag, "on")),
    "lost": _fields((text, "hook error")),
    "warning": _fields((text, "library text")),
    "exception": _fields(
        (text, "exception message"),
        (_STACK, "frames"),
        (whole, "user"),
        (_NAMES, "cause"),
        (lambda value: _object("oom", value), "oom"),
        (lambda value: _object("beyond", value), "beyond"),
    ),
    "shown": _fields((every(every(row(text, flag))), "text"), (_NAMES, "pictures"), (whole, "width height")),
    "signal": _fields((text, "signal")),
    "end": _fields((flag, "clean"), (by_name(whole), "dropped")),
    "facts": _fields(
        (every(lambda value: _object("gpu", value)), "gpus"), (amount, "cpus machine_cpus memory cgroup_memory")
    ),
    "recording.json": _fields(
        (text, "schema gpudoctor started commit python"),
        (_NAMES, "command"),
        (by_name(text), "environment"),
        (by_name(lambda value: value), "settings"),
    ),
    "scripts.json": _fields((by_name(row(text, nullable(text))), "scripts")),
    "end.json": _fields(
        (code, "exit_code"),
        (text, "signal stopped_by"),
        (_NAMES, "kernel problems"),
        (amount, "seconds"),
        (whole, "oom_kills lost_bytes"),
    ),
    "ranks": _fields((whole, "of size"), (flag, "grouped ddp"), (row(*[nullable(reading)] * 4), "sums")),
    "schedule": _fields(
        (whole, "id"),
        (step, "made"),
        (text, "mode"),
        (row(step, reading), "first"),
        (row(text, reading), "total"),
        (reading, "base position"),
        (every(reading), "metrics"),
    ),
    "split": _fields((whole, "size each first batch"), (every(row(text, whole)), "splits")),
    "state": _fields(
        (every(row(text, text, number)), "files"),
        (whole, "taken"),
        (flag, "again"),
        (every(row(text, whole, whole, whole, text, text, _PATH, _LINE, whole, least=8)), "weights"),
    ),
    "settings": _fields((amount, "hang_after")),
    "gpu": _fields(
        (text, "uuid"),
        (whole, "index"),
        (amount, "power_limit temperature_slowdown temperature_max temperature_memory_max"),
        (amount, "pcie_width_max pcie_generation_max"),
    ),
    "beyond": _fields((text, "what"), (number, "least most"), (whole, "count")),
    "oom": _fields((text, "device"), (amount, "allocated reserved total requested")),
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
