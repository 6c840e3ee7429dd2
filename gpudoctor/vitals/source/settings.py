"""Command lines and configs: argparse, dataclasses, HfArgumentParser, hydra; launch-line words."""

import ast
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from gpudoctor.analysis.source.syntax import last_name, words
from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.vitals.source import operators
from gpudoctor.vitals.source.values import MISSING, NOTHING, AbstractValue, ClassSymbol, Function, Module, value_of

_PARSERS = frozenset(["argparse.ArgumentParser", "transformers.HfArgumentParser", "trl.TrlParser"])
_LOADED = words(
    "yaml.safe_load yaml.load json.load json.loads toml.load tomllib.load omegaconf.OmegaConf.load "
    "omegaconf.OmegaConf.create omegaconf.OmegaConf.merge omegaconf.OmegaConf.from_cli ml_collections.ConfigDict "
    "configparser.ConfigParser hydra.compose omegaconf.OmegaConf.structured easydict.EasyDict"
)

if TYPE_CHECKING:
    from gpudoctor.vitals.source.program import SourceLookup
_TRUE = frozenset(["true", "yes", "y", "t", "1", "on"])
_FALSE = frozenset(["false", "no", "n", "f", "0", "off", "none"])


@frozen(eq=False)
class Option:
    """One option of a command line: its name, default, and how words give it a value."""

    name: str
    """Its attribute on the namespace."""
    flags: tuple[str, ...]
    """Every spelling, the one that messages use first."""
    kind: type | None
    """`int`, `float`, `str`, `bool`; None when it cannot be told."""
    default: object = MISSING
    switch: bool | None = None
    """The value that the bare flag gives, for flags without a value."""
    many: bool = False


def call_result(
    program: "SourceLookup",
    module: Module,
    node: ast.Call,
    name: str,
    base: AbstractValue,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue | None:
    """What a call of a command-line or config library gives; None when it is none of them."""
    method = name.rpartition(".")[2]
    if name in _PARSERS or (base is NOTHING and method in ("ArgumentParser", "HfArgumentParser")):
        first = args[0] if args else keywords.get("dataclass_types", NOTHING)
        data = method in ("HfArgumentParser", "TrlParser")
        return AbstractValue(
            type=name if name in _PARSERS else "argparse.ArgumentParser",
            items=(first.items or (first,)) if data else None,
        )
    if base.type in _PARSERS:
        return _of_parser(program, module, base, method)
    if name in _LOADED:
        return AbstractValue(option=True)
    if name == "vars":
        first = args[0] if args else NOTHING
        return AbstractValue(type="dict", attrs=first.attrs, option=first.option) if first.attrs is not None else None
    if name == "dict" and not args:
        return AbstractValue(type="dict", keys=dict(keywords), open=any(k.arg is None for k in node.keywords))
    plain = operators.converted(name, method, base, args)
    if plain is not None:
        return plain
    if name == "getattr" and len(args) > 1 and isinstance(args[1].value, str):
        held = (args[0].attrs or {}).get(args[1].value)
        return held if held is not None else AbstractValue(option=True) if args[0].option else None
    return None


def _of_parser(program: "SourceLookup", module: Module, base: AbstractValue, method: str) -> AbstractValue:
    if method in ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"):
        return base
    if method in ("parse_args_into_dataclasses", "parse_args_and_config"):
        found = tuple(_parsed(program, module, item) for item in base.items or ())
        return AbstractValue(items=found, elem=found[0] if len(found) == 1 else None)
    if method in ("parse_args", "parse_known_args", "parse_intermixed_args", "parse_json_file"):
        space = AbstractValue(type="argparse.Namespace", attrs=dict(options(program, module)), option=True)
        return AbstractValue(items=(space, AbstractValue(option=True))) if method == "parse_known_args" else space
    return NOTHING


def options(program: "SourceLookup", module: Module) -> Mapping[str, AbstractValue]:
    """The options that a module's parsers declare, those of the modules that it imports and that import it too."""
    key = ("options", module)
    if key not in program.memory:
        program.memory[key] = {}
        near = {id(one) for one in module.reach()}
        above = [one for one in program.modules if module in one.reach() and id(one) not in near]
        merged: dict[str, AbstractValue] = {}
        for one in [*above, *reversed(module.reach())]:
            merged |= declared(program, one)
        program.memory[key] = merged
    return program.memory[key]  # type: ignore[return-value]


def declared(program: "SourceLookup", module: Module) -> dict[str, AbstractValue]:
    """The options that a module's own text declares, with their values."""
    key = ("declared", module)
    if key not in program.memory:
        found: dict[str, AbstractValue] = {}
        program.memory[key] = found
        for method in ("add_argument", "set_defaults"):
            for home, call in program.calls.get(method, ()):
                if home is module and isinstance(call.func, ast.Attribute):
                    _declare(program, module, call, method, found)
    return program.memory[key]  # type: ignore[return-value]


def _declare(
    program: "SourceLookup", module: Module, call: ast.Call, method: str, found: dict[str, AbstractValue]
) -> None:
    args = [program.thing(module, arg) for arg in call.args]
    keywords = {item.arg: program.thing(module, item.value) for item in call.keywords if item.arg is not None}
    if method == "add_argument":
        option = read_option(call, args, keywords)
        if option is not None:
            found[option.name] = thing = _valued(module, option)
            module.arguments[option.name] = value_of(thing, option.flags[0])
        return
    for name, thing in keywords.items():
        if found.get(name, NOTHING).origin != "command line":
            told = say("default of --{name}", name=name) if thing.known else ""
            found[name] = thing.replace(option=True, origin=told)
            module.arguments[name] = value_of(found[name], name)


def _valued(module: Module, option: Option) -> AbstractValue:
    value = given(option, module.words) if module.words is not None else MISSING
    origin = "command line" if value is not MISSING else say("default of {flag}", flag=option.flags[0])
    value = option.default if value is MISSING else value
    return AbstractValue(value=value, origin=origin, option=True)  # type: ignore[arg-type]


def _parsed(program: "SourceLookup", module: Module, thing: AbstractValue) -> AbstractValue:
    """A dataclass filled from the command line."""
    klass = thing.definition if isinstance(thing.definition, ClassSymbol) else thing.klass
    if klass is None:
        return AbstractValue(type=thing.ref, option=True)
    values: dict[str, AbstractValue] = {}
    for name, default in program.fields(klass).items():
        kind = type(default.value) if default.known and default.value is not None else None
        flags = (f"--{name}", f"--{name.replace('_', '-')}")
        option = Option(name=name, flags=flags, kind=kind, switch=True if kind is bool else None)
        value = given(option, module.words) if module.words is not None else MISSING
        told = AbstractValue(value=value, origin="command line", option=True)  # type: ignore[arg-type]
        values[name] = default if value is MISSING else told
        module.arguments[name] = value_of(values[name], name)
    return AbstractValue(type=klass.kind, klass=klass, attrs=values, option=True)


_FIELDS = frozenset(["field", "Field", "mutable", "HfArg", "Factory", "Option", "Argument"])


def field_default(program: "SourceLookup", module: Module, node: ast.expr) -> AbstractValue:
    """The default of a dataclass field: a plain value, or `field(default=...)`, `Field(4)`."""
    if not (isinstance(node, ast.Call) and last_name(node.func) in _FIELDS):
        return program.thing(module, node)
    words = {item.arg: item.value for item in node.keywords}
    if "default" in words:
        return program.thing(module, words["default"])
    if "default_factory" in words:
        made = program.thing(module, words["default_factory"])
        if isinstance(made.definition, Function) and isinstance(made.definition.node, ast.Lambda):
            return program.thing(made.definition.module, made.definition.node.body)
        return NOTHING
    return program.thing(module, node.args[0]) if node.args else NOTHING


def decorated(program: "SourceLookup", function: Function, arg: ast.arg) -> AbstractValue | None:
    """What hydra gives the first parameter of the function that it runs: its files set the fields."""
    if function.node.args.args[:1] != [arg]:
        return None
    for decorator, _ in function.decorators:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if program.thing(function.module, target).ref == "hydra.main":
            made = program.annotation(function.module, arg.annotation) if arg.annotation is not None else NOTHING
            return made.replace(option=True)
    return None


def launched(program: "SourceLookup", function: Function) -> AbstractValue | None:
    """The tuple of arguments with which a library starts a function in other processes, its rank included."""
    return started(program).get(function)


def started(program: "SourceLookup") -> dict[Function, AbstractValue]:
    """Functions that a library starts in other processes, with what it gives them."""
    if "started" not in program.memory:
        found: dict[Function, AbstractValue] = {}
        program.memory["started"] = found
        for method in ("spawn", "Process", "start_processes", "notebook_launcher", "debug_launcher"):
            for home, call in program.calls.get(method, ()):
                words = {item.arg: item.value for item in call.keywords}
                first = words.get("target") or words.get("fn") or (call.args[0] if call.args else None)
                function = program.thing(home, first).definition
                if isinstance(function, Function) and function not in found:
                    given_ = program.thing(home, words.get("args") or (call.args[1] if len(call.args) > 1 else None))
                    ranked = method in ("spawn", "start_processes")
                    rank = (AbstractValue(type="rank", option=True),) if ranked else ()
                    found[function] = AbstractValue(items=(*rank, *(given_.items or ())))
    return program.memory["started"]  # type: ignore[return-value]


# options and words


def read_option(node: ast.Call, args: Sequence[AbstractValue], keywords: Mapping[str, AbstractValue]) -> Option | None:
    """The option that `add_argument(...)` declares."""
    flags = [a.value for a in args if isinstance(a.value, str)]
    if not flags or not all(flags):
        return None
    dashed = [flag for flag in flags if flag.startswith("-")]
    plain = [flag for flag in flags if not flag.startswith("-")]
    long = next((flag for flag in dashed if flag.startswith("--")), None) or (dashed[0] if dashed else flags[0])
    action, dest = _plain(keywords, "action"), _plain(keywords, "dest")
    name = dest if isinstance(dest, str) else plain[0] if plain and dashed else long.lstrip("-").replace("-", "_")
    stored: dict[str, tuple[bool | None, object]] = {"store_true": (True, False), "store_false": (False, True)}
    switch, default = stored.get(str(action), (None, None))
    if getattr(keywords.get("action"), "ref", None) and "BooleanOptionalAction" in str(keywords["action"].ref):
        switch = True
    elif switch is None and _plain(keywords, "required") is True:
        default = MISSING
    kind = _kind(next((item.value for item in node.keywords if item.arg == "type"), None))
    default = _default(default, keywords.get("default"))
    if kind is None and default is not MISSING and default is not None:
        kind = type(default)
    spellings = [long, *dashed]
    return Option(
        name=name,
        flags=tuple(dict.fromkeys(spellings)),
        kind=kind,
        default=default,
        switch=switch,
        many="nargs" in keywords,
    )


def _plain(keywords: Mapping[str, AbstractValue], name: str) -> object:
    thing = keywords.get(name)
    return thing.value if thing is not None and thing.known else None


def _default(default: object, passed: AbstractValue | None) -> object:
    if passed is None:
        return default
    if passed.items is not None:
        parts = tuple(item.value for item in passed.items)
        return parts if MISSING not in parts else MISSING
    return passed.value


def _kind(node: ast.expr | None) -> type | None:
    known = {"int": int, "float": float, "str": str, "bool": bool}
    name = last_name(node)
    return known.get(name) or (bool if "bool" in name.lower() else None)


def given(option: Option, words: Sequence[str]) -> object:
    """The value that the launch line gives an option; MISSING when it does not. The last one wins."""
    found: object = MISSING
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        after = words[index + 1] if index + 1 < len(words) else "--"
        if flag not in option.flags:
            continue
        if equals:
            found = word_value(value, option.kind)
        elif option.switch is not None and (not _boolean(after) or option.kind is None):
            found = option.switch
        elif option.many:
            several = takewhile(lambda item: not item.startswith("--"), words[index + 1 :])
            values = [word_value(item, option.kind) for item in several]
            found = tuple(values) if MISSING not in values else MISSING
        elif not after.startswith("--"):
            found = word_value(after, option.kind)
        else:
            found = MISSING
    return found


def _boolean(word: str) -> bool:
    return word.lower() in _TRUE | _FALSE


def word_value(word: str, kind: type | None) -> object:
    """A word of the command line as a value of a kind; MISSING when it is none."""
    if "$" in word or "{{" in word:
        return MISSING  # the shell's or a template's to fill
    if kind is bool:
        return word.lower() in _TRUE if _boolean(word) else MISSING
    for convert in (int, float) if kind is None else (kind,) if kind in (int, float) else ():
        try:
            return convert(word)
        except ValueError:
            if kind is not None:
                return MISSING
    return word
