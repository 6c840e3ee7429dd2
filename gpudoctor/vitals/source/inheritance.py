"""Whose methods a class gets, those of the classes that it extends, and which of its own a library calls."""

import ast
from collections.abc import Sequence

from gpudoctor.analysis.source.syntax import called_name, walk
from gpudoctor.vitals.source.values import Module

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LAYER_BASES = ("torch.nn.", "torch.utils.data.", "torch.autograd.", "abc.", "enum.", "typing.")
_PLAIN_BASES = frozenset({"object", "ABC", "Enum", "Generic", "Protocol", "NamedTuple", "Exception", "dict", "list"})
_HOOKS = frozenset(
    {
        "forward", "backward", "setup_context", "jvp", "vmap", "train", "eval", "state_dict",
        "load_state_dict", "parameters", "named_parameters", "extra_repr", "reset_parameters", "to", "apply",
        "cuda", "cpu", "half", "float", "zero_grad", "get_extra_state", "set_extra_state",
    }
)  # fmt: skip
"""Methods that torch calls on its own, or through which a module is used."""
ANY = "*"
"""Any method of the classes above: what is done with `super()` is not told."""


def methods_above(node: ast.AST) -> set[str]:
    """Methods that code calls through `super()`."""
    parts = walk(node)
    calls = [part for part in parts if isinstance(part, ast.Call) and called_name(part.func) == "super"]
    if not calls:
        return set()
    known = set(map(id, calls))
    named = [part for part in parts if isinstance(part, ast.Attribute) and id(part.value) in known]
    plain = not any(part.args for part in calls)
    return {part.attr for part in named} | ({ANY} if len(named) < len(calls) or not plain else set())


class Bases:
    """Who may call the methods of a class by itself, by what the class extends, and whose methods it gets."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._classes: dict[str, list[tuple[Module, ast.ClassDef]]] = {}
        self._kinds: dict[int, str] = {}
        self._above: dict[int, list[ast.ClassDef]] = {}
        self._aliases: dict[str, set[str]] = {}
        for module in modules:
            for alias in module.of(ast.alias):
                if alias.asname:
                    self._aliases.setdefault(alias.asname, set()).add(alias.name.rpartition(".")[2])
            for klass in module.klasses:
                self._classes.setdefault(klass.name, []).append((module, klass.node))

    def calls(self, module: Module, owner: ast.ClassDef, method: str) -> bool:
        """Whether a base of a class may call a method: any method, where the base is a framework's."""
        kind = self._kind(module, owner)
        return kind == "framework" or (kind == "layer" and method in _HOOKS)

    def _kind(self, module: Module, owner: ast.ClassDef) -> str:
        if id(owner) not in self._kinds:
            self._kinds[id(owner)] = "plain"  # what a cycle meets
            kinds = {self._of_base(module, owner, base) for base in owner.bases}
            self._kinds[id(owner)] = next((kind for kind in ("framework", "layer") if kind in kinds), "plain")
        return self._kinds[id(owner)]

    def _of_base(self, module: Module, owner: ast.ClassDef, base: ast.expr) -> str:
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        root, _, rest = name.partition(".")
        full = module.imports.get(root, "")
        full = f"{full}.{rest}" if rest and full else full
        if full.startswith(_LAYER_BASES) or name.startswith("nn."):
            return "layer"
        if name in _PLAIN_BASES:
            return "plain"
        own = [item for item in self._classes.get(name.rpartition(".")[2], ()) if item[1] is not owner]
        if not own:
            return "framework"
        kinds = {self._kind(*item) for item in own}
        return next((kind for kind in ("framework", "layer") if kind in kinds), "plain")

    def above(self, owner: ast.ClassDef) -> list[ast.ClassDef]:
        """The program's own classes that a class extends; of several of one name, all."""
        if id(owner) not in self._above:
            bases = [called_name(base.value if isinstance(base, ast.Subscript) else base) for base in owner.bases]
            names = dict.fromkeys(name for base in bases for name in (base, *self._aliases.get(base, ())))
            self._above[id(owner)] = [
                item for name in names for _, item in self._classes.get(name, ()) if item is not owner
            ]
        return self._above[id(owner)]


class Inheritance:
    """Which definitions of methods the classes in use get: one that each of them overrides never runs."""

    def __init__(self, bases: Bases) -> None:
        self._bases = bases
        self._used: set[int] = set()
        """Classes whose methods an object may have: named otherwise than to be extended."""
        self._given: set[tuple[int, str]] = set()
        """Methods by the class that defines them."""
        self._methods: dict[int, set[str]] = {}
        self._asked: set[tuple[int, str]] = set()

    def use(self, owner: ast.ClassDef) -> bool:
        """Take a class as used; whether that is news."""
        if id(owner) in self._used:
            return False
        self._used.add(id(owner))
        for item in self._line(owner):
            for name in self._defined(item):
                self._give(owner, name)
        return True

    def call_above(self, owner: ast.ClassDef, names: set[str]) -> None:
        """Take in what a method of a class calls through `super()`."""
        for name in names:
            if (id(owner), name) in self._asked:
                continue
            self._asked.add((id(owner), name))
            if name == ANY:
                for item in self._line(owner):
                    self._given |= {(id(item), method) for method in self._defined(item)}
            for base in self._bases.above(owner):
                self._give(base, name)

    def runs(self, owner: ast.ClassDef, name: str) -> bool:
        """Whether a method that a class defines may be one that runs."""
        return (id(owner), name) in self._given

    def _give(self, owner: ast.ClassDef, name: str) -> None:
        """The definitions of a method nearest above a class, itself first, on each path."""
        waiting, seen = [owner], {id(owner)}
        while waiting:
            item = waiting.pop()
            if name in self._defined(item):
                self._given.add((id(item), name))
                continue
            for base in self._bases.above(item):
                if id(base) not in seen:
                    seen.add(id(base))
                    waiting.append(base)

    def _line(self, owner: ast.ClassDef) -> list[ast.ClassDef]:
        """A class and all that it extends."""
        found, seen = [owner], {id(owner)}
        for item in found:  # grows on the way
            for base in self._bases.above(item):
                if id(base) not in seen:
                    seen.add(id(base))
                    found.append(base)
        return found

    def _defined(self, owner: ast.ClassDef) -> set[str]:
        if id(owner) not in self._methods:
            # A method behind a condition of the class may not be there: only its own statements override.
            self._methods[id(owner)] = {item.name for item in owner.body if isinstance(item, FUNCTIONS)}
        return self._methods[id(owner)]
