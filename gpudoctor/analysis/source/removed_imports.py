"""What a program imports of a package's inside that later releases do not have: it lives with an older one."""

import ast
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Script, Source

_LAST = {
    # name: the last release that has it, by the tags of the package's repository
    "torch.utils.ffi": "0.4",
    "torch.utils.data.dataloader._use_shared_memory": "1.0",
    "torch.utils.data.dataloader.ExceptionWrapper": "1.0",
    "torch.utils.data.dataloader.numpy_type_map": "1.0",
    "torch.utils.data.dataloader.pin_memory_batch": "1.0",
    "torch.utils.data.dataloader._DataLoaderIter": "1.1",
    "torch._six": "1.13",
}


@dataclass(frozen=True, slots=True)
class Outgrown:
    """One such import."""

    name: str
    last: str
    """The last release of the package that has the name."""
    span: SourceSpan


def outgrown(source: Source, package: str, path: str) -> Outgrown | None:
    """The import that ties the program of a file to the oldest release of a package; None without any.

    Imports in a function, a try or an if are left out: the program knows that they may fail.
    """
    scripts = {script.path: script for script in source.scripts if script.path == path}
    for program in training_programs(source):
        if path in {script.path for script in program.scripts}:
            scripts |= {script.path: script for script in program.scripts}
    found = [
        Outgrown(name, _LAST[name], script.span(node))
        for script in scripts.values()
        for node, names in _imported(script)
        for name in names
        if name in _LAST and name.startswith(f"{package}.")
    ]
    return min(found, key=lambda item: [int(part) for part in item.last.split(".")], default=None)


def _imported(script: Script) -> list[tuple[ast.AST, list[str]]]:
    """The imports that run whenever the script does, with the names of all that they take and take it from."""
    if not any(name.rpartition(".")[2] in script.text for name in _LAST):
        return []
    found: list[tuple[ast.AST, list[str]]] = []
    for node in nodes(script, ast.Import, ast.ImportFrom):
        if any(isinstance(above, (*FUNCTIONS, ast.Try, ast.If)) for above in enclosing(script, node)):
            continue
        if isinstance(node, ast.Import):
            found.append((node, [item.name for item in node.names]))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node, [node.module, *(f"{node.module}.{item.name}" for item in node.names)]))
    return found
