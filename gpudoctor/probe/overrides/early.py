"""Overrides that are there before the program's first line: other source text, other configs, guarded writes.

A mended module keeps its name, its `__file__` and its arguments; only the text that is compiled is another one,
and no `.pyc` of it is written. The main script is reached by a path hook: Python asks `sys.path_hooks` whether
the script that it is to run is an importable place (a zip file) before it opens it.
"""

from __future__ import annotations

import ast
import builtins
import errno
import importlib.machinery
import importlib.util
import io
import linecache
import os
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from . import wanted
from .deferred_reads import defer
from .run_every import PERIODS, Placement


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
        install_files(table["files.replaced"])
    if table.get("writes.moves"):
        install_renames()
    if table.get("writes.redirected"):
        from . import library_writes, writes

        _REDIRECTS.append(writes.install(table["writes.redirected"]))
        library_writes.early(_REDIRECTS[0])


def adopt(trial: Any, topic: str) -> None:
    """The probe is there."""
    if topic == "source":
        PERIODS.adopt(trial)
    elif topic == "files":
        adopt_files(trial)
    elif topic == "writes":
        from . import library_writes

        for redirect in _REDIRECTS:
            library_writes.apply(trial, redirect)


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


# The source of a script with statements that run every so many steps, and reads that are deferred.

Change = tuple[int, int, str]
"""Line, period, kind."""


def rewrite(text: str, name: str, changes: Sequence[Change], main: bool = False) -> ast.Module:
    """The syntax tree of a source text with periods at lines; `main` makes it a script's.

    A change is a line, a period and its kind: `every` (any statement), `calls` (what meets the other ranks:
    never a loop, and nothing that decides how a rank goes on), `reads` (`deferred_reads`).
    """
    tree = ast.parse(text, name)
    for line, period, kind in sorted(changes, reverse=True):
        if kind == "reads":
            defer(tree, name, line, period)
        else:
            Placement(name, line, period, calls=kind == "calls").place(tree)
    if main:
        # Run by runpy, a script must still look like one: a spawned child imports it by its path.
        head = ast.parse("__spec__ = None").body[0]
        tree.body.insert(_after_futures(tree), head)
    return ast.fix_missing_locations(tree)


def _after_futures(tree: ast.Module) -> int:
    at = 0
    for index, node in enumerate(tree.body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            at = index + 1
    return at


# `files.replaced`: a config that the program opens is another text.

_REPLACED: dict[str, Any] = {"opened": False, "trial": None}
"""Whether one of them was opened, and who is to be told."""


def adopt_files(trial: Any) -> None:
    """The probe is there."""
    _REPLACED["trial"] = trial
    if _REPLACED["opened"]:
        trial.reached("files.replaced")


def _opened_replaced() -> None:
    _REPLACED["opened"] = True
    if _REPLACED["trial"] is not None:
        _REPLACED["trial"].reached("files.replaced")


def install_files(table: dict[str, str]) -> None:
    """Replace `open` for reading these files (path to path)."""
    known = {os.path.realpath(path): other for path, other in table.items()}
    names = {os.path.basename(path) for path in known}
    original = io.open

    def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, (str, os.PathLike)) and not set(mode) & set("wax+"):
            path = os.fspath(file)
            if isinstance(path, str) and os.path.basename(path) in names:
                other = known.get(os.path.realpath(path))
                if other is not None:
                    _opened_replaced()
                    file = other
        return original(file, mode, *args, **kwargs)

    builtins.open = io.open = open_


# `writes.moves`: folders can be renamed under an overlay that cannot rename them (one of a user namespace).
#
# The kernel answers that it is another file system; `mv` and `shutil.move` copy then, `os.rename` does not.


def install_renames() -> None:
    """Replace `os.rename` and `os.replace`."""
    os.rename = _copying(os.rename)
    os.replace = _copying(os.replace)


def _copying(original: Callable[..., Any]) -> Callable[..., Any]:
    def rename(source: Any, target: Any, **kwargs: Any) -> None:
        try:
            original(source, target, **kwargs)
        except OSError as error:
            folder = error.errno == errno.EXDEV and not kwargs and stat.S_ISDIR(os.lstat(source).st_mode)
            if not folder:
                raise
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(source)

    return rename
