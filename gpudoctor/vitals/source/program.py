"""What names hold: looked up backwards, from a use to the bindings that reach it, when somebody asks.

Nothing is interpreted forwards. A parameter is what its call sites give, an attribute what the methods of its class
give to `self`, a call what the function returns. Every answer is worked out once.
"""

import ast
import builtins
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import reduce

from gpudoctor.analysis.source.syntax import is_main_guard, last_name
from gpudoctor.lang import say
from gpudoctor.vitals.source import settings
from gpudoctor.vitals.source.calls import Resolved, resolve
from gpudoctor.vitals.source.expressions import HANDLERS
from gpudoctor.vitals.source.importing import Importer, relative_name
from gpudoctor.vitals.source.index import COMPREHENSIONS, holders, index, text_of
from gpudoctor.vitals.source.joins import join
from gpudoctor.vitals.source.operators import arithmetic
from gpudoctor.vitals.source.qualified_names import canonical, guess, kind_of
from gpudoctor.vitals.source.tensor_values import element
from gpudoctor.vitals.source.values import (
    BATCH,
    MISSING,
    MODULE,
    NOTHING,
    AbstractValue,
    Binding,
    ClassSymbol,
    Function,
    Module,
    Scope,
)

_DEEPEST = 70
"""Steps from a use back to where its value comes from; what is further away is not known."""
_NEAR = 40
"""Bindings of one name that are looked at for one use."""
_SITES = 24
"""Call sites that tell what a parameter holds."""
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.ExceptHandler, ast.With, ast.AsyncWith, ast.Match)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_INTERNAL = frozenset((BATCH, "number", "bool", "rank", "torch.device.type", "tuple", "list", "dict", "str"))
_DATA = frozenset(
    ["dataclasses.dataclass", "attr.s", "attrs.define", "attrs.frozen", "pydantic.dataclasses.dataclass", "dataclass",
     "flax.struct.dataclass", "draccus.wrap", "pydantic.BaseModel", "pydantic_settings.BaseSettings",
     "typing.NamedTuple", "tap.Tap", "pydantic.main.BaseModel"]
)  # fmt: skip


class SourceLookup:
    """Every module read, and what their expressions give."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer
        self.modules: list[Module] = []
        self.builtins = frozenset(dir(builtins))
        self.calls: dict[str, list[tuple[Module, ast.Call]]] = {}
        """Every call by the last name of what it calls."""
        self.memory: dict[object, object] = {}
        """Answers that were worked out before."""
        self._resolved: dict[ast.Call, Resolved] = {}
        self._things: dict[ast.AST, AbstractValue] = {}
        self._open: set[object] = set()
        self._depth = 0

    # modules

    def take(self, module: Module) -> None:
        """A module, and those that it imports."""
        waiting = [module]
        imports = {id(module): self._index(module)}
        for one in waiting:  # grows on the way
            for node in imports[id(one)]:
                for found in self._brought(one, node):
                    if found is not one and found not in one.links:
                        one.links.append(found)
                    if id(found) not in imports and found.tree not in found.scopes:
                        imports[id(found)] = self._index(found)
                        waiting.append(found)

    def _index(self, module: Module) -> list[ast.Import | ast.ImportFrom]:
        self.modules.append(module)
        found = index(module)
        for call in module.of(ast.Call):
            self.calls.setdefault(last_name(call.func), []).append((module, call))
        return found

    def _brought(self, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[Module]:
        names: list[str] = []
        if isinstance(node, ast.Import):
            for alias in node.names:
                names += dict.fromkeys((alias.name, alias.name.partition(".")[0]))
        else:
            base = relative_name(module, node)
            owner = self.importer.load(base, module) if base else None
            if owner is not None:
                if owner.tree not in owner.scopes:
                    yield owner  # indexed by who asks
                held = owner.scopes[owner.tree].bindings if owner.tree in owner.scopes else {}
                yield owner
            for alias in node.names:
                if owner is None or alias.name not in held:
                    names.append(f"{base}.{alias.name}" if base else alias.name)
        for name in names:
            found = self.importer.load(name, module)
            if found is not None:
                yield found

    def link(self) -> None:
        """Say of every class what it extends; all modules are there now."""
        for module in self.modules:
            for klass in module.klasses:
                self._extend(klass)

    def _extend(self, klass: ClassSymbol) -> None:
        if klass in self._open or klass.bases or not (klass.node.bases or klass.node.decorator_list):
            return
        self._open.add(klass)
        bases = tuple(self.thing(klass.module, base) for base in klass.node.bases)
        for base in bases:
            if isinstance(base.definition, ClassSymbol):
                self._extend(base.definition)
        klass.bases = bases
        for decorator in klass.node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            ref = self.thing(klass.module, target).ref or text_of(target)
            klass.data = klass.data or ref in _DATA or ref.endswith(".dataclass")
            klass.steered = klass.steered or ref.startswith("gin.")
        klass.kind = _kind(bases)
        klass.data = (
            klass.data
            or any(b.ref in _DATA or (isinstance(b.definition, ClassSymbol) and b.definition.data) for b in bases)
            or (klass.kind or "").endswith(("TrainingArguments", "SFTConfig", "DPOConfig"))
        )
        self._open.discard(klass)

    def member(self, module: Module, name: str) -> AbstractValue:
        """A name of one of the program's own modules, a submodule included."""
        found = self.look(module.scope, name, None) if module.tree in module.scopes else None
        if found is not None and found is not NOTHING:
            return found
        inner = self.importer.load(f"{module.name}.{name}", module)
        return AbstractValue(definition=inner) if inner is not None else found or NOTHING

    # expressions

    def thing(self, module: Module, node: ast.AST | None) -> AbstractValue:
        """What an expression gives."""
        if node is None:
            return NOTHING
        found = self._things.get(node)
        if found is not None:
            return found
        handler = HANDLERS.get(type(node))
        if handler is None or node in self._open or self._depth > _DEEPEST:
            return NOTHING
        self._open.add(node)
        self._depth += 1
        try:
            found = handler(self, module, node)
        except RecursionError:
            found = NOTHING
        finally:
            self._depth -= 1
            self._open.discard(node)
        self._things[node] = found
        return found

    def once(self, question: object, answer: Callable[[], AbstractValue | None]) -> AbstractValue | None:
        """An answer that is kept; None where it is asked while it is worked out."""
        if question in self.memory:
            return self.memory[question]  # type: ignore[return-value]
        if question in self._open or self._depth > _DEEPEST:
            return None
        self._open.add(question)
        self._depth += 1
        try:
            found = answer()
        except RecursionError:
            found = None
        finally:
            self._depth -= 1
            self._open.discard(question)
        self.memory[question] = found
        return found

    # names

    def look(self, scope: Scope, name: str, use: ast.AST | None) -> AbstractValue | None:
        """What a name holds in a scope at a place, or at the scope's end; None where nothing binds it."""
        found = self.binding(scope, name, use)
        return self._starred(scope.module, name) if found is None else self.joined(found)

    def binding(self, scope: Scope, name: str, use: ast.AST | None) -> list[Binding] | None:
        """The bindings that may give a name what it holds in a scope at a place; None where nothing binds it."""
        home: Scope | None = scope
        while home is not None:
            if name in home.bindings and (home is scope or home.klass is None):
                return self.reaching(home, home.bindings[name], use if home is scope else None)[0]
            home = home.outer
        return None

    def written(self, module: Module, node: ast.expr) -> ast.expr:
        """The one expression that gives a name its value where it is used; the name itself where there are several."""
        found = self.binding(module.home(node), node.id, node) if isinstance(node, ast.Name) else None
        one = found[0] if found is not None and len(found) == 1 else None
        plain = one is not None and one.kind == "value" and not one.part
        return one.value if plain and one is not None and isinstance(one.value, ast.expr) else node

    def _starred(self, module: Module, name: str) -> AbstractValue | None:
        for node in module.stars if not name.startswith("_") else ():
            base = relative_name(module, node) or ""
            owner = self.importer.load(base, module)
            if owner is not None and owner is not module and (owner, name) not in self._open:
                self._open.add((owner, name))
                found = self.look(owner.scope, name, None) if owner.tree in owner.scopes else None
                self._open.discard((owner, name))
                if found is not None:
                    return found
        return None

    def reaching(self, scope: Scope, found: Sequence[Binding], use: ast.AST | None) -> tuple[list[Binding], bool]:
        """The bindings that may give a name its value at a place, nearest first, and whether one of them does."""
        module = scope.module
        above = dict(holders(module, use)) if use is not None else {}
        place = (getattr(use, "lineno", 0), getattr(use, "col_offset", 0)) if use is not None else (1 << 60, 0)
        at = bisect_right(found, place, key=lambda one: one.end)
        kept: list[Binding] = []
        certain = False
        for binding in reversed(found[max(0, at - _NEAR) : at]):
            if isinstance(binding.node, COMPREHENSIONS):
                if binding.node in above:
                    return [binding], True
                continue
            reaches, certain = self._arrives(scope, binding, above)
            if reaches:
                kept.append(binding)
                if certain:
                    break
        certain = certain and bool(kept)
        around = [item for item in above if isinstance(item, _LOOPS)]
        if certain and around:  # what the pass binds anew is not left from the pass before
            inner = (kept[-1].node, *module.above(kept[-1].node))
            around = [item for item in around if item not in inner]
        for binding in found[at : at + 10] if around else ():
            if any(item in around for item in module.above(binding.node)):
                kept.insert(0, binding)
                certain = False
        return kept, certain

    def _arrives(self, scope: Scope, binding: Binding, above: dict[ast.AST, ast.AST]) -> tuple[bool, bool]:
        """Whether a binding of an earlier place may hold at a use, and whether it certainly was made."""
        certain = True
        inside: ast.AST = binding.node
        if inside in above and not isinstance(inside, _LOOPS) and binding.kind not in ("parameter", "with"):
            return False, False
        for item in binding.scope.module.above(binding.node):
            if item in above or item in scope.module.scopes:
                part = above.get(item)
                if isinstance(item, ast.If) and part is not None and _apart(item, part, inside):
                    return False, False
                return True, certain and (item in above or item is scope.node)  # else a global of a function
            if isinstance(item, _BLOCKS) and not _runs(item, inside):
                certain = False
            inside = item
        return True, certain

    def joined(self, found: Sequence[Binding]) -> AbstractValue:
        """What a name holds that has one of some bindings."""
        things = [self.bound(one) for one in found]
        return reduce(join, things) if things else NOTHING

    def bound(self, binding: Binding) -> AbstractValue:
        """What a binding gives."""
        return self.once(binding, lambda: self._bound(binding)) or NOTHING

    def _bound(self, one: Binding) -> AbstractValue:
        module, node = one.scope.module, one.node
        match one.kind:
            case "def":
                made = module.scopes.get(node)
                return AbstractValue(definition=(made.klass or made.function) if made is not None else None)
            case "import":
                return self._imported(one)
            case "parameter":
                made = module.scopes[node]
                assert made.function is not None and isinstance(one.value, ast.arg)
                return self.parameter(made.function, one.value)
            case "none":
                return NOTHING
            case "sum" if isinstance(node, ast.AugAssign):
                return arithmetic(node.op, self.thing(module, node.target), self.thing(module, node.value))
            case "change" | "entry":
                return self._changed(one)
        thing = self.thing(module, one.value)
        if isinstance(node, ast.AnnAssign):
            told = self.annotation(module, node.annotation)
            if one.value is node:
                return told
            if thing.type is None and thing.klass is None and not thing.known and (told.type or told.klass):
                thing = thing.replace(type=told.type, klass=told.klass)
        if one.kind == "each":
            thing = element(thing)
        elif one.kind == "with" and thing.elem is not None and thing.type is None:
            thing = thing.elem  # a generator function under contextlib.contextmanager
        for place in one.part:
            items = thing.items
            thing = items[place] if items is not None and -len(items) <= place < len(items) else element(thing)
        if thing.known and thing.origin == "literal":
            thing = thing.replace(origin="constant")
        return thing.widened() if one.kind == "each" else thing

    def _changed(self, one: Binding) -> AbstractValue:
        """What a name holds after `x.to(device)`, `x.append(y)`, `x["key"] = y`."""
        module, value = one.scope.module, one.value
        if one.kind == "change":
            assert isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
            base, method = self.thing(module, value.func.value), value.func.attr
            if method in ("to", "cuda", "cpu"):
                return self.thing(module, value) if kind_of(base.type) == MODULE else base
            given = [self.thing(module, item) for item in value.args]
            if method == "update" and base.keys is not None:
                first = given[0] if given else NOTHING
                words = {item.arg: self.thing(module, item.value) for item in value.keywords if item.arg}
                loose = base.open or first.open or (bool(given) and first.keys is None)
                return base.replace(keys={**base.keys, **(first.keys or {}), **words}, open=loose)
            if (base.items is None and base.elem is None) or not given:
                return base
            item = element(given[0]) if method == "extend" else given[-1]
            return AbstractValue(type=base.type, elem=item if base.items == () else join(element(base), item))
        target = next((t for t in getattr(one.node, "targets", ()) if isinstance(t, ast.Subscript)), None)
        target = target if target is not None else getattr(one.node, "target", None)
        if not isinstance(target, ast.Subscript):
            return NOTHING
        base = self.thing(module, target.value)
        given_ = self.thing(module, value) if not one.part else NOTHING
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        if base.keys is not None:
            if not isinstance(key, str):
                return base.widened().replace(open=True)
            return base.replace(keys={**base.keys, key: given_}) if len(base.keys) < 2000 else base
        if base.attrs is not None and isinstance(key, str):
            return base.replace(attrs={**base.attrs, key: given_})
        if base.items is not None:
            return AbstractValue(type=base.type, elem=join(element(base), given_))
        return base

    def _imported(self, one: Binding) -> AbstractValue:
        module, node, alias = one.scope.module, one.node, one.value
        assert isinstance(alias, ast.alias)
        if isinstance(node, ast.Import):
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            inner = self.importer.load(name, module)
            return AbstractValue(definition=inner) if inner is not None else AbstractValue(ref=canonical(name))
        assert isinstance(node, ast.ImportFrom)
        base = relative_name(module, node) or ""
        owner = self.importer.load(base, module) if base else None
        if owner is not None and owner is not module:
            thing = self.member(owner, alias.name)
            if thing is not NOTHING:
                return thing.replace(origin="constant") if thing.known and thing.origin == "literal" else thing
        dotted = f"{base}.{alias.name}" if base else alias.name
        inner = self.importer.load(dotted, module)
        if inner is not None:
            return AbstractValue(definition=inner)
        return NOTHING if owner is not None else AbstractValue(ref=canonical(dotted))

    def guessed(self, module: Module, name: str, thing: AbstractValue) -> AbstractValue:
        """A thing of which nothing is known but its name."""
        if thing.type or thing.klass or thing.known or thing.ref or thing.definition or thing.option or thing.elem:
            return thing
        if thing.items is not None or thing.keys is not None or thing.attrs is not None:
            return thing
        kind = guess(name) if module.torch else None
        return thing.replace(type=kind, guessed=True) if kind else thing

    # functions

    def parameter(self, function: Function, arg: ast.arg) -> AbstractValue:
        """What call sites pass for a parameter, and its default."""
        spec, module, name = function.node.args, function.module, arg.arg
        names = [item.arg for item in (*spec.posonlyargs, *spec.args)]
        first = names[:1] == [name] and function.klass is not None and not function.static
        if first:
            assert function.klass is not None
            if function.bound_class:
                return AbstractValue(definition=function.klass)
            return AbstractValue(type=function.klass.kind, klass=function.klass)
        told = settings.decorated(self, function, arg)
        if told is not None:
            return told
        if spec.vararg is arg:
            return AbstractValue(elem=NOTHING)
        if spec.kwarg is arg:
            return AbstractValue(type="dict", keys={}, open=True)
        launch = settings.launched(self, function)
        if launch is not None:
            place = names.index(name) if name in names else len(names)
            return launch.items[place] if launch.items and place < len(launch.items) else self.default(function, name)
        joined: AbstractValue | None = None
        sites = self.sites(function)
        for home, call in sites:
            thing = self.given(function, home, call, name)
            if thing is not None:
                mixed = joined is not None and (joined.value is None) != (thing.value is None)
                joined = thing if joined is None else join(joined, thing)
                joined = joined.replace(optional=True) if mixed else joined
        thing = joined or NOTHING
        if joined is None:
            thing = self.default(function, name)
            if thing.known:
                thing = thing.replace(origin=say("default of {argument}", argument=name))
            if not sites:  # whoever calls it from outside, a config's library among them, may pass another value
                thing = thing.widened()
        if arg.annotation is not None and not (thing.type or thing.klass or thing.definition or thing.items):
            found = self.annotation(module, arg.annotation)
            if (found.type or found.klass) and found.type not in ("number", "str"):
                thing = found.replace(option=thing.option) if thing.value in (None, MISSING) else thing
        if thing is NOTHING:
            thing = self.guessed(module, name, thing)
        return thing

    def given(self, function: Function, home: Module, call: ast.Call, name: str) -> AbstractValue | None:
        """What a call gives for a parameter: an argument, a key of `**kwargs`, the default; None if nobody can tell."""
        spec = function.node.args
        names = [item.arg for item in (*spec.posonlyargs, *spec.args)]
        shift = 1 if function.klass is not None and not function.static else 0
        site = self.resolve(home, call)
        if shift and site.owner is None and site.klass is None:
            shift = 0  # `Class.method(thing, x)`
        for item in call.keywords:
            if item.arg == name:
                return self.thing(home, item.value)
            if item.arg is None:
                held = self.thing(home, item.value)
                known = (held.keys or held.attrs or {}).get(name)
                if known is not None or held.open or (held.keys is None and held.attrs is None):
                    return known or NOTHING
        place = names.index(name) - shift if name in names else -1
        for at, item_ in enumerate(call.args[: place + 1]):
            if isinstance(item_, ast.Starred):
                items = self.thing(home, item_.value).items
                return items[place - at] if items is not None and place - at < len(items) else NOTHING
        if 0 <= place < len(call.args):
            return self.thing(home, call.args[place])
        default = self.default(function, name)
        return default.replace(origin=say("default of {argument}", argument=name)) if default.known else default

    def default(self, function: Function, name: str) -> AbstractValue:
        """The default of a parameter."""
        spec = function.node.args
        plain = [*spec.posonlyargs, *spec.args]
        pairs = [*zip(plain[len(plain) - len(spec.defaults) :], spec.defaults, strict=True)]
        pairs += [(a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None]
        found = next((settings.field_default(self, function.module, v) for arg, v in pairs if arg.arg == name), NOTHING)
        called = [item.func if isinstance(item, ast.Call) else item for item, _ in function.decorators]
        steered = any((self.thing(function.module, item).ref or "").startswith("gin.") for item in called)
        return found.widened() if steered or (function.klass is not None and function.klass.steered) else found

    def sites(self, function: Function) -> list[tuple[Module, ast.Call]]:
        """The calls of a function, as far as they can be told."""
        key = ("sites", function)
        if key not in self.memory:
            self.memory[key] = []
            found = []
            for home, call in self._candidates(function):
                if self.resolve(home, call).callee is function and function.node not in home.above(call):
                    found.append((home, call))
                    if len(found) >= _SITES:
                        break
            self.memory[key] = found
        return self.memory[key]  # type: ignore[return-value]

    def _candidates(self, function: Function) -> Iterator[tuple[Module, ast.Call]]:
        names = {function.short}
        if function.klass is not None and function.short == "__init__":
            names |= self._makers.get(function, set())
        elif function.klass is not None and function.short in ("forward", "__call__"):
            names |= {"model", "net", "self", "module"}
        for name in sorted(names):
            yield from self.calls.get(name, ())[:100]

    @property
    def _makers(self) -> dict[Function, set[str]]:
        """Names of the classes that a constructor makes, its own and inheriting ones."""
        if "makers" not in self.memory:
            found: dict[Function, set[str]] = {}
            for klass in (klass for module in self.modules for klass in module.klasses):
                made = klass.method("__init__")
                if made is not None:
                    found.setdefault(made, set()).add(klass.node.name)
            self.memory["makers"] = found
        return self.memory["makers"]  # type: ignore[return-value]

    def returned(self, function: Function) -> AbstractValue:
        """What a call of a function gives."""

        def answer() -> AbstractValue:
            if function.yields:
                joined = NOTHING
                for item in function.yields:
                    thing = self.thing(function.module, item.value) if item.value is not None else NOTHING
                    joined = join(joined, element(thing) if isinstance(item, ast.YieldFrom) else thing)
                return AbstractValue(elem=joined)
            found: AbstractValue | None = None
            for value in function.returns:
                thing = self.thing(function.module, value) if value is not None else AbstractValue(value=None)
                found = thing if found is None else join(found, thing)
            return found if found is not None else AbstractValue(value=None)

        return self.once(("returned", function), answer) or NOTHING

    # classes

    def attribute_of(self, klass: ClassSymbol, name: str) -> AbstractValue | None:
        """An attribute that methods of a class or its bases give to `self`."""
        for one in klass.lineage():
            if name in one.attrs:
                found = one.attrs[name]
                return self.once(("attribute", one, name), lambda found=found: self._attribute(found))  # type: ignore[misc]
        return None

    def _attribute(self, found: Sequence[Binding]) -> AbstractValue:
        plain = [one for one in found if one.kind not in ("change", "entry")]
        joined = self.joined((plain or found)[:_NEAR])
        for one in found:
            if one.kind in ("change", "entry") and plain:
                changed = self.bound(one)
                joined = join(joined, changed) if changed is not NOTHING else joined
        return joined

    def member_of(self, klass: ClassSymbol, name: str) -> AbstractValue | None:
        """A method or class attribute, its own or inherited."""
        for one in klass.lineage():
            if name in one.scope.bindings:
                return self.joined(self.reaching(one.scope, one.scope.bindings[name], None)[0])
        return None

    def fields(self, klass: ClassSymbol) -> dict[str, AbstractValue]:
        """Fields of a dataclass with their defaults, inherited ones first; a class that holds itself meets a part."""
        if ("fields", klass) in self.memory:
            return self.memory["fields", klass]  # type: ignore[return-value]
        merged: dict[str, AbstractValue] = {}
        self.memory["fields", klass] = merged
        for one in reversed(klass.lineage()):
            for statement in one.node.body if one.data else ():
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    thing = self.annotation(one.module, statement.annotation)
                    if statement.value is not None:
                        thing = settings.field_default(self, one.module, statement.value)
                    if thing.known:
                        thing = thing.replace(origin="field default")
                    merged[statement.target.id] = thing.replace(option=True)
        return merged

    def annotation(self, module: Module, node: ast.expr, depth: int = 0) -> AbstractValue:
        """An instance of the class that an annotation names; NOTHING when it says nothing."""
        if depth > 8:
            return NOTHING
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            quoted = self._quoted(node)
            if quoted is None:
                return NOTHING
            node = quoted
        if isinstance(node, ast.BinOp):
            left = self.annotation(module, node.left, depth + 1)
            return left if left is not NOTHING else self.annotation(module, node.right, depth + 1)
        if isinstance(node, ast.Subscript):
            outer = last_name(node.value)
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            inner = [self.annotation(module, part, depth + 1) for part in parts[:8]]
            if outer in ("Optional", "Union", "Annotated", "Final", "ClassVar"):
                return next((thing for thing in inner if thing is not NOTHING), NOTHING)
            if outer in ("list", "List", "Iterable", "Sequence", "Iterator", "Generator"):
                return AbstractValue(elem=inner[0] if inner else NOTHING)
            if outer in ("tuple", "Tuple"):
                return AbstractValue(items=tuple(inner))
            return self.annotation(module, node.value, depth + 1)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return NOTHING
        return self._instance(self.thing(module, node), last_name(node))

    def _quoted(self, node: ast.Constant) -> ast.expr | None:
        """The expression in a quoted annotation, parsed once."""
        if node not in self.memory:
            self.memory[node] = None
            try:
                parsed = ast.parse(str(node.value)[:200], mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
            for part in ast.walk(parsed):
                part.lineno = 1 << 30  # type: ignore[attr-defined]  # behind all that the module binds
            self.memory[node] = parsed
        return self.memory[node]  # type: ignore[return-value]

    def _instance(self, thing: AbstractValue, name: str) -> AbstractValue:
        if isinstance(thing.definition, ClassSymbol):
            klass = thing.definition
            attrs = _handed_in(self.fields(klass)) if klass.data else None
            return AbstractValue(type=klass.kind, klass=klass, attrs=attrs, option=klass.data)
        if thing.ref is not None:
            if name[:1].isupper():
                return AbstractValue(type=thing.ref, option="Namespace" in name or "Config" in name)
            return NOTHING
        known = {"int": "number", "float": "number", "str": "str"}.get(name)
        return AbstractValue(type=known) if known else NOTHING

    # small questions

    def resolve(self, module: Module, node: ast.Call) -> Resolved:
        """What a call calls."""
        found = self._resolved.get(node)
        if found is None:
            found = resolve(self, module, node)
            if not self._open or found.callee is not None or found.base is not NOTHING:
                self._resolved[node] = found
        return found

    def type_name(self, thing: AbstractValue) -> str | None:
        """The type of a thing as checks see it."""
        if thing.type is not None:
            return thing.type if thing.type not in _INTERNAL else None
        return thing.klass.name if thing.klass is not None else None

    def grad_mode(self, module: Module, node: ast.expr) -> bool | None:
        """Whether `with node:` switches gradients off (True) or on (False); None if it does neither."""
        target = node.func if isinstance(node, ast.Call) else node
        if last_name(target) not in ("no_grad", "inference_mode", "enable_grad", "set_grad_enabled"):
            return None
        name = self.thing(module, target).ref or ""
        first = node.args[0] if isinstance(node, ast.Call) and node.args else None
        said = first.value if isinstance(first, ast.Constant) else None
        if name in ("torch.no_grad", "torch.inference_mode"):
            return None if said is False else True
        if name == "torch.enable_grad":
            return False
        return not said if name == "torch.set_grad_enabled" and isinstance(said, bool) else None


def _handed_in(fields: dict[str, AbstractValue]) -> dict[str, AbstractValue]:
    """Fields without their defaults: whoever hands the object in, such as a config's library, may set them."""
    return {
        name: thing.widened().replace(attrs=_handed_in(thing.attrs)) if thing.attrs and thing.klass else thing.widened()
        for name, thing in fields.items()
    }


def _kind(bases: Sequence[AbstractValue]) -> str | None:
    found: str | None = None
    for base in bases:
        kind = base.ref
        if kind is not None and kind_of(kind) == MODULE and kind.startswith("torch.nn."):
            kind = MODULE
        elif isinstance(base.definition, ClassSymbol):
            kind = base.definition.kind
        if kind is not None and kind not in ("object", "abc.ABC", "typing.Generic", "typing.Protocol"):
            if kind_of(kind) == MODULE and found is None:
                return kind
            found = found or kind
    return found


def _apart(block: ast.If, use: ast.AST, binding: ast.AST) -> bool:
    """Whether a use and a binding stand in different arms of a condition, or the use in the condition itself."""
    arms = (block.body, block.orelse)
    return any(binding in arm and use not in arm for arm in arms)


def _runs(block: ast.AST, part: ast.AST) -> bool:
    """Whether a part of a block runs whenever the block is met."""
    if isinstance(block, (ast.With, ast.AsyncWith)):
        return True
    if isinstance(block, ast.Try):
        return (part in block.body and not block.handlers) or part in block.finalbody
    if isinstance(block, ast.If):
        return is_main_guard(block.test) and part in block.body
    return isinstance(block, _LOOPS) and part is getattr(block, "target", None)
