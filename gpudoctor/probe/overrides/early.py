"""Overrides that are there before the program's first line: other source text, other configs.

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
from collections.abc import Callable
from types import CodeType
from typing import Any

from . import wanted

_EDITED: dict[str, str] = {}
"""Real path of a source file to that of its text."""


def begin() -> None:
    """Install what the environment asks for; the interpreter starts."""
    table = wanted()
    _EDITED.update({os.path.realpath(path): other for path, other in (table.get("source.files") or {}).items()})
    if _EDITED:
        loader = importlib.machinery.SourceFileLoader
        original = loader.get_code

        def get_code(self: Any, fullname: str) -> Any:
            replacement = _edited(self.path)
            return _compiled(replacement, self.path) if replacement is not None else original(self, fullname)

        loader.get_code = get_code  # type: ignore[method-assign]
        sys.path_hooks.insert(0, _main_hook)
    if table.get("files.replaced"):
        install_files(table["files.replaced"])
    if table.get("writes.moves"):
        install_renames()


def _edited(path: str) -> str | None:
    """The file with the other text; names are compared first, which costs nothing."""
    names = {os.path.basename(known) for known in _EDITED}
    return _EDITED.get(os.path.realpath(path)) if os.path.basename(path) in names else None


def _compiled(replacement: str, name: str, main: bool = False) -> CodeType:
    """Compile it under the name that the original would have had; `main` makes it a script's."""
    with open(replacement, "rb") as stream:
        source = stream.read()
    text = importlib.util.decode_source(source)
    linecache.cache[name] = (len(source), None, text.splitlines(keepends=True), name)
    tree = ast.parse(text, name)
    if main:
        # Run by runpy, a script must still look like one: a spawned child imports it by its path.
        at = 0
        for index, node in enumerate(tree.body):
            docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                at = index + 1
        tree.body.insert(at, ast.parse("__spec__ = None").body[0])
    return compile(tree, name, "exec", dont_inherit=True)


def _main_hook(entry: str) -> Any:
    """A finder for the script itself; `ImportError` says that it is another one's, as the protocol asks."""
    replacement = _edited(entry) if entry else None
    if replacement is None:
        raise ImportError(entry)
    return MainFinder(entry, replacement)


class MainFinder:
    """Finds `__main__` in a script."""

    def __init__(self, entry: str, replacement: str) -> None:
        self._entry = entry
        self._path = os.path.abspath(entry)
        self._replacement = replacement

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
        return _compiled(self._replacement, self._path, main=True)

    def create_module(self, _spec: Any) -> None:
        """The default one."""

    def exec_module(self, module: Any) -> None:
        """Not used by runpy, which takes the code; other importers do."""
        exec(self.get_code(module.__name__), module.__dict__)


# `files.replaced`: a config that the program opens is another text.

_REPLACED: dict[str, Any] = {"opened": False, "trial": None}
"""Whether one of them was opened, and who is to be told."""


def adopt_files(trial: Any) -> None:
    """The probe is there."""
    _REPLACED["trial"] = trial
    if _REPLACED["opened"]:
        trial.reached("files.replaced")


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
                    _REPLACED["opened"] = True
                    if _REPLACED["trial"] is not None:
                        _REPLACED["trial"].reached("files.replaced")
                    file = other
        return original(file, mode, *args, **kwargs)

    builtins.open = io.open = open_


# `writes.moves`: folders can be renamed under an overlay that cannot rename them (one of a user namespace).
#
# The kernel answers that it is another file system; `mv` and `shutil.move` copy then, `os.rename` does not.


def install_renames() -> None:
    """Replace `os.rename` and `os.replace`."""

    def copying(original: Callable[..., Any]) -> Callable[..., Any]:
        def rename(source: Any, target: Any, **kwargs: Any) -> None:
            try:
                original(source, target, **kwargs)
            except OSError as error:
                if error.errno != errno.EXDEV or kwargs or not stat.S_ISDIR(os.lstat(source).st_mode):
                    raise
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
                shutil.rmtree(source)

        return rename

    os.rename, os.replace = copying(os.rename), copying(os.replace)
