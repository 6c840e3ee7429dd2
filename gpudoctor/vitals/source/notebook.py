"""Notebooks: the code cells of an .ipynb as one script."""

import ast
import re

from gpudoctor.lang import SpokenError, say
from gpudoctor.model.external_files import load_json
from gpudoctor.model.records import field, frozen

_KEEPING = ("%%time", "%%timeit", "%%capture", "%%prun", "%%memit", "%%snakeviz", "%%wandb")
"""Cell magics whose cell is Python all the same."""
_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[\w.]+\s*=\s*[!%])|^\s*[\w.]+\?{1,2}\s*$")


class NotANotebook(SpokenError, ValueError):
    """The file is not a notebook, or one in another language."""


@frozen(eq=False)
class Notebook:
    """A notebook as one script."""

    text: str
    cells: tuple[tuple[int, int], ...]
    """First line of each code cell in `text`, and the cell's number among all cells, from 1."""
    broken: list[tuple[int, str]] = field(default_factory=list)
    """Cells that are not Python, with the reason; they are left out."""


def read_notebook(text: str) -> Notebook:
    """Join the code cells; magics become comments, so that line numbers stay."""
    try:
        data = load_json(text)
    except ValueError as error:
        raise NotANotebook(say("it is not valid JSON ({short})", short=_short(error))) from error
    cells = data.get("cells") if isinstance(data, dict) else None
    if not isinstance(cells, list):
        raise NotANotebook(say("it has no cells"))
    metadata = data.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = kernel.get("language") if isinstance(kernel, dict) else None
    if isinstance(language, str) and "python" not in language.lower():
        raise NotANotebook(say("its language is {language}, not Python", language=language))
    return _joined(cells)


def _joined(cells: list[object]) -> Notebook:
    lines: list[str] = []
    starts: list[tuple[int, int]] = []
    broken: list[tuple[int, str]] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        if not isinstance(source, str):
            continue
        code = _plain(source)
        problem = _problem(code)
        if problem is not None:
            broken.append((number, problem))
            code = ["#" for _ in code]
        starts.append((len(lines) + 1, number))
        lines += [*code, ""]
    return Notebook(text="\n".join(lines), cells=tuple(starts), broken=broken)


def _lines(source: str) -> list[str]:
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _plain(source: str) -> list[str]:
    lines = _lines(source)
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("%%") and not first.startswith(_KEEPING):
        return ["#" for _ in lines]
    if _problem(lines) is None:
        return lines
    plain = []
    carried = False
    for line in lines:
        match = _MAGIC.match(line)
        if match or carried:
            indent = match[1] or "" if match and match[1] is not None else ""
            plain.append(f"{indent}pass" if not carried else "#")
            carried = line.rstrip().endswith("\\")
        else:
            plain.append(line)
    return plain


def _problem(code: list[str]) -> str | None:
    try:
        compile("\n".join(code), "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _short(error)
    return None


def _short(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
    line = getattr(error, "lineno", None)
    return say("line {line}: {text}", line=line, text=text) if line else text
