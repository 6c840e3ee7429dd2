"""The same answers without a compiler: Python callables in the place of the library's functions.

The binding passes handles, numbers and by-reference arguments; outputs are written in the order of the values.
"""

import ctypes
import re
from contextlib import contextmanager
from typing import Any

_NOT_SUPPORTED, _FUNCTION_NOT_FOUND, _TOO_SMALL = 3, 13, 7
_BY_REFERENCE = type(ctypes.byref(ctypes.c_int()))
_COUNTED = {"ComputeRunningProcesses": "ComputeProcesses", "GraphicsRunningProcesses": "GraphicsProcesses"}
_NAMES = {"CurrentClocksEventReasons": "ClocksEventReasons", "GpuFabricInfoV": "GpuFabricInfo"}
_ERRORS = ctypes.c_char_p(b"an error of the fake driver")


class FakeLib:
    """Stands in for `pynvml.nvmlLib`. A function whose answer is 13 is not there at all."""

    def __init__(self, answers: list[str]) -> None:
        self.answers: dict[tuple[str, str], tuple[int, str]] = {}
        for line in answers:
            who, key, code, *rest = line.split(" ", 3)
            self.answers[who, key] = (int(code), rest[0] if rest else "")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        if name == "nvmlErrorString":
            return _ErrorString()
        key = re.sub(r"^nvml(Device|System)?(Get)?|(_v\d)?$", "", name)
        if self._ask("*", _NAMES.get(key, key))[0] == _FUNCTION_NOT_FOUND:
            raise AttributeError(name)
        return _Function(self, key)

    def _ask(self, who: str, key: str) -> tuple[int, str]:
        for asked in (who, "*") if who != "-" else ("-",):
            if (asked, key) in self.answers:
                return self.answers[asked, key]
        return _NOT_SUPPORTED, ""

    def call(self, key: str, arguments: tuple[Any, ...]) -> int:
        """Answer one call of the binding."""
        if key in {"Shutdown"}:
            return 0
        if key == "InitWithFlags":
            return self._ask("-", "Init")[0]
        if key == "HandleByIndex":
            index, out = arguments[0].value, arguments[1]._obj
            ctypes.cast(ctypes.pointer(out), ctypes.POINTER(ctypes.c_void_p))[0] = index + 1
            return self._ask(str(index), key)[0]
        who, rest = self._who(arguments)
        if key == "FieldValues":
            return self._fields(who, rest[1]._obj)
        if key in _COUNTED:
            return self._processes(who, _COUNTED[key], rest)
        numbers = [str(_number(item)) for item in rest if not _is_output(item)]
        if key == "NvLinkErrorCounter":
            numbers = numbers[1:]
        outputs = [item for item in rest if _is_output(item)]
        buffer = bool(outputs) and isinstance(outputs[0], ctypes.Array)
        full = ":".join([_NAMES.get(key, key), *([] if buffer else numbers)])
        code, text = self._ask(who, full)
        if code == 0:
            _write(outputs, text)
        return code

    def _who(self, arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
        if arguments and isinstance(arguments[0], ctypes._Pointer):
            return str(_index(arguments[0])), arguments[1:]
        return "-", arguments

    def _fields(self, who: str, fields: Any) -> int:
        for item in fields:
            item.nvmlReturn, text = self._ask(who, f"FieldValues:{item.fieldId}")
            item.valueType = 3
            if item.nvmlReturn == 0:
                item.value.ullVal = int(text, 0)
        return 0

    def _processes(self, who: str, key: str, arguments: tuple[Any, ...]) -> int:
        code, text = self._ask(who, key)
        total, *values = [int(word) for word in text.split()] or [0]
        count, array = arguments[0]._obj, arguments[1]
        if code:
            return code
        if total and array is None:
            count.value = total
            return _TOO_SMALL
        for place in range(total):
            array[place].pid, array[place].usedGpuMemory = values[2 * place : 2 * place + 2]
        count.value = total
        return 0


class _Function:
    def __init__(self, library: FakeLib, key: str) -> None:
        self.library, self.key = library, key

    def __call__(self, *arguments: Any) -> int:
        return self.library.call(self.key, arguments)


class _ErrorString:
    restype: Any = None

    def __call__(self, code: int) -> bytes:
        return _ERRORS.value or b""


def _index(handle: Any) -> int:
    return (ctypes.cast(handle, ctypes.c_void_p).value or 0) - 1


def _is_output(item: Any) -> bool:
    return isinstance(item, (_BY_REFERENCE, ctypes.Array)) or item is None


def _number(item: Any) -> int:
    return item if isinstance(item, int) else item.value


def _write(outputs: list[Any], text: str) -> None:
    words = iter(text.split())
    for item in outputs:
        if isinstance(item, ctypes.Array):
            item.value = text.encode()
            continue
        target = item._obj
        if isinstance(target, ctypes.Structure):
            _fill(target, text)
        else:
            target.value = int(next(words, "0"), 0)


def _fill(target: ctypes.Structure, text: str) -> None:
    """The fields that the C fake fills too, by the structure's kind."""
    words = [int(word, 0) for word in text.split()] if ":" not in text else []
    for names in (("total", "used"), ("gpu", "memory"), ("state", "status", "healthSummary"), ("bThresholdExceeded",),
                  ("marginTemperature",), ("none",)):  # fmt: skip
        if all(hasattr(target, name) for name in names[:1]):
            for name, value in zip(names, words, strict=False):
                setattr(target, name, value)
            return
    if hasattr(target, "busId"):
        target.busId = text.encode()


@contextmanager
def fake_binding(answers: list[str]) -> Any:
    """The binding with the fake library loaded; put back at the end."""
    import pynvml

    before = pynvml.nvmlLib
    pynvml.nvmlLib = FakeLib(answers)
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield pynvml
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
