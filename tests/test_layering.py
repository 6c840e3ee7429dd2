"""Arrows point one way: who may import whom, read from the syntax of every module."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ALLOWED = {
    "gpudoctor/lang": {"gpudoctor.lang"},
    # What probe, recorder and readers share stands in the probe's folder: the user's interpreter loads no other.
    "gpudoctor/model": {"gpudoctor.text", "gpudoctor.lang", "gpudoctor.model", "gpudoctor.probe.wire"},
    "gpudoctor/analysis": {"gpudoctor.text", "gpudoctor.lang", "gpudoctor.model", "gpudoctor.analysis"},
    "gpudoctor/engine": {"gpudoctor.text", "gpudoctor.lang", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.engine"},
    "gpudoctor/vitals": {"gpudoctor.text", "gpudoctor.lang", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.estimate", "gpudoctor.probe.wire", "gpudoctor.vitals"},
    "gpudoctor/recorder": {
        "gpudoctor.text", "gpudoctor.lang", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.probe.wire", "gpudoctor.vitals",
        "gpudoctor.recorder",
    },
    "gpudoctor/preflight": {
        "gpudoctor.text", "gpudoctor.lang", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.vitals", "gpudoctor.recorder",
        "gpudoctor.preflight",
    },
    "gpudoctor/watch": {
        "gpudoctor.text", "gpudoctor.lang", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.engine", "gpudoctor.report", "gpudoctor.vitals",
        "gpudoctor.watch",
    },
    "gpudoctor/estimate": {
        "gpudoctor.text", "gpudoctor.lang", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.estimate",
        "gpudoctor.vitals.host",  # a measurement asks how much memory is free
    },
    "gpudoctor/report": {
        "gpudoctor.text", "gpudoctor.lang", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.engine", "gpudoctor.estimate",
        "gpudoctor.report",
    },
    "gpudoctor/ui": {
        "gpudoctor.text", "gpudoctor.lang", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.engine", "gpudoctor.estimate",
        "gpudoctor.report", "gpudoctor.ui",
    },
    "gpudoctor/trial": {
        "gpudoctor.text", "gpudoctor.lang", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.engine", "gpudoctor.mend", "gpudoctor.recorder",
        "gpudoctor.vitals", "gpudoctor.trial",
    },
    "gpudoctor/hooks": {"gpudoctor.errors", "gpudoctor.model", "gpudoctor.recorder", "gpudoctor.hooks"},
    "gpudoctor/agents": {
        "gpudoctor.text", "gpudoctor", "gpudoctor.errors", "gpudoctor.model", "gpudoctor.recorder", "gpudoctor.trial", "gpudoctor.vitals",
        "gpudoctor.agents",
    },
    "checks/gpudoctor_checks": {"gpudoctor.text", "gpudoctor.lang", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor_checks"},
    "rules/gpudoctor_rules": {"gpudoctor.text", "gpudoctor.lang", "gpudoctor.model", "gpudoctor.analysis", "gpudoctor.estimate", "gpudoctor_rules", "gpudoctor_checks"},
}  # fmt: skip
"""Folder to the prefixes of ours that it may import; cli may import everything."""

BASE = {"packaging"}
"""What checks and rules may use beside the standard library."""


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
    return name.split(".")[0] in {"gpudoctor", "gpudoctor_checks", "gpudoctor_rules"}


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_imports_of_ours_follow_the_arrows(folder):
    allowed = ALLOWED[folder]
    wrong = []
    for path in modules(folder):
        for name, line, _ in imports(path):
            name = "gpudoctor" if name == "gpudoctor.__version__" else name
            if ours(name) and not any(
                name == ok or (ok != "gpudoctor" and name.startswith(ok + ".")) for ok in allowed
            ):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "folder", ["gpudoctor/model", "gpudoctor/analysis", "checks/gpudoctor_checks", "rules/gpudoctor_rules"]
)
def test_model_checks_and_rules_need_the_standard_library_only(folder):
    base = {"tomli", "typing_extensions"} if folder.startswith("gpudoctor/") else BASE  # now tomllib; for type checkers
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(folder)
        for name, line, _ in imports(path)
        if not ours(name) and name.split(".")[0] not in sys.stdlib_module_names | base | {"tomli"}  # an older tomllib
    ]
    assert not wrong, "\n".join(wrong)


def test_the_probe_imports_the_standard_library_and_its_own_modules_only():
    wrong = []
    for path in modules("gpudoctor/probe"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            for name in names:
                if name.split(".")[0] not in sys.stdlib_module_names | {"sitecustomize"}:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_what_the_probe_shares_needs_no_other_part_of_it():
    for path in modules("gpudoctor/probe/wire"):
        depth = len(path.relative_to(ROOT / "gpudoctor/probe/wire").parts)
        levels = [node.level for node in nodes(path) if isinstance(node, ast.ImportFrom)]
        assert max(levels, default=0) <= depth, path


def test_of_the_probe_only_the_shared_part_is_imported():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}" for path in modules("gpudoctor") for name, line, _ in imports(path)
        if name.startswith("gpudoctor.probe") and not name.startswith("gpudoctor.probe.wire")
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


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


def test_no_check_imports_another_check():
    wrong = []
    for path in modules("checks/gpudoctor_checks"):
        for name, line, _ in imports(path):
            if not name.startswith("gpudoctor_checks."):
                continue
            target = ROOT / "checks" / (name.replace(".", "/") + ".py")
            if target.is_file() and "\n    code = " in target.read_text(encoding="utf-8"):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_rules_take_nothing_but_details_from_checks():
    taken = [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node.module or "", alias.name)
        for path in modules("rules/gpudoctor_rules")
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("gpudoctor_checks")
        for alias in node.names
    ]
    wrong = [f"{place} takes {name}" for place, module, name in taken if name not in _details(module)]
    assert taken and not wrong, "\n".join(wrong)
    plain = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules("rules/gpudoctor_rules")
        for node in nodes(path)
        if isinstance(node, ast.Import) and any(alias.name.startswith("gpudoctor_checks") for alias in node.names)
    ]
    assert not plain, "\n".join(plain)


def _details(module: str) -> set[str]:
    """Names of the details that a check's module defines."""
    path = ROOT / "checks" / (module.replace(".", "/") + ".py")
    return {
        node.name
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Detail") for base in node.bases)
    }


def test_heavy_packages_are_never_imported_at_module_level():
    heavy = {"torch", "transformers", "pynvml", "textual", "libcst", "scipy", "numpy", "ruamel", "psutil", "rich"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for folder in ("gpudoctor", "checks", "rules")
        for path in modules(folder)
        for name, line, top in imports(path)
        if top
        and name.split(".")[0] in heavy
        and not (name.split(".")[0] == "rich" and "gpudoctor/ui/" in str(path))
        and not (name.split(".")[0] == "textual" and "gpudoctor/ui/watch/" in str(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_development_folders_are_not_imported():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for folder in ("gpudoctor", "checks", "rules")
        for path in modules(folder)
        for name, line, _ in imports(path)
        if name.split(".")[0] in {"checks", "rules", "tests", "benchmarks"}
    ]
    assert not wrong, "\n".join(wrong)


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
