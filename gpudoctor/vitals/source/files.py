"""Reading files of code: encodings, sizes, syntax errors as sentences; folders; silencing comments."""

import ast
import io
import os
import re
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from gpudoctor.analysis.source.syntax import below, by_kind, words
from gpudoctor.lang import SpokenError, say
from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import SCRIPT_CODE, SCRIPT_DEPTH, SCRIPT_NODES, ReadLimit
from gpudoctor.vitals.source.notebook import NotANotebook, read_notebook
from gpudoctor.vitals.source.values import Module

_SKIPPED = words(
    ".git .hg .svn venv .venv env .env node_modules site-packages dist-packages build dist __pycache__ .tox .nox "
    ".mypy_cache .ruff_cache .pytest_cache .eggs wandb .ipynb_checkpoints conda-meta"
)
MOST_FILES = 2000
"""Most files of one folder."""
_SILENCE = re.compile(r"gpudoctor\s{0,20}:\s{0,20}ignore(?:\s{0,20}\[([^\]]*)\])?\s{0,20}:?\s{0,20}(.*)", re.I)


class UnreadSource(SpokenError):
    """A file could not be read; the text is a sentence for a person that names the file and the line."""


def load(path: Path, shown: str, limit: ReadLimit, entry: bool, texts: Mapping[str, str]) -> tuple[Module, list[str]]:
    """Read and parse a file, or the text that stands for it; also sentences about parts that were left out.

    Raises `UnreadSource`.
    """
    replaced = texts.get(os.path.realpath(path)) if texts else None
    text = _decoded(_bytes(path, shown, limit), shown) if replaced is None else replaced
    notes: list[str] = []
    cells: tuple[tuple[int, int], ...] = ()
    if path.suffix.lower() == ".ipynb":
        try:
            notebook = read_notebook(text)
        except NotANotebook as error:
            raise UnreadSource(say("{shown}: the notebook cannot be read: {error}", shown=shown, error=error)) from None
        text, cells = notebook.text, notebook.cells
        notes = [
            say(
                "{shown}: cell {number} was ignored, because it is not Python ({why})",
                shown=shown,
                number=number,
                why=why,
            )
            for number, why in notebook.broken
        ]
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > SCRIPT_CODE.most:
        raise UnreadSource(say("{shown}: it was not read: it is {words}", shown=shown, words=SCRIPT_CODE.words))
    tree = _parsed(text, shown, bool(cells))
    parents: dict[ast.AST, ast.AST] = {}
    nodes = _measured(tree, shown, parents)
    module = Module(
        path=shown,
        file=os.path.abspath(path),
        text=text,
        lines=text.split("\n"),
        tree=tree,
        entry=entry,
        cells=cells,
        nodes=len(nodes),
        parents=parents,
        kinds=by_kind(nodes),
    )
    return module, notes


def _bytes(path: Path, shown: str, limit: ReadLimit) -> bytes:
    try:
        return read_file(path, limit)
    except FileNotFoundError:
        raise UnreadSource(say("{shown}: it does not exist", shown=shown)) from None
    except OSError as error:
        raise UnreadSource(
            say("{shown}: it cannot be read: {reason}", shown=shown, reason=error.strerror or error)
        ) from None


def _decoded(data: bytes, shown: str) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, LookupError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise UnreadSource(say("{shown}: save it as UTF-8 ({reason})", shown=shown, reason=reason)) from None
    if "\0" in text:
        raise UnreadSource(say("{shown}: it is a binary file, not a script", shown=shown))
    return text


def _parsed(text: str, shown: str, notebook: bool) -> ast.Module:
    flags = ast.PyCF_ONLY_AST | (ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if notebook else 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(text, shown, "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        raise UnreadSource(
            say("{shown}: line {line}: syntax error: {problem}", shown=shown, line=error.lineno or 1, problem=error.msg)
        ) from None
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise UnreadSource(
            say("{shown}: Python cannot parse it: {first}", shown=shown, first=str(error) or type(error).__name__)
        ) from None
    assert isinstance(tree, ast.Module)
    return tree


def _measured(tree: ast.Module, shown: str, parents: dict[ast.AST, ast.AST]) -> list[ast.AST]:
    """A tree's nodes, in the order of `ast.walk`. Raises `UnreadSource` for one too large or too deep."""
    nodes: list[ast.AST] = []
    depth = 0
    level: list[ast.AST] = [tree]
    while level:
        nodes += level
        depth += 1
        for most, found in ((SCRIPT_NODES, len(nodes)), (SCRIPT_DEPTH, depth)):
            if found > most.most:
                raise UnreadSource(say("{shown}: it is not read: it has {words}", shown=shown, words=most.words))
        level = below(level, parents)
    return nodes


def scripts_below(folder: Path) -> tuple[list[Path], bool]:
    """Python files of a folder, in order, and whether some were left out."""
    found = list(islice(_walk(folder), MOST_FILES + 1))
    return found[:MOST_FILES], len(found) > MOST_FILES


def _walk(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED
            and not name.endswith(".egg-info")
            and not os.path.exists(os.path.join(base, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            if name.endswith(".py"):
                yield Path(base, name)


def silences(module: Module) -> tuple[dict[int, tuple[str, ...]], dict[int, str]]:
    """`# gpudoctor: ignore[DATA001] reason` comments, for every line of the statement they stand on."""
    if "gpudoctor" not in module.text:
        return {}, {}
    codes: dict[int, tuple[str, ...]] = {}
    reasons: dict[int, str] = {}
    for number, line in enumerate(module.lines, 1):
        match = _SILENCE.search(line, line.find("#") + 1) if "gpudoctor" in line and "#" in line else None
        if match is None:
            continue
        named = tuple(part.strip().upper() for part in (match[1] or "").split(",") if part.strip())
        first, last = _extent(module.tree, number)
        if line.lstrip().startswith("#"):
            first, last = number, _extent(module.tree, number + 1)[1]
        for covered in range(first, min(last, first + 200) + 1):
            codes[covered] = tuple(dict.fromkeys((*codes.get(covered, ()), *(named or ("*",)))))
            if match[2].strip():
                reasons.setdefault(covered, match[2].strip())
    return codes, reasons


def _extent(tree: ast.Module, line: int) -> tuple[int, int]:
    """First and last line of the simple statement (or of the head of a compound one) on a line."""
    first, last = line, line
    for node in ast.walk(tree):  # outer ones come first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            inner = [part.lineno for part in ast.walk(node) if isinstance(part, ast.stmt) and part is not node]
            first, last = node.lineno, min(inner) - 1 if inner else node.end_lineno or node.lineno
    return (first, last) if line <= last else (line, line)
