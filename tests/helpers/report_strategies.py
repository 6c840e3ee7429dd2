"""Hypothesis strategies for reports: any text, any number, any mixture of outcomes."""

import types
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module

from hypothesis import strategies as st

from gpudoctor.model import Code, Effect, Evidence, Finding, Measurement, Named, PatientKind, Remedy, Report, Subject
from gpudoctor.model.run import RunSummary

HOMES = ("log_message", "proof", "run", "signs.job", "signs.preflight")
TYPES = {name: kind for home in HOMES for name, kind in vars(import_module(f"gpudoctor.model.{home}")).items()}
NASTY = (
    "",
    "|",
    "::error file=x::y",
    "`` ` ```",
    "]]>",
    "</details>",
    "\x1b[31mred\x1b[0m",
    "\udce9t\udce9",
    "100%\r\n done",
    "[bold]markup[/bold]",
    "C:\\Users\\alice\\my project\\train.py",
    "\\\\server\\share\\x.py",
    "/home/alice/train.py",
    "日本語のパス/学習.py",
    "\u202egnp.exe",
    "\ufffe\uffff\x00",
    "x" * 300,
    "a\tb\nc\n\nd",
    "@torch.no_grad #12 <script>",
)
texts = st.one_of(
    st.sampled_from(NASTY),
    st.text(alphabet=st.characters(), max_size=60),  # lone surrogates included
)
FIXED: dict[object, st.SearchStrategy] = {
    str: texts,
    int: st.integers(1, 10**6),
    float: st.floats(),
    bool: st.booleans(),
    Code: st.sampled_from(["DATA001", "ENV003", "GPU003", "LOOP008", "ACME042"]),
    (Report, "version"): st.just("0.1.0"),
    (Finding, "name"): st.just("loader-bound"),
    (Named, "name"): st.just("loader-bound"),
    (Remedy, "id"): st.just("DATA001-workers"),
    (Subject, "kind"): st.sampled_from([kind.value for kind in PatientKind]),
    (Measurement, "unit"): st.sampled_from(["B", "s", "1", "W", "Cel", "", "{threads}"]),
    (Effect, "quantity"): st.sampled_from(["memory", "step_time"]),
    (Effect, "unit"): st.sampled_from(["x", "B", "s", "W"]),
    (Finding, "evidence"): st.deferred(lambda: st.lists(any_of(Evidence), min_size=1, max_size=4).map(tuple)),
    (Remedy, "steps"): st.lists(texts, min_size=1, max_size=3).map(tuple),
    (Report, "checks"): st.deferred(
        lambda: st.lists(any_of(Named), max_size=3, unique_by=lambda item: item.code).map(tuple)
    ),
    (RunSummary, "phases"): st.dictionaries(st.sampled_from(["data_wait", "forward", "other"]), st.floats(0, 1)),
}
"""What stands for a type, or for a field of a class."""
GIVEN = {
    Report: "version subject summary findings silenced outcomes checks problems remarks run",
    Finding: "code name severity confidence message evidence cost subject",
    Remedy: "id title steps applicability effort effect sets edits references",
    RunSummary: "recording command steps phases lines",
    Named: "code name title help",
}
"""The fields of a class that vary; of other classes, all."""


@cache
def any_of(kind: object) -> st.SearchStrategy:
    """Any value of an annotation."""
    if kind in FIXED:
        return FIXED[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is None or kind is type(None):
        return st.none()
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*map(any_of, inner))
    if origin is tuple:
        many = inner[-1] is Ellipsis
        return st.lists(any_of(inner[0]), max_size=3).map(tuple) if many else st.tuples(*map(any_of, inner))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    assert isinstance(kind, type) and is_dataclass(kind), kind
    hints = typing.get_type_hints(kind, localns=TYPES)
    names = GIVEN[kind].split() if kind in GIVEN else [item.name for item in fields(kind)]
    return st.builds(
        kind, **{name: FIXED[kind, name] if (kind, name) in FIXED else any_of(hints[name]) for name in names}
    )


reports = any_of(Report)
