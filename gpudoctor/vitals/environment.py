"""The environment variables of this process, or of the one that is examined."""

import os
from collections.abc import Mapping
from contextlib import suppress

from gpudoctor.lang import say
from gpudoctor.model import Unavailable
from gpudoctor.model.redaction import mask_value
from gpudoctor.model.signs.job import Environment

_LIBRARIES = ("libnccl.so", "libcudnn.so", "libcudart.so", "libcublas.so")
"""Libraries that torch brings along and that the loader path can put others in front of."""
_MOST_FOLDERS = 64
"""Folders of a loader path that are looked into; a longer one is a mistake of its own."""


def read_environment(pid: int | None = None, *, proc: str = "/proc") -> Environment:
    """This process's variables, or those that process `pid` was started with; secret values are masked.

    Raises `Unavailable` when there is no such process or it belongs to someone else.
    """
    variables = dict(os.environ) if pid is None else _of_process(pid, proc)
    return Environment(
        variables=masked(variables),
        origin="environment" if pid is None else say("environment of pid {pid}", pid=pid),
        shadowing=_shadowing(variables),
    )


def masked(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables with values of secret names, and secrets inside other values, replaced."""
    return {_clean(name): mask_value(name, _clean(value)) for name, value in variables.items()}


def parse_environ(data: bytes) -> dict[str, str]:
    """Variables in the form of /proc/PID/environ; entries without a name are left out."""
    variables: dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if name and equals:  # the first of a name counts, as for getenv
            variables.setdefault(name.decode(errors="replace"), value.decode(errors="replace"))
    return variables


def _of_process(pid: int, proc: str) -> dict[str, str]:
    try:
        with open(f"{proc}/{pid}/environ", "rb") as file:
            return parse_environ(file.read())
    except OSError as error:
        raise Unavailable(
            "the environment of process {pid} cannot be read ({reason})", pid=pid, reason=error.strerror
        ) from error


def _clean(text: str) -> str:
    """The text without the surrogates that stand for bytes that are no UTF-8: reports are UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if not text.isascii() else text


def _shadowing(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Library and path for each CUDA library that LD_PRELOAD or LD_LIBRARY_PATH puts before torch's own."""
    found: dict[str, str] = {}
    paths = variables.get("LD_PRELOAD", "").replace(":", " ").split()
    for folder in filter(None, variables.get("LD_LIBRARY_PATH", "").split(":")[:_MOST_FOLDERS]):
        with suppress(OSError, ValueError):
            paths += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    for path in paths:
        for library in _LIBRARIES:
            if os.path.basename(path).startswith(library):
                found.setdefault(library, path)
    return tuple(found.items())
