"""Libraries that open files past Python's `open`: torch, safetensors, tokenizers, SQLite, Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .patching import wrap

if TYPE_CHECKING:
    from . import Trial
    from .redirect import Redirect

_PATHS = (str, bytes, os.PathLike)


def apply(trial: Trial, redirect: Redirect) -> None:
    """Those of torch now, the others when they are imported."""
    _torch(trial.torch, redirect)
    when = trial.probe.when_imported
    for module in ("safetensors", "safetensors.torch", "safetensors.numpy"):
        when(module, lambda found: _safetensors(found, redirect))
    for module, kind in (
        ("transformers.tokenization_utils_tokenizers", "TokenizersBackend"),
        ("transformers.tokenization_utils_fast", "PreTrainedTokenizerFast"),
    ):
        when(module, lambda found, kind=kind: _tokenizer(getattr(found, kind), redirect))
    when("pyarrow", lambda found: _arrow(found, redirect))


def early(redirect: Redirect) -> None:
    """Those of the standard library, and what programs import before torch."""
    try:
        import sqlite3
    except ImportError:  # a Python that was built without
        return
    original = sqlite3.connect

    def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
        text = os.fsdecode(database) if isinstance(database, _PATHS) else ""
        plain = text and text != ":memory:" and not (kwargs.get("uri") and text.startswith("file:"))
        return original(redirect.writable(text, keep=True) if plain else database, *args, **kwargs)

    sqlite3.connect = sqlite3.dbapi2.connect = connect


def first_path(original: Callable[..., Any], at: int, change: Callable[[Any], Any]) -> Callable[..., Any]:
    """`original` with its argument at a place changed, if that is a path."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > at and isinstance(args[at], _PATHS):
            args = (*args[:at], change(args[at]), *args[at + 1 :])
        return original(*args, **kwargs)

    return call


def _torch(torch: Any, redirect: Redirect) -> None:
    def fresh(path: Any) -> Any:
        return redirect.writable(path, keep=False)

    core = torch._C
    wrapped: tuple[tuple[Any, str, int, Callable[[Any], Any]], ...] = (
        (core, "PyTorchFileWriter", 0, fresh),
        (core, "PyTorchFileReader", 0, redirect.readable),
        (torch.UntypedStorage, "from_file", 0, redirect.readable),
        (getattr(core, "ScriptModule", None), "save", 1, fresh),
        (getattr(core, "ScriptFunction", None), "save", 1, fresh),
        (getattr(torch.autograd.profiler, "profile", None), "export_chrome_trace", 1, fresh),
    )
    for owner, name, at, change in wrapped:
        original: Any = getattr(owner, name, None)
        if original is not None:
            new = first_path(original, at, change)
            setattr(owner, name, staticmethod(new) if name == "from_file" else new)


def _safetensors(module: Any, redirect: Redirect) -> None:
    for name, at, change in (
        ("serialize_file", 1, lambda path: redirect.writable(path, keep=False)),
        ("safe_open", 0, redirect.readable),
    ):
        original: Any = getattr(module, name, None)
        if isinstance(original, type) or type(original).__name__ == "builtin_function_or_method":
            setattr(module, name, first_path(original, at, change))


def _tokenizer(kind: Any, redirect: Redirect) -> None:
    """The fast tokenizers' files are written by Rust, into the folder that this method is given."""

    def make(original: Any) -> Any:
        def _save_pretrained(self: Any, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
            given = redirect.writable(save_directory, keep=True)
            files = original(self, given, *args, **kwargs)
            shown = str(os.fspath(save_directory))
            return tuple(str(path).replace(str(given), shown, 1) for path in files)

        return _save_pretrained

    wrap(kind, "_save_pretrained", make)


def _arrow(module: Any, redirect: Redirect) -> None:
    for name in ("memory_map", "OSFile"):
        original = getattr(module, name)

        def opened(path: Any, mode: str = "r", *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            writes = mode not in ("r", "rb")
            path = redirect.writable(path, keep="w" not in mode) if writes else redirect.readable(path)
            return _original(os.fsdecode(path), mode, *args, **kwargs)

        setattr(module, name, opened)
