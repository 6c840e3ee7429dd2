"""What runs at interpreter start: whether this process may train, and the wait for torch to be imported.

It must cost next to nothing: most Python processes under a launcher never import torch. So nothing but
what the interpreter has loaded anyway is used here, and the probe's own modules are loaded when torch has been.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import os
import sys
from types import ModuleType
from typing import Any

PACKAGE = "_gpudoctor_probe"

HELPERS = (
    "multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker", "multiprocessing.forkserver",
    "compile_worker", "torch/_inductor", "torch._inductor",
)  # fmt: skip
"""Words in the command line of interpreters that serve others and never train."""


def boot(folder: str) -> None:
    """Wait for torch in this process, unless it is a helper's."""
    words = [str(word) for word in getattr(sys, "orig_argv", sys.argv)]
    if any(helper in word for word in words[1:] for helper in HELPERS) or words[1:3] == ["-m", "pip"]:
        return
    waiting = Waiting(folder)
    sys.meta_path.insert(0, waiting)
    atexit.register(waiting.ends)


class Waiting:
    """A finder that finds nothing: it sees what is being imported, and tells the probe when that is done.

    The loader that really loads the module stays in place; only its `exec_module` is wrapped, once.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.probe: Any = None
        self.wanted = {"torch"}
        self._sought: set[tuple[str, int]] = set()
        """Modules whose spec a thread seeks: a finder may ask the others itself."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the other finders have, for the modules that we want to hear of; else None.

        Who asks may only want to know whether there is such a module (`importlib.util.find_spec("torch")`, as
        transformers and datasets do): it stays wanted until it is loaded.
        """
        key = fullname, _thread.get_ident()
        if fullname not in self.wanted or key in self._sought:
            return None
        self._sought.add(key)
        try:
            spec = self._seek(fullname, path, target)
        finally:
            self._sought.discard(key)
        if spec is not None:
            try:
                self._follow(fullname, spec.loader)
            except Exception:
                pass
        return spec

    def _seek(self, fullname: str, path: Any, target: Any) -> Any:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def _follow(self, fullname: str, loader: Any) -> None:
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            try:
                del loader.exec_module
            except AttributeError:
                pass
            original(module)
            try:
                if fullname in self.wanted:
                    self.wanted.discard(fullname)
                    self.imported(fullname)
            except Exception:
                pass

        loader.exec_module = exec_module

    def ends(self) -> None:
        """The interpreter ends: where torch was never there, nobody else tells of what ended it."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        # After Ctrl-C nothing is imported: Python would forget to end by SIGINT. Its cause is known anyway.
        if self.probe is None and isinstance(error, BaseException) and not isinstance(error, KeyboardInterrupt):
            try:
                load(self.folder, ".recording_file").write_early(error)
            except Exception:
                pass

    def imported(self, fullname: str) -> None:
        """A wanted module is there."""
        if fullname == "torch":
            with Uncollected():
                self.probe = load(self.folder).begin(self)
        elif self.probe is not None:
            self.probe.imported(fullname)


class Uncollected:
    """No garbage collection meanwhile, which would go through all that torch has made: 0.1 s and more."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:  # the program may have turned it off itself
            gc.enable()


def load(folder: str, name: str = ".start") -> Any:
    """A module of the probe's package, which has a name of its own: the environment's gpudoctor is another."""
    import importlib.util

    if PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = module
        spec.loader.exec_module(module)
    return importlib.import_module(PACKAGE + name)
