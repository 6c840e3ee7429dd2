"""Memory over the run: the device's allocator at the ends of steps, and what grows with them."""

from __future__ import annotations

import linecache
import re
import sys
from collections import deque
from inspect import CO_OPTIMIZED
from time import perf_counter
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from .call_sites import Place
from .clock import PROBE
from .guard import interrupts
from .models import parts
from .table import AT
from .tensor_reads import Budget, capturing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .probe import Probe

_ALLOCATED, _RESERVED, _PEAK = AT["allocated"], AT["reserved"], AT["peak"]
_WARM = 20
"""Steps before memory is expected to stay as it is."""
_HOST, _DEVICE = 16 << 20, 64 << 20
"""Bytes of growth that are worth a look (or a hundredth of what is there)."""
_TELLING = 1 << 20
"""Bytes of a growing container that are told although the process does not grow by much."""


class Memory:
    """Watches the growth of one process."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.rss = 0.0
        """Resident bytes, as the sampler saw them last."""
        self._host = Growth(_HOST)
        self._device = Growth(_DEVICE)
        self._budget = Budget(0.001)
        self._holders: Holders | None = None
        """The first look..."""
        self._between: Holders | None = None
        """...and the last one."""
        self._next = _WARM + 4
        self._retries = 0

    def fill(self) -> None:
        """A step is about to end: the allocator's state goes into its row."""
        torch = self._probe.torch
        if not torch.cuda.is_initialized() or not self._budget.due():
            return
        if capturing(torch, torch.device("cuda")):
            return
        start = perf_counter()
        stats = torch.cuda.memory_stats_as_nested_dict()
        made = self._probe.clock.row
        allocated = stats["allocated_bytes"]["all"]
        made[_ALLOCATED] = allocated["current"]
        made[_PEAK] = allocated["peak"]
        made[_RESERVED] = stats["reserved_bytes"]["all"]["current"]
        self._device.note(allocated["current"], self._probe.steps.index)
        retries = int(stats.get("num_alloc_retries", 0))
        if retries > self._retries:
            self._retries = retries
            self._probe.record("memory", {"step": self._probe.steps.index, "kind": "retries", "retries": retries})
        self._budget.charge(perf_counter() - start)

    def ended(self) -> None:
        """A step has ended."""
        step = self._probe.steps.index
        if self.rss:
            self._host.note(self.rss, step)
        if step >= self._next or self._host.grew or self._device.grew:
            self._next = max(self._next, 2 * step if step >= self._next else self._next)
            before = self._probe.clock.switch(PROBE)
            self._look(sys._getframe(1))
            self._probe.clock.switch(before)

    def _look(self, frame: FrameType | None, end: bool = False) -> None:
        grew = self._host.grew or self._device.grew
        device = "cuda" if self._device.grew else "cpu"
        self._host.grew = self._device.grew = False
        now = Holders(self._probe, frame)
        first, self._holders = self._holders, self._holders or now
        between = self._between or now
        if now.step - between.step >= _WARM or between is now:
            self._between = now
        if first is None or now.step - first.step < _WARM:
            return
        holders = sorted(
            grown(first, now, between), key=lambda holder: (not holder.graph, -holder.size * holder.length)
        )
        rows = [row(self._probe, holder) for holder in holders[:8]]
        # These are told although the process does not grow by much.
        worth = (item.graph or item.size * item.length >= _TELLING for item in holders)
        if rows and (grew or end or any(worth)):
            fields = {"step": now.step, "kind": "census", "device": device, "since": first.step}
            self._probe.record("memory", {**fields, "rss": self.rss or None, "growth": rows})

    def end(self) -> None:
        """The process ends: what grew to the last is told."""
        if self._probe.steps.index >= 2 * _WARM:
            self._look(None, end=True)


class Growth:
    """Tells when something has become larger by enough, and again at doubling distances."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._base = 0.0
        self._next = 0.0
        self.more = 0.0
        """By how much it is larger than after warming up."""
        self.grew = False

    def note(self, value: float, step: int) -> None:
        """A value, at a step."""
        if step < _WARM:
            return
        if not self._base:
            self._base = value
            # The first growth is warming up, too: it takes a second one.
            self._next = value + 2 * max(self._least, 0.01 * value)
        self.more = value - self._base
        if value >= self._next:
            self.grew = True
            self._next = value + max(self.more, self._least)


# A leak in Python is nearly always a container with a name that grows with the steps, and looking through the
# names is a thousand times cheaper than looking through all objects.

CONTAINERS = (list, dict, set, deque)
_LARGE = 16
"""Length from which on a container is remembered."""
_LOOKS = 4000
"""Values that one look goes through."""
_PARTS = 2000
"""Modules of a model that are looked at."""
_OWN = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"})
_INSIDE = 16
"""Parts of an element that are looked at."""
_DEEPEST = 4000
"""Additions of a sum that are followed."""
_ADDS = r"\s*(\[[^]]*\])?(\.(append|extend|add|appendleft|update|insert|setdefault)\(|\+=|\[[^]]*\]\s*=[^=])"


class Holder:
    """One container, by id; nothing of it is kept alive."""

    def __init__(self, name: str, length: int, contents: tuple[str, int, bool]) -> None:
        self.name = name
        self.length = length
        self.contents, self.size, self.graph = contents


class Holders:
    """One look at all of them."""

    def __init__(self, probe: Probe, frame: FrameType | None) -> None:
        self.step = probe.steps.index
        self._probe = probe
        self.found: dict[tuple[Any, type], Holder] = {}
        self._tensor = probe.torch.Tensor
        self._module = probe.torch.nn.Module
        self._left = _LOOKS
        main = sys.modules.get("__main__")
        seen = {id(vars(main))} if main is not None else set()
        if main is not None:
            self._scope(vars(main))
        while frame is not None:
            if probe.places.is_user(frame.f_code):
                if id(frame.f_globals) not in seen:
                    seen.add(id(frame.f_globals))
                    self._scope(frame.f_globals)
                self._locals(frame)
            frame = frame.f_back
        for model in probe.models.trained():  # one that only a framework names
            self._modules(type(model).__name__, model)

    def _locals(self, frame: FrameType) -> None:
        if not frame.f_code.co_flags & CO_OPTIMIZED or sys.gettrace() is not None:
            return  # a module's are its globals; a debugger's view is left alone
        scope = frame.f_locals
        self._scope(scope)
        if sys.version_info < (3, 13):
            # It is a copy that the frame keeps: it would hold on to the tensors of this step.
            scope.clear()

    def _scope(self, scope: Any) -> None:
        for name, value in list(scope.items()):
            if not name.startswith("__"):
                self._look(name, value, 2)

    def _look(self, name: str, value: Any, deep: int) -> None:
        self._left -= 1
        kind = type(value)
        if self._left < 0 or kind in (int, float, str, bool):
            return
        if kind in CONTAINERS and len(value) >= _LARGE and getattr(value, "maxlen", None) is None:
            holder = Holder(name, len(value), _contents(value, self._tensor))
            self.found.setdefault((id(value), kind), holder)
        elif kind is self._tensor:
            terms = _terms(value)
            if terms >= _LARGE:
                self.found.setdefault((name, kind), Holder(name, terms, (", a sum with its graph", 0, True)))
        elif deep and kind in (list, tuple, dict):
            for element in list(value.values() if kind is dict else value)[:_LARGE]:
                self._look(name, element, 0)
        elif deep and issubclass(kind, self._module):
            self._modules(name, value)
        elif deep and issubclass(kind, type):
            if self._is_own(value):
                for attribute, element in list(vars(value).items())[:100]:
                    if type(element) in CONTAINERS:
                        self._look(f"{name}.{attribute}", element, 0)
        elif deep and not issubclass(kind, (ModuleType, FunctionType, self._tensor)):
            for attribute, element in list(own_attributes(value).items())[:100]:
                self._look(f"{name}.{attribute}", element, deep - 1)

    def _modules(self, name: str, root: Any) -> None:
        """What a model and its parts keep beside their parameters."""
        self._left -= 1
        for path, module in list(parts(root).items())[:_PARTS]:
            whole = f"{name}.{path}" if path else name
            for attribute, element in list(vars(module).items()):
                kind = type(element)
                if kind is self._tensor or (kind in CONTAINERS and attribute not in _OWN and element):
                    self._look(f"{whole}.{attribute}", element, 0)

    def _is_own(self, value: Any) -> bool:
        """Whether a class is of the program's main file or another of its modules."""
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        path = getattr(module, "__file__", None)
        return isinstance(path, str) and self._probe.places.is_own(path)


def grown(before: Holders, now: Holders, between: Holders) -> list[Holder]:
    """Those that grew by at least an element in three steps; their length is by how much.

    With a look between they did so up to it and since: what is emptied now and then was shorter once.
    """
    least = max(6, (now.step - before.step) // 3)
    found = []
    for key, holder in now.found.items():
        old, later = before.found.get(key), between.found.get(key)
        since = max(1, (now.step - between.step) // 3)
        if later is None or holder.length - later.length < since:
            continue
        more = holder.length - (old.length if old is not None else 0)
        if more >= least and (old is not None or holder.length <= 2 * (now.step + 1)):
            holder.length = more
            found.append(holder)
    return found


def row(probe: Probe, holder: Holder) -> list[Any]:
    """`[what, count, bytes, path, line]` of one that grew."""
    path, line, _ = adding_line(probe, holder.name.rpartition(".")[2])
    return [f"`{holder.name}`{holder.contents}", holder.length, holder.size * holder.length, path, line]


def own_attributes(value: Any) -> dict[str, Any]:
    """An object's attributes, without running code of its class."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except Exception as error:
        if interrupts(error):
            raise
        return {}
    return found if type(found) is dict else {}


def _contents(container: Any, tensor: Any) -> tuple[str, int, bool]:
    """What a container holds, in words; bytes of one element; whether it is a tensor with its graph."""
    try:
        last = container[-1] if isinstance(container, (list, deque)) else next(reversed(list(container)))
        if isinstance(container, dict):
            last = container[last]
    except Exception as error:  # it changes in another thread, or a class of its own
        if interrupts(error):
            raise
        return "", 0, False
    what = f", {type(container).__name__} of "
    if type(last) is tensor:
        return what + _tensor_words(last), _bytes(last), last.grad_fn is not None
    what += type(last).__name__
    inside = [part for part in _parts(last) if type(part) is tensor]
    told = next((part for part in inside if part.grad_fn is not None), inside[0] if inside else None)
    if told is None:
        return what, sys.getsizeof(last), False
    size = sys.getsizeof(last) + sum(map(_bytes, inside))
    return f"{what} with {_tensor_words(told)}", size, told.grad_fn is not None


def _parts(element: Any) -> list[Any]:
    """The first things that an element of a container is made of: `history.append({"loss": loss})`."""
    kind = type(element)
    if issubclass(kind, dict):
        return list(dict.values(element))[:_INSIDE]
    if issubclass(kind, (list, tuple)):
        return list((list if issubclass(kind, list) else tuple).__getitem__(element, slice(_INSIDE)))
    return list(own_attributes(element).values())[:_INSIDE]


def _tensor_words(tensor: Any) -> str:
    held = "with their graphs" if tensor.grad_fn is not None else "without graphs"  # the diagnosis reads these words
    return f"{tensor.device.type} tensors {tuple(tensor.shape)} {held}"


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _terms(tensor: Any) -> int:
    """How many tensors were added up to this one with their graphs (`total += loss`); 0 for others."""
    node, terms = tensor.grad_fn, 0
    while node is not None and terms < _DEEPEST and type(node).__name__ == "AddBackward0":
        terms += 1
        node = next((before for before, _ in node.next_functions if type(before).__name__ == "AddBackward0"), None)
    return terms


def _modules(probe: Probe) -> Iterator[str]:
    """Files of the program's own modules: a data set keeps things where no step comes by."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and probe.places.is_own(path):
            yield path


def adding_line(probe: Probe, name: str) -> Place:
    """The line of the user's that adds to something of this name."""
    word = re.escape(name)
    adds = re.compile(rf"\b{word}{_ADDS}|\b{word}\s*=\s*(?:\(\s*)?(\w+\.)*{word}\s*\+")
    for path in dict.fromkeys((*(code.co_filename for code in probe.steps.stack), *_modules(probe))):
        for number, text in enumerate(linecache.getlines(path), 1):
            if adds.search(text):
                return path, number, None
    return None, None, None
