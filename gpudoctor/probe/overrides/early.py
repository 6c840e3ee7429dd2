"""Overrides that are there before the program's first line: other source text, other configs, guarded writes.

A mended module keeps its name, its `__file__` and its arguments; only the text that is compiled is another one,
and no `.pyc` of it is written. The main script is reached by a path hook: Python asks `sys.path_hooks` whether
the script that it is to run is an importable place (a zip file) before it opens it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import linecache
import os
import sys
from types import CodeType
from typing import Any

from . import wanted
from .rewrite_source import Change, rewrite
from .run_every import PERIODS


class Edited:
    """One source file with another text, or with statements that run less often."""

    def __init__(self, path: str, replacement: str | None, changes: list[Change]) -> None:
        self.path = path
        self._replacement = replacement
        self._changes = changes

    def code(self, name: str, main: bool = False) -> CodeType:
        """Compile it under the name that the original would have had."""
        with open(self._replacement or self.path, "rb") as stream:
            source = stream.read()
        text = importlib.util.decode_source(source)
        if self._replacement:
            linecache.cache[name] = (len(source), None, text.splitlines(keepends=True), name)
        tree = rewrite(text, name, self._changes, main=main)
        return compile(tree, name, "exec", dont_inherit=True)


_EDITED: dict[str, Edited] = {}
_REDIRECTS: list[Any] = []
"""The one redirection of writes, where there is one."""


def begin() -> None:
    """Install what the environment asks for; the interpreter starts."""
    table = wanted()
    replaced = table.get("source.files") or {}
    changes: dict[str, list[Change]] = {}
    for kind in ("every", "calls", "reads"):
        for path, line, period in table.get(f"source.{kind}") or ():
            changes.setdefault(os.path.realpath(path), []).append((int(line), int(period), kind))
    for path in {os.path.realpath(path) for path in replaced} | set(changes):
        _EDITED[path] = Edited(path, replaced.get(path), changes.get(path, []))
    if _EDITED:
        _hook_imports()
        sys.path_hooks.insert(0, _main_hook)
    if table.get("files.replaced"):
        from . import files

        files.install(table["files.replaced"])
    if table.get("writes.moves"):
        from . import cross_mount_rename

        cross_mount_rename.install()
    if table.get("writes.redirected"):
        from . import writers, writes

        _REDIRECTS.append(writes.install(table["writes.redirected"]))
        writers.early(_REDIRECTS[0])


def adopt(trial: Any, topic: str) -> None:
    """The probe is there."""
    if topic == "source":
        PERIODS.adopt(trial)
    elif topic == "files":
        from . import files

        files.adopt(trial)
    elif topic == "writes":
        from . import writers

        for redirect in _REDIRECTS:
            writers.apply(trial, redirect)


def _edited(path: str) -> Edited | None:
    names = {os.path.basename(known) for known in _EDITED}
    return _EDITED.get(os.path.realpath(path)) if os.path.basename(path) in names else None


def _hook_imports() -> None:
    loader = importlib.machinery.SourceFileLoader
    original = loader.get_code
    names = {os.path.basename(path) for path in _EDITED}

    def get_code(self: Any, fullname: str) -> Any:
        path = self.path
        if os.path.basename(path) in names:
            edited = _edited(path)
            if edited is not None:
                PERIODS.loaded.add(edited.path)
                return edited.code(path)
        return original(self, fullname)

    loader.get_code = get_code  # type: ignore[method-assign]


def _main_hook(entry: str) -> Any:
    """A finder for the script itself; `ImportError` says that it is another one's, as the protocol asks."""
    edited = _edited(entry) if entry else None
    if edited is None:
        raise ImportError(entry)
    return MainFinder(entry, edited)


class MainFinder:
    """Finds `__main__` in a script."""

    def __init__(self, entry: str, edited: Edited) -> None:
        self._entry = entry
        self._path = os.path.abspath(entry)
        self._edited = edited

    def find_spec(self, name: str, _target: Any = None) -> Any:
        """The spec of `__main__`."""
        if name != "__main__":
            return None
        return importlib.util.spec_from_loader(name, self, origin=self._path)  # type: ignore[arg-type]

    def get_code(self, _name: str) -> CodeType:
        """The script's code; what is first on `sys.path` is its folder again, as for any script."""
        if sys.path and sys.path[0] == self._entry:
            if getattr(sys.flags, "safe_path", False):
                del sys.path[0]
            else:
                sys.path[0] = os.path.dirname(os.path.realpath(self._path))
        PERIODS.loaded.add(self._edited.path)
        return self._edited.code(self._path, main=True)

    def create_module(self, _spec: Any) -> None:
        """The default one."""

    def exec_module(self, module: Any) -> None:
        """Not used by runpy, which takes the code; other importers do."""
        exec(self.get_code(module.__name__), module.__dict__)
