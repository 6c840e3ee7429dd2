"""What the entry points of a program can reach, by the names that their code mentions.

Code that nothing mentions is not an ailment of the job: it is cut out of the tree before checks see it. Where a
name may be made at run time (`globals()`, `getattr(module, name)`), everything counts as reached.
"""

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpudoctor.analysis.source.syntax import called_name, is_main_guard, root_name, walk, words
from gpudoctor.vitals.source.index import text_of
from gpudoctor.vitals.source.values import ClassSymbol, Module

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PLAIN_DECORATORS = words(
    "staticmethod classmethod property cached_property setter no_grad inference_mode enable_grad lru_cache cache "
    "dataclass contextmanager wraps override disable abstractmethod compile script autocast record total_ordering "
    "rank_zero_only time_it timer main wrap hydra_runner"
)
"""Decorators that leave it to the program who calls what they decorate; others may register it somewhere."""
_DYNAMIC = words("__import__ import_module instantiate import_string locate attrgetter methodcaller")
"""Ways to find a function by a name that only a run can tell."""
_LAYERS = ("torch.nn.", "torch.utils.data.", "torch.autograd.", "abc.", "enum.", "typing.")
_HOOKS = words(
    "forward backward setup_context jvp vmap train eval state_dict load_state_dict parameters named_parameters "
    "extra_repr reset_parameters to apply cuda cpu half float zero_grad get_extra_state set_extra_state"
)
"""Methods that torch calls on its own, or through which a module is used."""


@dataclass(eq=False, slots=True)
class _Unit:
    """A function, a method, a class or a module's own level: what is reached or not as a whole."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
    body: list[ast.stmt] = field(default_factory=list)
    """The list of statements that holds it."""
    owner: "_Unit | None" = None
    """The class that it belongs to."""
    names: set[str] = field(default_factory=set)
    """What its code mentions; of a class, what its body mentions outside of methods."""
    always: bool = False
    """Whether Python or a library may call it, once its class is reached."""
    registered: bool = False
    """Whether a decorator may hand it to somebody."""

    @property
    def name(self) -> str:
        """Its own name."""
        return getattr(self.node, "name", "")


def cut_unreached(modules: Sequence[Module], trains: Sequence[tuple[Module, int]]) -> None:
    """Cut out of the modules' trees what no entry point reaches; their `cut` names the lines.

    `trains` holds the places of training loops. Of a program that trains nothing, an evaluation say, the
    entry's own file stays whole, and of its imports what it reaches: so does a module that starts nothing,
    for who uses it is out of sight.
    """
    asked = {module: {_looks_up(module, call) for call in module.of(ast.Call)} for module in modules}
    if any("program" in ways for ways in asked.values()):
        return
    units = {module: _take_apart(module) for module in modules}
    methods = any("methods" in ways for ways in asked.values())
    for module, found in units.items():
        if "module" in asked[module]:
            found[0].names |= {unit.name for unit in found} | set(module.imports)
    every = [unit for found in units.values() for unit in found]
    offered = [unit for unit in every if unit.module.entry and not starts(unit.module)]
    known = _closure(every, offered, registries=False)
    for module, found in units.items():
        lost = [unit.node for unit in found[1:] if unit not in known]
        module.unused = tuple((node.lineno, node.end_lineno or 0) for node in lost if not isinstance(node, ast.Module))
    for unit in every:
        unit.always = unit.always or (methods and unit.owner is not None)
    roots: list[_Unit] = []
    active: dict[_Unit, None] = {}
    for entry in [module for module in modules if module.entry]:
        parts = [unit for module in entry.reach() if module in units for unit in units[module]]
        active |= dict.fromkeys(parts)
        reached = _closure(parts, [], registries=True)
        if not any(_holds(parts, reached, module, line) for module, line in trains):
            roots += units[entry]
    reached = _closure(list(active), roots, registries=True)
    for unit in active:
        if unit not in reached and (unit.owner is None or unit.owner in reached):
            _remove(unit)


def _holds(units: list[_Unit], reached: set[_Unit], module: Module, line: int) -> bool:
    """Whether some units hold a line that is reached."""
    around = [unit for unit in units if unit.module is module]
    inside = [
        unit for unit in around if getattr(unit.node, "lineno", 0) <= line <= getattr(unit.node, "end_lineno", line)
    ]
    return bool(around) and all(unit in reached for unit in inside)


def starts(module: Module) -> bool:
    """Whether a file does something when it is run, and is not a module for others."""
    return any(
        (isinstance(item, ast.If) and is_main_guard(item.test))
        or isinstance(item, (ast.For, ast.While, ast.With))
        or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Call))
        for item in module.tree.body
    )


def in_cut(module: Module, line: int) -> bool:
    """Whether a line was cut out."""
    return any(first <= line <= last for first, last in module.cut)


def _closure(units: list[_Unit], roots: list[_Unit], *, registries: bool) -> set[_Unit]:
    """Units that the modules' own code reaches, and these roots; a registry uses what it lists, or nothing."""
    used: set[str] = set().union(*(unit.names for unit in roots))
    reached = set(roots)
    waiting = [unit for unit in units if unit not in reached]
    grown = True
    while grown:
        left = []
        for unit in waiting:
            held = unit.owner is None or unit.owner in reached
            named = unit.name in used or f"{unit.module.path}:{unit.name}" in used
            if held and (unit.always or named or (registries and unit.registered)):
                reached.add(unit)
                used |= unit.names
            else:
                left.append(unit)
        grown, waiting = len(left) < len(waiting), left
    return reached


def _take_apart(module: Module) -> list[_Unit]:
    """A module's own level, and its functions and classes."""
    units = [_Unit(module, module.tree, always=True)]
    foreign = frozenset(name for name, origin in module.imports.items() if not _own(module, origin))
    own = frozenset(node.name for node in module.tree.body if isinstance(node, _DEFINITIONS))
    _block(units, _Mentions(module.path, foreign, own), module.tree.body, None, units[0].names)
    renamed = {alias.asname: alias.name.rpartition(".")[2] for alias in module.of(ast.alias) if alias.asname}
    for unit in units:
        unit.names |= {renamed[name] for name in unit.names & renamed.keys()}
    return units


@dataclass(eq=False, slots=True)
class _Mentions:
    """What code of one module mentions: names, attributes and words."""

    path: str
    foreign: frozenset[str]
    """Names of imported libraries: `torch.fft` mentions nothing of the program."""
    own: frozenset[str]
    """Functions and classes of its top level: a bare name means these, and none of another module."""

    def of(self, node: ast.AST) -> set[str]:
        """The mentions of a node."""
        found: set[str] = set()
        parts = walk(node)
        # A whole statement of one name, `set_seeds` without parentheses, calls nothing.
        shown = {id(part.value) for part in parts if isinstance(part, ast.Expr) and isinstance(part.value, ast.Name)}
        for part in parts:
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and id(part) not in shown:
                found.add(f"{self.path}:{part.id}" if part.id in self.own else part.id)
            elif isinstance(part, ast.Attribute) and text_of(part).partition(".")[0] not in self.foreign:
                found.add(part.attr)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value) < 100:
                # A registry's key, a `"package.module.Class"`, an annotation in quotes.
                found |= {word for word in part.value.split(".") if word.isidentifier()}
        return found


def _block(units: list[_Unit], mentions: _Mentions, body: list[ast.stmt], owner: _Unit | None, names: set[str]) -> None:
    """Sort a block's statements: definitions become units, what the rest mentions goes to `names`."""
    module = units[0].module
    for node in body:
        if isinstance(node, _DEFINITIONS):
            unit = _Unit(module, node, body, owner)
            units.append(unit)
            unit.registered = any(called_name(item) not in _PLAIN_DECORATORS for item in node.decorator_list)
            if isinstance(node, ast.ClassDef):
                unit.names.update(*map(mentions.of, (*node.bases, *node.keywords, *node.decorator_list)))
                _block(units, mentions, node.body, unit, unit.names)
                continue
            unit.names |= mentions.of(node)
            scope = module.scopes.get(owner.node) if owner is not None else None
            dunder = node.name.startswith("__") and node.name.endswith("__")
            klass = scope.klass if scope is not None else None
            unit.always = owner is not None and (dunder or klass is None or _hook(klass, node.name))
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for part in (getattr(node, "test", None), *getattr(node, "items", ())):
                names |= mentions.of(part) if part is not None else set()
            inner = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            for block in (*(handler.body for handler in getattr(node, "handlers", ())), *inner):
                _block(units, mentions, block, owner, names)
        elif not isinstance(node, (ast.Import, ast.ImportFrom)) and not _exports(node):
            names |= mentions.of(node)


def _hook(klass: ClassSymbol, method: str) -> bool:
    """Whether a library that a class extends may call a method: any, where it is a framework."""
    for part in klass.lineage():
        for base, thing in zip(part.node.bases, part.bases, strict=False):
            if isinstance(thing.definition, ClassSymbol) or ast.unparse(base) in ("object", "ABC", "Enum", "Protocol"):
                continue
            if not (thing.ref or "?").startswith(_LAYERS) or method in _HOOKS:
                return True
    return False


def _looks_up(module: Module, node: ast.Call) -> str:
    """Where a call may find a function by a name that only a run can tell: `program`, `module`, `methods`, or ""."""
    last = called_name(node.func)
    evaluates = last in ("eval", "exec") and isinstance(node.func, ast.Name)
    if last in _DYNAMIC or (evaluates and len(node.args) > 1):
        return "program"
    if (last in ("globals", "locals", "vars", "Fire") and (last != "vars" or not node.args)) or evaluates:
        return "module"
    if last not in ("getattr", "vars") or not node.args:
        return ""
    if last == "getattr" and (len(node.args) < 2 or isinstance(node.args[1], ast.Constant)):
        return ""
    origin = module.imports.get(root_name(node.args[0]))
    if origin is None:
        return "methods" if last == "getattr" else ""
    return "program" if _own(module, origin) else ""


def _own(module: Module, origin: str) -> bool:
    """Whether an imported name comes from a module of the program."""
    return any(f"{origin}.".startswith(f"{link.name}.") for link in module.links)


def _exports(node: ast.stmt) -> bool:
    """Whether a statement only lists names: mentioning them there runs nothing."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def cut_branches(module: Module) -> None:
    """Cut branches that a constant excludes, and the main block of an imported module."""
    constants = _constants(module)
    for node in list(module.of(ast.If)):
        if _never(node.test, constants) or (not module.entry and is_main_guard(node.test)):
            _empty(module, node.body)


def _constants(module: Module) -> set[str]:
    """Names that the module binds once, at its top level, to False."""
    if any(called_name(call.func) in {"globals", "exec", "locals", "vars"} for call in module.of(ast.Call)):
        return set()
    bound = Counter(name.id for name in module.of(ast.Name) if not isinstance(name.ctx, ast.Load))
    bound.update(argument.arg for argument in module.of(ast.arg))
    shared = {name for node in module.of(ast.Global) for name in node.names}
    return {
        node.targets[0].id
        for node in module.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Constant) and node.value.value is False
        if bound[node.targets[0].id] == 1 and node.targets[0].id not in shared
    }


def _never(test: ast.expr, constants: set[str]) -> bool:
    """Whether a condition is False, or such a name, or one that needs it."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_never(part, constants) for part in test.values)
    return (isinstance(test, ast.Constant) and not test.value) or (isinstance(test, ast.Name) and test.id in constants)


# cutting


def _empty(module: Module, block: list[ast.stmt]) -> None:
    module.leave_out(block)
    filler = ast.copy_location(ast.Pass(), block[0])
    module.parents[filler] = module.parents[block[0]]
    for kind in (ast.Pass, ast.AST):
        module.kinds.setdefault(kind, []).append(filler)
    block[:] = [filler]


def _remove(unit: _Unit) -> None:
    if unit.node in unit.body and not isinstance(unit.node, ast.Module):
        if len(unit.body) == 1:
            _empty(unit.module, unit.body)
        else:
            unit.module.leave_out([unit.node])
            unit.body.remove(unit.node)
