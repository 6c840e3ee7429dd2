"""What the entry points of a program can reach, by the names that their code mentions.

Code that nothing mentions is not an ailment of the job: it is cut out of the tree before checks see it. Where a
name may be made at run time (`globals()`, `getattr(module, name)`), everything counts as reached.

What only a registry lists (`@register("resnet")`), or what a program without a training loop does not mention,
stays in the tree: somebody may ask for it. `Module.unused` names such lines for checks that need to be surer.
"""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpudoctor.analysis.source.syntax import called_name, is_main_guard, root_name, walk
from gpudoctor.vitals.source.inheritance import FUNCTIONS, Bases, Inheritance, methods_above
from gpudoctor.vitals.source.values import Module

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_PLAIN_DECORATORS = frozenset(
    {
        "staticmethod", "classmethod", "property", "cached_property", "setter", "no_grad", "inference_mode",
        "enable_grad", "lru_cache", "cache", "dataclass", "contextmanager", "wraps", "override", "disable",
        "abstractmethod", "compile", "script", "autocast", "record", "total_ordering", "rank_zero_only",
        "time_it", "timer", "main", "wrap", "hydra_runner",
    }
)  # fmt: skip
"""Decorators that leave it to the program who calls what they decorate; others may register it somewhere."""
_REGISTERS = re.compile(r"regist", re.IGNORECASE)
"""Decorators that list what they decorate and call none of it."""
_NAMESPACES = frozenset({"globals", "locals", "vars", "Fire"})
"""Ways to find a function by its name in the module that asks, and nowhere else."""
_DYNAMIC = frozenset(
    {
        "__import__", "import_module", "instantiate",
        "import_string", "locate", "attrgetter", "methodcaller",
    }
)  # fmt: skip


@dataclass(eq=False, slots=True)
class _Unit:
    """A function, a method or a class: what is reached or not as a whole."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    body: list[ast.stmt]
    """The list of statements that holds it."""
    owner: "_Unit | None" = None
    """The class that it belongs to."""
    names: set[str] = field(default_factory=set)
    """What its code mentions; of a class, what its body mentions outside of methods."""
    bases: set[str] = field(default_factory=set)
    """Of a class: what it mentions only to extend it."""
    supers: set[str] = field(default_factory=set)
    """Of a method: methods that it calls of the classes above its own; `ANY` where that is not told."""
    always: bool = False
    """Whether Python or a library may call it: a method."""
    registered: bool = False
    """Whether a decorator may hand it to somebody."""
    listed: bool = False
    """Whether a decorator only lists it."""
    full: str = ""
    """Its name with the module's path before it, as `_Code.mentions` writes it."""


@dataclass(eq=False, slots=True)
class _Code:
    """One module, taken apart."""

    module: Module
    bases: Bases
    names: set[str] = field(default_factory=set)
    """What importing it, or running it when it is an entry, mentions."""
    units: list[_Unit] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    """Names given by `import f as g`."""
    dynamic: bool = False
    """Whether it may look up names that only a run can tell."""
    open: bool = False
    """Whether it looks up names of its own that only a run can tell: then any of them may be called."""
    asks: bool = False
    """Whether it looks up attributes of objects by such names: methods, unless an object is a module."""
    hands: bool = False
    """Whether it hands a module of the program on as an object."""
    methods: bool = False
    """Whether it looks up attributes of `self` by such names: then any method may be called."""
    own: frozenset[str] = frozenset()
    """Functions and classes of its top level that share their name with no method: a bare name means these."""
    modules: frozenset[str] = frozenset()
    """Names of imported modules of the program: `train` of `train.report()` is not its function `train`."""
    foreign: frozenset[str] = frozenset()
    """Names of imported libraries: `torch.fft` mentions nothing of the program."""

    def mentions(self, node: ast.AST) -> set[str]:
        """What code of the module mentions; its own functions with the module's path before the name."""
        parts = walk(node)
        return {
            _of_module(self.module, word) if word in self.own else word
            for word in _bare_names(parts)
            if word not in self.modules
        } | _mentions(parts, self.foreign)


def cut_unreached(modules: Sequence[Module], trains: Sequence[tuple[Module, int]]) -> None:
    """Cut out of the modules' trees what no entry point reaches; their `cut` names the lines.

    `trains` holds the places of training loops. Of a program that trains nothing, an evaluation say, the
    entry's own file stays whole, and of its imports what it reaches: so does a module that starts nothing,
    for who uses it is out of sight.
    """
    _cut_switched_off(modules, trains)
    loops = [(module, line) for module, line in trains if not in_cut(module, line)]
    bases = Bases(modules)
    codes = {id(module): _take_apart(module, bases) for module in modules}
    asks = any(code.asks for code in codes.values())
    if any(code.dynamic or (asks and code.hands) for code in codes.values()):
        return
    for code in codes.values():
        if code.open:
            code.names |= _all_names(code)
    _note_unused(list(codes.values()))
    if asks or any(code.methods for code in codes.values()):
        for code in codes.values():
            for unit in code.units:
                unit.always |= unit.owner is not None
    programs = [module.reach() for module in modules if module.entry]
    active: dict[int, _Code] = {}
    idle: list[_Code] = []
    for program in programs:
        parts = [codes[id(module)] for module in program if id(module) in codes]
        if _runs_training(parts, loops):
            active |= {id(part.module): part for part in parts}
        else:
            active |= {id(part.module): part for part in parts if part.module is not program[0]}
            idle += [part for part in parts if part.module is program[0]]
    kept = [unit for code in idle if id(code.module) not in active for unit in code.units]
    reached = _closure([*active.values(), *(code for code in idle if id(code.module) not in active)], kept)
    for code in active.values():
        for unit in code.units:
            if id(unit) not in reached and (unit.owner is None or id(unit.owner) in reached):
                _remove(code.module, unit)


def _note_unused(codes: list[_Code]) -> None:
    """Note the lines of each module that nothing mentions, and which nobody else can be seen to use."""
    offered = [unit for code in codes if code.module.entry and not _starts(code.module) for unit in code.units]
    reached = _closure(codes, offered, listed=False)
    for code in codes:
        code.module.unused = tuple(
            (unit.node.lineno, unit.node.end_lineno or unit.node.lineno)
            for unit in code.units
            if id(unit) not in reached
        )


def _starts(module: Module) -> bool:
    """Whether a file does something when it is run, and is not a module for others."""
    return any(
        (isinstance(item, ast.If) and is_main_guard(item.test))
        or isinstance(item, ast.For | ast.While | ast.With)
        or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Call))
        for item in module.tree.body
    )


def _cut_switched_off(modules: Sequence[Module], loops: Sequence[tuple[Module, int]]) -> None:
    """Cut branches with a training loop that a default keeps from running, if another loop trains by default.

    A program all of whose trainings wait for a switch (`--do_train`) is started with one: nothing is cut.
    """
    switches = _Switches(modules)
    if not switches.any:
        return
    off = [branches for module, line in loops if (branches := switches.above(module, line))]
    if len(off) == len(loops):
        return
    for branches in off:
        for module, block in branches:
            if block and not in_cut(module, block[0].lineno):
                _empty(module, block)


_Branches = list[tuple[Module, list[ast.stmt]]]


class _Switches:
    """The blocks of a program that a default keeps from running. Every index is made in one walk: a program has
    thousands of loops."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._blocks: dict[int, list[list[ast.stmt]]] = {}
        self._functions: dict[int, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self._sites: dict[str, list[tuple[Module, int]]] = {}
        self._uses: dict[str, int] = {}
        for module in modules:
            self._blocks[id(module)] = _off_blocks(module)
        self.any = any(self._blocks.values())
        """Whether there is any."""
        for module in modules if self.any else ():
            self._index(module)

    def _index(self, module: Module) -> None:
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [
            *module.of(ast.FunctionDef),
            *module.of(ast.AsyncFunctionDef),
        ]
        for name in module.of(ast.Name):
            self._uses[name.id] = self._uses.get(name.id, 0) + 1
        for attribute in module.of(ast.Attribute):
            self._uses[attribute.attr] = self._uses.get(attribute.attr, 0) + 1
        end = 0
        outermost = self._functions[id(module)] = []
        for function in sorted(functions, key=lambda node: node.lineno):
            if function.lineno > end:
                outermost.append(function)
                end = function.end_lineno or function.lineno
        for call in module.calls.values():
            self._sites.setdefault(call.method, []).append((module, call.node.lineno))

    def above(self, module: Module, line: int, depth: int = 4) -> _Branches:
        """The blocks without which a line never runs; none when it may run."""
        for block in self._blocks[id(module)]:
            if block[0].lineno <= line <= _end(block):
                return [(module, block)]
        functions = self._functions[id(module)]
        place = bisect_right(functions, line, key=lambda node: node.lineno) - 1
        holder = functions[place] if place >= 0 else None
        if holder is None or line > (holder.end_lineno or 0) or depth == 0:
            return []
        sites = self._sites.get(holder.name, [])
        if not sites or len(sites) > _SITES or self._uses.get(holder.name, 0) > len(sites):
            return []  # nobody calls it, or it is handed on by its name
        found: _Branches = []
        for other, place in sites:
            branches = self.above(other, place, depth - 1)
            if not branches:
                return []
            found += branches
        return [*found, (module, holder.body)]


_SITES = 10
"""Calls of one function that are followed; who is called from more places runs."""


def _off_blocks(module: Module) -> list[list[ast.stmt]]:
    """Blocks of if statements in which every call stands behind their condition, which is off by default."""
    guards: dict[int, list[tuple[int, bool]]] = {}
    for call in module.calls.values():
        for guard in call.guards:
            guards.setdefault(guard.line, []).append((call.node.lineno, guard.never))
    guards = {line: found for line, found in guards.items() if any(never for _, never in found)}
    blocks: list[list[ast.stmt]] = []
    for node in module.of(ast.If) if guards else ():
        if node.lineno in guards:
            for block in (node.body, node.orelse):
                inside = [
                    never for line, never in guards[node.lineno] if block and block[0].lineno <= line <= _end(block)
                ]
                if inside and all(inside):
                    blocks.append(block)
    return blocks


def _end(block: list[ast.stmt]) -> int:
    return block[-1].end_lineno or block[-1].lineno


def in_cut(module: Module, line: int) -> bool:
    """Whether a line was cut out."""
    return any(first <= line <= last for first, last in module.cut)


def _runs_training(codes: list[_Code], loops: list[tuple[Module, int]]) -> bool:
    reached = _closure(codes, [])
    for code in codes:
        for module, line in loops:
            if module is code.module:
                holders = [unit for unit in code.units if unit.node.lineno <= line <= (unit.node.end_lineno or 0)]
                if all(id(unit) in reached for unit in holders):
                    return True
    return False


def _closure(codes: list[_Code], roots: list[_Unit], *, listed: bool = True) -> set[int]:
    """Units that the modules' own code reaches, and these roots; without `listed`, a registry uses nothing."""
    if not codes:
        return set()
    aliases: dict[str, set[str]] = {}
    for code in codes:
        for name, real in code.aliases.items():
            aliases.setdefault(name, set()).add(real)
    units = [unit for code in codes for unit in code.units]
    inheritance = Inheritance(codes[0].bases)
    used: set[str] = set().union(*(code.names for code in codes))
    extended: set[str] = set()
    reached = {id(unit) for unit in roots}
    for unit in roots:
        used |= unit.names
        extended |= unit.bases
        if isinstance(unit.node, ast.ClassDef):
            inheritance.use(unit.node)
        elif unit.owner is not None and isinstance(unit.owner.node, ast.ClassDef):
            inheritance.call_above(unit.owner.node, unit.supers)
    grown = True
    while grown:
        grown = False
        used |= set().union(*(aliases[name] for name in used if name in aliases))
        extended |= set().union(*(aliases[name] for name in extended if name in aliases))
        for unit in units:
            handed = unit.registered and (listed or not unit.listed)
            if isinstance(unit.node, ast.ClassDef) and (handed or _among(unit, used)):
                grown |= (unit.owner is None or id(unit.owner) in reached) and inheritance.use(unit.node)
            if id(unit) in reached or not _runs(unit, handed, used, extended, reached, inheritance):
                continue
            grown = True
            reached.add(id(unit))
            used |= unit.names
            extended |= unit.bases
            if unit.owner is not None and isinstance(unit.owner.node, ast.ClassDef):
                inheritance.call_above(unit.owner.node, unit.supers)
    return reached


def _among(unit: _Unit, names: set[str]) -> bool:
    return unit.node.name in names or unit.full in names


def _runs(
    unit: _Unit, handed: bool, used: set[str], extended: set[str], reached: set[int], inheritance: Inheritance
) -> bool:
    """Whether a unit is reached by what is known so far; `handed`, by a decorator."""
    if unit.owner is not None and id(unit.owner) not in reached:
        return False
    if isinstance(unit.node, ast.ClassDef):
        return unit.always or handed or _among(unit, used) or _among(unit, extended)
    if not unit.always and not handed and not _among(unit, used):
        return False
    owner = unit.owner.node if unit.owner is not None else None
    if not isinstance(owner, ast.ClassDef) or handed:
        return True
    return unit.node not in owner.body or inheritance.runs(owner, unit.node.name)


def _take_apart(module: Module, bases: Bases) -> _Code:
    code = _Code(module=module, bases=bases, own=_own(module), modules=_modules(module), foreign=_foreign(module))
    _block(code, module.tree.body, None, code.names)
    for alias in module.of(ast.alias):
        if alias.asname:
            code.aliases[alias.asname] = alias.name.rpartition(".")[2]
    code.dynamic = any(_looks_up(module, call) for call in module.of(ast.Call)) or any(
        node.attr == "modules" and root_name(node) == "sys" for node in module.of(ast.Attribute)
    )
    code.asks = any(_looks_into(module, call) for call in module.of(ast.Call))
    code.hands = _hands_modules(module)
    code.open = any(_looks_around(call) for call in module.of(ast.Call))
    stars = any(alias.name == "*" for alias in module.of(ast.alias))
    if code.open and (stars or (code.modules and any(map(_evaluates, module.of(ast.Call))))):
        code.dynamic = True  # what it has then is another module's too
    code.methods = any(_looks_up_own(call) for call in module.of(ast.Call))
    return code


def _all_names(code: _Code) -> set[str]:
    """Everything that a module's top level defines or imports, as if its code mentioned it."""
    own = {unit.full for unit in code.units if unit.owner is None}
    own |= {unit.node.name for unit in code.units if unit.owner is None}
    return own | {origin.rpartition(".")[2] for origin in _imported_objects(code.module).values()}


def _imported_objects(module: Module) -> dict[str, str]:
    """Names that imports give to something other than a module of the program, with their origins."""
    modules = {link.name for link in module.links}
    return {name: origin for name, origin in module.imports.items() if origin not in modules}


def _block(code: _Code, body: list[ast.stmt], owner: _Unit | None, names: set[str]) -> None:
    """Sort a block's statements: definitions become units, what the rest mentions goes to `names`."""
    for node in body:
        if isinstance(node, _DEFINITIONS):
            _unit(code, node, body, owner, names)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            if isinstance(node, ast.If):
                names |= code.mentions(node.test)
            for handler in getattr(node, "handlers", ()):
                _block(code, handler.body, owner, names)
            for item in getattr(node, "items", ()):
                names |= code.mentions(item.context_expr)
            for inner in ("body", "orelse", "finalbody"):
                _block(code, getattr(node, inner, []), owner, names)
        elif not _exports(node):
            names |= code.mentions(node)


def _unit(
    code: _Code,
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
    body: list[ast.stmt],
    owner: _Unit | None,
    names: set[str],
) -> None:
    unit = _Unit(node=node, body=body, owner=owner, full=_of_module(code.module, node.name))
    unit.registered = any(called_name(item) not in _PLAIN_DECORATORS for item in node.decorator_list)
    unit.listed = any(_REGISTERS.search(ast.unparse(item)) for item in node.decorator_list)
    code.units.append(unit)
    if isinstance(node, ast.ClassDef):
        for base in node.bases:
            plain = isinstance(base, ast.Name | ast.Attribute)
            (unit.bases if plain else unit.names).update(code.mentions(base))
        for other in (*(item.value for item in node.keywords), *node.decorator_list):
            unit.names |= code.mentions(other)
        _block(code, node.body, unit, unit.names)
        return
    unit.names = code.mentions(node)
    if owner is not None and isinstance(owner.node, ast.ClassDef):
        unit.supers = methods_above(node)
        named = node.name.startswith("__") and node.name.endswith("__")
        unit.always |= named or code.bases.calls(code.module, owner.node, node.name)
    elif owner is None:
        for item in node.decorator_list:
            names |= code.mentions(item)


def _modules(module: Module) -> frozenset[str]:
    stored = {name.id for name in module.of(ast.Name) if not isinstance(name.ctx, ast.Load)}
    stored |= {argument.arg for argument in module.of(ast.arg)}
    return frozenset(set(module.imports) - set(_imported_objects(module)) - stored)


def _looks_around(node: ast.Call) -> bool:
    """Whether a call may find a function of its own module by a name that only a run can tell."""
    last = called_name(node.func)
    if last == "vars" and node.args:
        return False  # the fields of an object; a module's are seen by `_looks_up`
    return last in _NAMESPACES or (_evaluates(node) and len(node.args) == 1)


def _evaluates(node: ast.Call) -> bool:
    """`eval(text)`; `model.eval()` and `frame.eval("a + b")` are methods."""
    return isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec")


def _looks_up(module: Module, node: ast.Call) -> bool:
    """Whether a call may find a function of the program by a name that only a run can tell."""
    last = called_name(node.func)
    if last in _DYNAMIC:
        return True
    if _evaluates(node):
        return len(node.args) > 1  # in a namespace that it is given
    if last == "vars" and node.args:
        return _of_program(module, node.args[0])
    return _gets(node) and _of_program(module, node.args[0])


def _looks_into(module: Module, node: ast.Call) -> bool:
    """`getattr(thing, name)` of an object that may be any of the program's."""
    if not _gets(node) or isinstance(node.func, ast.Call) or _looks_up_own(node):
        return False
    origin = module.imports.get(root_name(node.args[0]))
    return origin is None or any(origin.startswith(link.name + ".") for link in module.links)


def _gets(node: ast.Call) -> bool:
    """Whether a call is `getattr` with a name that only a run can tell."""
    if called_name(node.func) != "getattr" or len(node.args) < 2:
        return False
    return not isinstance(node.args[1], ast.Constant)


def _hands_modules(module: Module) -> bool:
    """Whether a module of the program is a value somewhere: `pick(models, name)`, not `models.Net()`."""
    names = {link.name for link in module.links}
    if not names:
        return False
    below = {id(node.value) for node in module.of(ast.Attribute)}
    for node in module.of(ast.Name, ast.Attribute):
        if id(node) in below or not isinstance(getattr(node, "ctx", None), ast.Load):
            continue
        root, _, rest = ast.unparse(node).partition(".")
        origin = module.imports.get(root)
        if origin is not None and (f"{origin}.{rest}" if rest else origin) in names:
            return True
    return False


def _of_program(module: Module, node: ast.expr) -> bool:
    """Whether an expression begins with an imported module of the program."""
    origin = module.imports.get(root_name(node), "")
    return bool(origin) and any(link.name == origin or link.name.startswith(origin + ".") for link in module.links)


def _looks_up_own(node: ast.Call) -> bool:
    """`getattr(self, name)`."""
    called = isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1
    return called and isinstance(node.args[0], ast.Name) and node.args[0].id in ("self", "cls")


def _exports(node: ast.stmt) -> bool:
    """Whether a statement only lists or imports names: mentioning them there runs nothing."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _own(module: Module) -> frozenset[str]:
    names: set[str] = set()
    methods: set[str] = set()
    for klass in module.of(ast.ClassDef):
        methods |= {item.name for item in klass.body if isinstance(item, _DEFINITIONS)}
    for node in module.tree.body:
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
    return frozenset(names - methods)


def _foreign(module: Module) -> frozenset[str]:
    found = set()
    for name, origin in module.imports.items():
        own = any(link.name == origin or link.name.startswith(origin + ".") for link in module.links)
        root = origin.partition(".")[0]
        if not own and not any(link.name.partition(".")[0] == root for link in module.links):
            found.add(name)
    return frozenset(found)


def _of_module(module: Module, name: str) -> str:
    return f"{module.path}:{name}"


def _bare_names(parts: Sequence[ast.AST]) -> Iterator[str]:
    """Names that nodes read. A whole statement of one name, `set_seeds` without parentheses, calls nothing."""
    shown = {id(part.value) for part in parts if isinstance(part, ast.Expr) and isinstance(part.value, ast.Name)}
    for part in parts:
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and id(part) not in shown:
            yield part.id


def _mentions(parts: Sequence[ast.AST], foreign: frozenset[str]) -> set[str]:
    """Attributes and words that nodes mention; attributes of libraries left out."""
    found: set[str] = set()
    for part in parts:
        if isinstance(part, ast.Attribute):
            if _library_root(part) not in foreign:
                found.add(part.attr)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value) < 100:
            # A registry's key, a `"package.module.Class"`, an annotation in quotes.
            found |= {word for word in part.value.split(".") if word.isidentifier()}
    return found


def _library_root(node: ast.Attribute) -> str:
    """`torch` of `torch.fft.rfft`; "" where a call or an index stands between."""
    inner: ast.expr = node.value
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return inner.id if isinstance(inner, ast.Name) else ""


# branches


def cut_branches(module: Module) -> None:
    """Cut branches that a constant excludes, statements after a return, and an imported module's main block."""
    constants = _constants(module)
    for node in list(module.of(*_BLOCKS)):
        if isinstance(node, ast.If):
            if not module.entry and is_main_guard(node.test):
                _empty(module, node.body)
                continue
            truth = _truth(node.test, constants)
            if truth is False:
                _empty(module, node.body)
            elif truth is True and node.orelse:
                _mark(module, node.orelse)
                node.orelse = []
        elif isinstance(node, ast.While) and _truth(node.test, constants) is False:
            _empty(module, node.body)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if block:
                _after_the_end(module, block)


_BLOCKS: tuple[type[ast.AST], ...] = (
    ast.Module,
    *(ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Try, ast.ExceptHandler),
    *_DEFINITIONS,
    *(getattr(ast, name) for name in ("match_case", "TryStar") if hasattr(ast, name)),
)
"""What holds lists of statements."""


def _after_the_end(module: Module, block: list[ast.stmt]) -> None:
    for place, node in enumerate(block[:-1]):
        if isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break):
            # A generator's `return; yield` only makes it one.
            if not any(isinstance(part, ast.Yield | ast.YieldFrom) for item in block[place:] for part in walk(item)):
                _mark(module, block[place + 1 :])
                del block[place + 1 :]
            return


def _constants(module: Module) -> dict[str, object]:
    """Names that the module binds once, at its top level, to a constant, and that nothing else can bind."""
    found: dict[str, object] = {}
    if any(called_name(call.func) in {"globals", "exec", "locals", "vars"} for call in module.of(ast.Call)):
        return found
    bound: dict[str, int] = {}
    for name in module.of(ast.Name):
        if not isinstance(name.ctx, ast.Load):
            bound[name.id] = bound.get(name.id, 0) + 1
    for argument in module.of(ast.arg):
        bound[argument.arg] = bound.get(argument.arg, 0) + 2
    for shared in module.of(ast.Global):
        bound |= dict.fromkeys(shared.names, 9)
    for node in module.tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(value, ast.Constant) and len(targets) == 1 and isinstance(targets[0], ast.Name):
            constant = targets[0].id
            if bound.get(constant) == 1:
                found[constant] = value.value
    return found


def _truth(test: ast.expr, constants: dict[str, object]) -> bool | None:
    """Whether a condition always or never holds; None when that depends."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Name) and test.id in constants:
        value = constants[test.id]
        # `STEPS = 0` and `PATH = None` are for the user to change by hand; a switch says what it is.
        return value if isinstance(value, bool) else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand, constants)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [_truth(part, constants) for part in test.values]
        ends = isinstance(test.op, ast.Or)
        if ends in parts:
            return ends
        return None if None in parts else not ends
    return None


# cutting


def _mark(module: Module, block: Sequence[ast.stmt]) -> None:
    module.kinds = None
    for node in block:
        above = [item.lineno for item in getattr(node, "decorator_list", ())]
        module.cut.append((min([node.lineno, *above]), node.end_lineno or node.lineno))


def _empty(module: Module, block: list[ast.stmt]) -> None:
    _mark(module, block)
    block[:] = [ast.copy_location(ast.Pass(), block[0])]


def _remove(module: Module, unit: _Unit) -> None:
    if unit.node not in unit.body:
        return
    _mark(module, [unit.node])
    if len(unit.body) == 1:
        unit.body[:] = [ast.copy_location(ast.Pass(), unit.node)]
    else:
        unit.body.remove(unit.node)
