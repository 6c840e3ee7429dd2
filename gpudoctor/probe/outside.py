"""Our own questions to tensors, outside the program's modes and profilers: they count what the program does."""

from __future__ import annotations

from typing import Any, Callable


class Outside:
    """A context in which function modes, dispatch modes and the profiler's callbacks see nothing of us."""

    def __init__(self, torch: Any) -> None:
        core = torch._C
        functions = getattr(core, "_len_torch_function_stack", _zero)
        dispatches = getattr(core, "_len_torch_dispatch_stack", _zero)
        autograd = getattr(core, "_autograd", None)
        profiles = getattr(autograd, "_profiler_enabled", _zero)
        self.needed: Callable[[], Any] = lambda: functions() or dispatches() or profiles()
        """Whether anything would see us. Asked in every step, so nothing is looked up."""
        self._record = getattr(autograd, "_enable_record_function", None)
        self._contexts = [
            kind
            for kind in (
                getattr(core, "DisableTorchFunction", None),
                getattr(core, "_DisableTorchDispatch", None),
            )
            if kind is not None
        ]
        self._open: list[list[Any]] = []

    def __enter__(self) -> None:
        opened: list[Any] = []
        self._open.append(opened)
        for kind in self._contexts:
            context = kind()
            context.__enter__()
            opened.append(context)
        if self._record is not None:
            self._record(False)

    def __exit__(self, *error: Any) -> None:
        opened = self._open.pop()
        if self._record is not None and not self._open:
            self._record(True)
        for context in reversed(opened):
            context.__exit__(*error)


def _zero() -> int:
    return 0
