"""The fields of the argument classes of the installed libraries, read from their files; nothing is imported."""

import ast
from pathlib import Path
from typing import Final

from gpudoctor.model import Unavailable
from gpudoctor.model.external_files import read_text
from gpudoctor.model.read_limits import SCRIPT_CODE
from gpudoctor.model.signs.packages import ArgumentFields, Packages

_FILES: Final = {
    "transformers": ("transformers/training_args.py", "transformers/training_args_seq2seq.py"),
    "peft": ("peft/config.py", "peft/tuners/lora/config.py"),
}
"""Distribution to the files that define its argument classes."""


def read_argument_fields(packages: Packages) -> ArgumentFields:
    """Fields by class name, inherited ones included; raises `Unavailable` when no such library is installed."""
    fields: dict[str, frozenset[str]] = {}
    versions: dict[str, str] = {}
    for name, paths in _FILES.items():
        found = packages.distributions.get(name)
        if found is None:
            continue
        classes: dict[str, tuple[list[str], set[str]]] = {}
        for path in paths:
            classes.update(_classes(Path(found.location, path)))
        for title in classes:
            fields[title] = frozenset(_inherited(title, classes))
        if classes:
            versions[name] = found.version
    if not fields:
        raise Unavailable("neither transformers nor peft is installed in {prefix}", prefix=packages.prefix)
    return ArgumentFields(versions=versions, fields=fields)


def _classes(path: Path) -> dict[str, tuple[list[str], set[str]]]:
    """Each class of a file with its bases and its annotated fields; empty when it cannot be read."""
    try:
        tree = ast.parse(read_text(path, SCRIPT_CODE))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    found: dict[str, tuple[list[str], set[str]]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names = {
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign)
                and isinstance(item.target, ast.Name)
                and "ClassVar" not in ast.unparse(item.annotation)
            }
            found[node.name] = ([ast.unparse(base).rpartition(".")[2] for base in node.bases], names)
    return found


def _inherited(
    name: str, classes: dict[str, tuple[list[str], set[str]]], seen: frozenset[str] = frozenset()
) -> set[str]:
    if name not in classes or name in seen:
        return set()
    bases, own = classes[name]
    return own.union(*(_inherited(base, classes, seen | {name}) for base in bases))
