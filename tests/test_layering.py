"""Arrows point one way: who may import whom, read from the syntax of every module."""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

TOOLS = {"gpudoctor.text", "gpudoctor.lang"}
FACTS = {*TOOLS, "gpudoctor.model", "gpudoctor.analysis"}
PARTS = {*FACTS, "gpudoctor", "gpudoctor.errors"}
MOST = {*PARTS, "gpudoctor.engine"}
ALLOWED = {
    "gpudoctor/lang": {"gpudoctor.lang"},
    # What probe, recorder and readers share stands in the probe's folder: the user's interpreter loads no other.
    "gpudoctor/model": {*TOOLS, "gpudoctor.model", "gpudoctor.probe.wire"},
    "gpudoctor/analysis": FACTS,
    "gpudoctor/engine": MOST,
    "gpudoctor/vitals": {*FACTS, "gpudoctor.errors", "gpudoctor.estimate", "gpudoctor.probe.wire", "gpudoctor.vitals"},
    "gpudoctor/recorder": {*PARTS, "gpudoctor.probe.wire", "gpudoctor.vitals", "gpudoctor.recorder"},
    "gpudoctor/preflight": {*PARTS, "gpudoctor.vitals", "gpudoctor.recorder", "gpudoctor.preflight"},
    "gpudoctor/watch": {*MOST, "gpudoctor.report", "gpudoctor.vitals", "gpudoctor.watch"},
    # A measurement asks how much memory is free.
    "gpudoctor/estimate": {*PARTS - {"gpudoctor.analysis"}, "gpudoctor.estimate", "gpudoctor.vitals.host"},
    "gpudoctor/report": {*MOST, "gpudoctor.estimate", "gpudoctor.report"},
    "gpudoctor/ui": {*MOST, "gpudoctor.estimate", "gpudoctor.report", "gpudoctor.ui"},
    "gpudoctor/trial": {*MOST, "gpudoctor.mend", "gpudoctor.recorder", "gpudoctor.vitals", "gpudoctor.trial"},
    "gpudoctor/hooks": {"gpudoctor.errors", "gpudoctor.model", "gpudoctor.recorder", "gpudoctor.hooks"},
    "gpudoctor/agents": {
        "gpudoctor.text", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.recorder", "gpudoctor.trial", "gpudoctor.vitals",
        "gpudoctor.agents",
    },
    "checks/gpudoctor_checks": {*FACTS, "gpudoctor_checks"},
    "rules/gpudoctor_rules": {*FACTS, "gpudoctor.estimate", "gpudoctor_rules", "gpudoctor_checks"},
}  # fmt: skip
"""Folder to the prefixes of ours that it may import; cli may import everything."""

ALL = ("gpudoctor", "checks", "rules")
HEAVY = {"torch", "transformers", "pynvml", "textual", "libcst", "scipy", "numpy", "ruamel", "psutil", "rich"}


def modules(folder: str) -> Iterator[Path]:
    yield from sorted((ROOT / folder).rglob("*.py"))


@pytest.fixture(scope="module", autouse=True)
def _trees_are_let_go() -> Iterator[None]:
    """All trees of syntax together are large, and the tests that follow do not read them."""
    yield
    parsed.cache_clear()
    nodes.cache_clear()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a module but expressions' contexts, which are half of the objects."""
    return tuple(node for node in ast.walk(parsed(path)) if not isinstance(node, ast.expr_context))


@cache
def imports(path: Path) -> tuple[tuple[str, int, bool], ...]:
    """Imported module, line, and whether the import is at module level."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    top = set(map(id, parsed(path).body))
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if "gpudoctor/probe/" in path.as_posix() and node.level:
                continue  # it has another name in the user's process; its own test is below
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            names = [
                f"{node.module}.{alias.name}" if node.module == "gpudoctor" else node.module for alias in node.names
            ]
            yield from ((str(name), node.lineno, id(node) in top) for name in dict.fromkeys(names))


def ours(name: str) -> bool:
    return first(name) in {"gpudoctor", "gpudoctor_checks", "gpudoctor_rules"}


def first(name: str) -> str:
    return name.split(".")[0]


def offences(folders: Iterable[str], wrong: Callable[[Path, str, bool], object]) -> list[str]:
    """Imports for which `wrong` of the module, the imported name and "at module level" is true."""
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for folder in folders
        for path in modules(folder)
        for name, line, top in imports(path)
        if wrong(path, name, top)
    ]


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_imports_of_ours_follow_the_arrows(folder):
    def allowed(name: str) -> bool:
        name = "gpudoctor" if name == "gpudoctor.__version__" else name
        return any(name == ok or (ok != "gpudoctor" and name.startswith(ok + ".")) for ok in ALLOWED[folder])

    assert not offences([folder], lambda path, name, top: ours(name) and not allowed(name))


def names_a_check(name: str) -> bool:
    target = ROOT / "checks" / (name.replace(".", "/") + ".py")
    return name.startswith("gpudoctor_checks.") and target.is_file() and "\n    code = " in target.read_text("utf-8")


def screen(path: Path) -> set[str]:
    """What only a screen may import at its head."""
    return (
        {"rich", "textual"}
        if "gpudoctor/ui/watch/" in str(path)
        else {"rich"}
        if "gpudoctor/ui/" in str(path)
        else set()
    )


PURE = ["gpudoctor/model", "gpudoctor/analysis", "checks/gpudoctor_checks", "rules/gpudoctor_rules"]
PLAIN = sys.stdlib_module_names | {"packaging", "tomli", "typing_extensions"}  # an older tomllib; for type checkers


@pytest.mark.parametrize(
    ("folders", "wrong"),
    [
        pytest.param(PURE, lambda path, name, top: not ours(name) and first(name) not in PLAIN, id="standard library"),
        pytest.param(
            ["gpudoctor"],
            lambda path, name, top: name.startswith("gpudoctor.probe") and not name.startswith("gpudoctor.probe.wire"),
            id="of the probe only the shared part",
        ),
        pytest.param([PURE[2]], lambda path, name, top: names_a_check(name), id="no check by another"),
        pytest.param(
            ALL, lambda path, name, top: top and first(name) in HEAVY - screen(path), id="heavy packages in functions"
        ),
        pytest.param(
            ALL, lambda path, name, top: first(name) in {"checks", "rules", "tests", "benchmarks"}, id="no development"
        ),
    ],
)  # fmt: skip
def test_nobody_imports(folders, wrong):
    assert not offences(folders, wrong)


def test_the_probe_imports_the_standard_library_and_its_own_modules_only():
    for path in modules("gpudoctor/probe"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            foreign = set(map(first, names)) - sys.stdlib_module_names - {"sitecustomize"}
            assert not foreign, f"{path.relative_to(ROOT)}:{ast.unparse(node)}"


def test_what_the_probe_shares_needs_no_other_part_of_it():
    for path in modules("gpudoctor/probe/wire"):
        depth = len(path.relative_to(ROOT / "gpudoctor/probe/wire").parts)
        levels = [node.level for node in nodes(path) if isinstance(node, ast.ImportFrom)]
        assert max(levels, default=0) <= depth, path


def test_the_file_format_the_phases_and_the_columns_have_one_definition():
    from gpudoctor.probe.wire.steps import DEVICE, PHASES

    homes: dict[str, set[str]] = {"magic": set(), "head": set(), "phases": set(), "columns": set()}
    for path in modules("gpudoctor"):
        name = str(path.relative_to(ROOT / "gpudoctor"))
        for node in nodes(path):
            if isinstance(node, ast.Constant):
                for part, value in (("magic", b"GPUDOC1\n"), ("head", "<cII")):
                    homes[part] |= {name} if node.value == value else set()
            elif isinstance(node, ast.Tuple | ast.List | ast.Set):
                words = {item.value for item in node.elts if isinstance(item, ast.Constant)}
                for part, needed in (("phases", PHASES), ("columns", DEVICE)):
                    homes[part] |= {name} if words >= set(needed) else set()
    frames, steps = {"probe/wire/frames.py"}, {"probe/wire/steps.py"}
    assert homes == {"magic": frames, "head": frames, "phases": steps, "columns": steps}


def test_rules_take_nothing_but_details_from_checks():
    taken = [
        (f"{path.relative_to(ROOT)}:{node.lineno}", alias.name, _details(getattr(node, "module", None) or ""))
        for path in modules("rules/gpudoctor_rules")
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom) and "gpudoctor_checks" in ast.unparse(node)
        for alias in node.names
    ]
    wrong = [f"{place} takes {name}" for place, name, details in taken if name not in details]
    assert taken and not wrong, "\n".join(wrong)


def _details(module: str) -> set[str]:
    """Names of the details that a check's module defines."""
    path = ROOT / "checks" / (module.replace(".", "/") + ".py")
    return {
        node.name
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Detail") for base in node.bases)
    }


CIRCLES = {
    "one probe: its parts name the Probe that holds them, for their types": {
        f"gpudoctor.probe.{path.stem}" for path in (ROOT / "gpudoctor/probe").glob("*.py") if path.stem != "start"
    },
    "one question: a name holds what an expression gives, an expression what its names hold": {
        f"gpudoctor.vitals.source.{name}" for name in ("program", "expressions", "calls", "settings")
    },
}
"""Why some modules import each other, in functions or for types only, and which."""


def test_no_modules_import_each_other_but_those_with_a_reason():
    """The modules of a known circle count as one: `static_order` raises `CycleError` for another."""

    def part(name: str) -> str:
        return next((why for why, names in CIRCLES.items() if name in names), name)

    graph: dict[str, set[str]] = {}
    for name, path in _named().items():
        own = part(name)
        graph.setdefault(own, set()).update({part(need) for need in _needs(name, path)} - {own})
    assert tuple(TopologicalSorter(graph).static_order())


@cache
def _named() -> dict[str, Path]:
    """Every module of ours by its name; the package itself, whose names are types only, is left out."""
    found = {}
    for folder in ("gpudoctor", "checks/gpudoctor_checks", "rules/gpudoctor_rules"):
        home = ROOT / folder
        for path in home.rglob("*.py"):
            parts = path.relative_to(home.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if name != "gpudoctor":
                found[name] = path
    return found


def _needs(module: str, path: Path) -> set[str]:
    """What a module imports, at its head, in functions and for types."""
    found: set[str] = set()
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found |= (inner & _named().keys()) or {base}
    return (found & _named().keys()) - {module}


def test_a_public_class_has_a_name_of_its_own():
    """One name is one idea. The probe stays alone: it runs in the user's process and imports none of the others."""
    homes: dict[str, list[str]] = {}
    for folder in ("gpudoctor", "checks/gpudoctor_checks", "rules/gpudoctor_rules"):
        for path in modules(folder):
            if path.is_relative_to(ROOT / "gpudoctor/probe"):
                continue
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(homes) > 500
    assert not {name: places for name, places in homes.items() if len(places) > 1}


def test_no_part_of_gpudoctor_names_a_check():
    """A check declares what it means to others (`Check.traits`): a plugin's check can do all that ours can."""
    codes = re.compile(r"(ENV|GPU|DATA|SYNC|OBS|MEM|NUM|LOOP|PERF|DIST|CFG|FAIL)\d{3}")
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} names {node.value}"
        for path in modules("gpudoctor")
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and codes.fullmatch(node.value)
    ]
    assert not wrong, "\n".join(wrong)
