"""Answers worked out once: kept with the script, source, program or patient that they are about.

Many checks ask the same question of the same script ("what encloses this call?"). An answer that takes a walk
through a whole tree is made by the first that asks.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from gpudoctor.model.memo import Remembers, remembered
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import field, frozen

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Remembers | Patient)


@frozen(kw_only=False)
class _Beside:
    """The memory of what has none of its own."""

    memory: dict[Hashable, Any] = field(default_factory=dict)


_PATIENTS: "WeakKeyDictionary[Patient, _Beside]" = WeakKeyDictionary()


def once(question: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a function remember its answer for each first argument, a script, source, program or patient.

    Further arguments are positional and hashable, and part of the question. An answer is shared by all who ask,
    so it is something that nobody changes; an iterator cannot be shared.
    """

    @wraps(question)
    def ask(about: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        assert not kwargs, "a remembered question takes positional arguments"
        keeper = _PATIENTS.setdefault(about, _Beside()) if isinstance(about, Patient) else about
        return remembered(keeper, (question, args), lambda: question(about, *args, **kwargs))

    return ask
