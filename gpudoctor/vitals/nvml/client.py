"""The one place where the driver is called: every answer is a value, a reason, or the loss of a GPU.

Runs in the child process: standard library only.
"""

from collections.abc import Callable
from typing import Any

from gpudoctor.lang import say

# NVML return codes (nvml.h).
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18

_REASONS = {
    2: say("not supported by this card"),  # invalid argument: a sensor, link or counter that the card lacks
    3: say("not supported by this card"),
    NO_PERMISSION: say("no permission"),
    6: say("not found"),
    FUNCTION_NOT_FOUND: say("this driver is too old"),
    22: say("not supported in a virtual GPU"),
    25: say("this driver is too old"),
    26: say("this driver dropped it"),
    27: say("the GPU is not ready"),
    999: say("the driver answered with an unknown error"),
}


_OLD_BINDING = say("this nvidia-ml-py is too old")


class GpuLost(Exception):
    """The GPU does not answer any more: lost, or waiting for a reset."""

    def __init__(self, value: int, text: str) -> None:
        super().__init__(text)
        self.value = value


class NotSupported:
    """One reading that is not there."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class NvmlClient:
    """Calls functions of the binding by name."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml

    def read(self, name: str, *arguments: Any) -> Any:
        """The call's value, or `NotSupported`; raises `GpuLost` when the GPU is lost or must be reset."""
        function: Callable[..., Any] | None = getattr(self.nvml, name, None)
        if function is None:
            return NotSupported(_OLD_BINDING)
        try:
            return function(*arguments)
        except self.nvml.NVMLError as error:
            code = getattr(error, "value", 999)
            if code in (GPU_IS_LOST, RESET_REQUIRED):
                raise GpuLost(code, str(error)) from None
            return NotSupported(_REASONS.get(code) or str(error))
        except self.nvml.NVMLLibraryMismatchError:
            return NotSupported(_REASONS[FUNCTION_NOT_FOUND])

    def first(self, *calls: tuple[Any, ...]) -> Any:
        """The first of several calls (name, then arguments) that has a value; the last one's reason otherwise."""
        value: Any = NotSupported("not asked")
        for call in calls:
            value = self.read(*call)
            if not isinstance(value, NotSupported):
                break
        return value

    def fields(self, handle: Any, ids: tuple[int, ...]) -> dict[int, Any]:
        """Values of NVML fields by id, each a number or `NotSupported`."""
        values = self.read("nvmlDeviceGetFieldValues", handle, list(ids))
        if isinstance(values, NotSupported):
            if len(ids) == 1:
                return {ids[0]: values}
            # Some drivers refuse the whole batch for one field that they do not know.
            return {key: value for one in ids for key, value in self.fields(handle, (one,)).items()}
        return {item.fieldId: _field_value(item) for item in values}


def _field_value(item: Any) -> Any:
    if item.nvmlReturn in (GPU_IS_LOST, RESET_REQUIRED):
        raise GpuLost(
            item.nvmlReturn, say("GPU is lost") if item.nvmlReturn == GPU_IS_LOST else say("GPU requires restart")
        )
    if item.nvmlReturn:
        return NotSupported(_REASONS.get(item.nvmlReturn, say("NVML error {number}", number=item.nvmlReturn)))
    slot = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    if item.valueType >= len(slot) or not hasattr(item.value, slot[item.valueType]):
        return NotSupported("a value of an unknown type")
    return getattr(item.value, slot[item.valueType])
