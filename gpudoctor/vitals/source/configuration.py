# ruff: noqa: ARG001  (handlers share one signature)
"""Command lines and configs: argparse, dataclasses, click, typer, HfArgumentParser, absl; launch-line words."""

import ast
from collections.abc import Sequence

from gpudoctor.lang import say
from gpudoctor.vitals.source import conversions
from gpudoctor.vitals.source.commandline import Option, given, read_option, word_value
from gpudoctor.vitals.source.conditions import dotted
from gpudoctor.vitals.source.program import SourceInterpreter
from gpudoctor.vitals.source.scope import ScopeState
from gpudoctor.vitals.source.values import MISSING, NOTHING, AbstractValue, ClassSymbol, Function, value_of

_PARSER = "argparse.ArgumentParser"
_PARSERS = frozenset(
    (
        _PARSER,
        "transformers.HfArgumentParser",
        "trl.TrlParser",
        "configargparse.ArgumentParser",
        "configargparse.ArgParser",
        "jsonargparse.ArgumentParser",
        "simple_parsing.ArgumentParser",
    )
)
_DATA_PARSERS = frozenset(("transformers.HfArgumentParser", "trl.TrlParser", "trl.commands.cli_utils.TrlParser"))
_FROM_CLASS = frozenset(("tyro.cli", "pyrallis.parse", "draccus.parse", "simple_parsing.parse", "jsonargparse.CLI"))
_LOADED = frozenset(
    (
        "yaml.safe_load",
        "yaml.load",
        "json.load",
        "json.loads",
        "toml.load",
        "tomllib.load",
        "omegaconf.OmegaConf.load",
        "omegaconf.OmegaConf.create",
        "omegaconf.OmegaConf.merge",
        "omegaconf.OmegaConf.from_cli",
        "ml_collections.ConfigDict",
        "configparser.ConfigParser",
        "hydra.compose",
        "omegaconf.OmegaConf.structured",
        "easydict.EasyDict",
    )
)
_ABSL = {
    "DEFINE_integer": int,
    "DEFINE_float": float,
    "DEFINE_bool": bool,
    "DEFINE_boolean": bool,
    "DEFINE_string": str,
    "DEFINE_enum": str,
}


def call_result(
    program: SourceInterpreter,
    frame: ScopeState,
    node: ast.Call,
    name: str,
    base: AbstractValue,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue | None:
    """What a call of a command-line or config library gives; None when it is none of them."""
    method = name.rpartition(".")[2]
    if name in _PARSERS or (base is NOTHING and method in ("ArgumentParser", "HfArgumentParser")):
        return _parser(name, args, keywords)
    if base.type in _PARSERS:
        return _on_parser(program, frame, node, base, method, args, keywords)
    if name in _LOADED:
        return AbstractValue(option=True)
    if name in _FROM_CLASS:
        return _parsed_class(frame, args[0] if args else keywords.get("config_class", NOTHING))
    if name == "vars":
        first = args[0] if args else NOTHING
        return AbstractValue(type="dict", attrs=first.attrs, option=first.option) if first.attrs is not None else None
    if name in ("argparse.Namespace", "types.SimpleNamespace") and "**" not in keywords:
        return AbstractValue(type="argparse.Namespace", attrs=dict(keywords), option=True)
    if name == "dict" and not args:
        return AbstractValue(type="dict", keys=dict(keywords), open=any(k.arg is None for k in node.keywords))
    plain = conversions.call_result(name, method, base, args)
    if plain is not None:
        return plain
    if name == "getattr" and len(args) > 1 and isinstance(args[1].value, str):
        return _getattr(args)
    if name == "exec" and base is NOTHING and not frame.name:
        _override(frame)
        return NOTHING
    if name == "len":
        items = args[0].items if args else None
        return AbstractValue(value=len(items)) if items is not None and args[0].type == "tuple" else None
    if method in _ABSL and len(args) >= 2 and isinstance(args[0].value, str):
        _flag(frame, args[0].value, args[1], _ABSL[method])
        return NOTHING
    return None


def _getattr(args: list[AbstractValue]) -> AbstractValue | None:
    first, name = args[0], args[1].value
    if first.attrs is not None and isinstance(name, str) and name in first.attrs:
        return first.attrs[name]
    if first.option:
        return AbstractValue(option=True)
    return None


def _parser(name: str, args: list[AbstractValue], keywords: dict[str, AbstractValue]) -> AbstractValue:
    options: dict[str, AbstractValue] = {}
    for parent in (keywords.get("parents") or NOTHING).items or ():
        options.update(parent.attrs or {})
    classes = None
    if name in _DATA_PARSERS or name.endswith("HfArgumentParser"):
        first = args[0] if args else keywords.get("dataclass_types", NOTHING)
        classes = first.items if first.items is not None else (first,)
        name = "transformers.HfArgumentParser"
    return AbstractValue(type=name if name in _PARSERS else _PARSER, attrs=options, items=classes)


def _on_parser(
    program: SourceInterpreter,
    frame: ScopeState,
    node: ast.Call,
    base: AbstractValue,
    method: str,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue | None:
    options = base.attrs if base.attrs is not None else {}
    if method == "add_argument":
        option = read_option(node, args, keywords)
        if option is not None:
            thing = _option_thing(frame, option)
            options[option.name] = thing  # a parser is one object under many names
            frame.module.arguments[option.name] = value_of(thing, option.text)
        return NOTHING
    if method in ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"):
        return base
    if method == "set_defaults":
        for name, thing in keywords.items():
            if options.get(name, NOTHING).origin != "command line":
                options[name] = thing.replace(
                    option=True, origin=say("default of --{name}", name=name) if thing.known else ""
                )
                frame.module.arguments[name] = value_of(options[name], name)
        return NOTHING
    if method in ("parse_args_into_dataclasses", "parse_args_and_config"):
        found = tuple(_parsed_class(frame, item) for item in base.items or ())
        return AbstractValue(items=found) if len(found) != 1 else AbstractValue(items=found, elem=found[0])
    if method in ("parse_args", "parse_known_args", "parse_intermixed_args", "parse_json_file"):
        namespace = AbstractValue(type="argparse.Namespace", attrs=dict(options), option=True)
        if method == "parse_known_args":
            return AbstractValue(items=(namespace, AbstractValue(option=True)))
        return namespace
    if method == "get_default":
        return options.get(str(args[0].value)) if args else None
    return NOTHING


def _option_thing(frame: ScopeState, option: Option) -> AbstractValue:
    words = _words(frame)
    value: object = MISSING
    origin = say("default of {flag}", flag=option.flag)
    if words is not None:
        value = given(option, words)
    if value is not MISSING:
        origin = "command line"
    else:
        value = option.default
    return AbstractValue(value=value, origin=origin, option=True)  # type: ignore[arg-type]


def _words(frame: ScopeState) -> Sequence[str] | None:
    return frame.module.words


def _parsed_class(frame: ScopeState, thing: AbstractValue) -> AbstractValue:
    klass = thing.definition if isinstance(thing.definition, ClassSymbol) else thing.klass
    if klass is None:
        return AbstractValue(type=thing.ref, option=True) if thing.ref else AbstractValue(option=True)
    values: dict[str, AbstractValue] = {}
    for name, default in klass.all_fields().items():
        values[name] = _field(frame, name, default)
        frame.module.arguments[name] = value_of(values[name], name)
    return AbstractValue(type=klass.kind, klass=klass, attrs=values, option=True)


def _field(frame: ScopeState, name: str, default: AbstractValue) -> AbstractValue:
    words = _words(frame)
    if words is None:
        return default
    kind = type(default.value) if default.known and default.value is not None else None
    option = Option(
        name=name,
        flag=f"--{name}",
        flags=(f"--{name}", f"--{name.replace('_', '-')}"),
        kind=kind,
        text=name,
        switch=True if kind is bool else None,
    )
    value = given(option, words)
    if value is MISSING:
        return default
    return AbstractValue(value=value, origin="command line", option=True)  # type: ignore[arg-type]


def field_default(program: SourceInterpreter, frame: ScopeState, node: ast.expr) -> AbstractValue:
    """The default of a dataclass field: a plain value, or `field(default=...)`, `Field(4)`."""
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in (
        "field",
        "Field",
        "mutable",
        "HfArg",
        "Factory",
    ):
        for keyword in node.keywords:
            if keyword.arg == "default":
                return program.peek(frame, keyword.value)
            if keyword.arg == "default_factory":
                made = program.peek(frame, keyword.value)
                if isinstance(made.definition, Function) and isinstance(made.definition.node, ast.Lambda):
                    return program.peek(frame, made.definition.node.body)
                if isinstance(made.definition, ClassSymbol):
                    return AbstractValue(
                        type=made.definition.kind, klass=made.definition, attrs=made.definition.all_fields() or None
                    )
                return NOTHING
        return program.peek(frame, node.args[0]) if node.args else NOTHING
    return program.peek(frame, node)


def decorate(program: SourceInterpreter, frame: ScopeState, function: Function, decorator: ast.expr, ref: str) -> None:
    """Options that a decorator gives a function's parameters: click, typer, hydra."""
    last = ref.rpartition(".")[2]
    if last == "option" and isinstance(decorator, ast.Call):
        args = [program.peek(frame, arg) for arg in decorator.args]
        keywords = {k.arg: program.peek(frame, k.value) for k in decorator.keywords if k.arg is not None}
        option = read_option(decorator, args, keywords)
        if option is not None:
            thing = _option_thing(frame, option)
            function.options[option.name] = thing
            frame.module.arguments[option.name] = value_of(thing, option.text)
    elif last == "command" or ref in ("typer.run",):
        _typer(program, frame, function)
    elif ref in ("hydra.main", "pyrallis.wrap", "draccus.wrap", "tyro.conf.configure", "main") and "." in ref:
        args_ = function.node.args.args
        if args_:
            annotation = args_[0].annotation
            made = program.annotation(frame, annotation) if annotation is not None else NOTHING
            if made.klass is not None and ref != "hydra.main":  # its files set the fields, and are not resolved
                made = _parsed_class(frame, made)
            function.options[args_[0].arg] = made.replace(option=True)


def _typer(program: SourceInterpreter, frame: ScopeState, function: Function) -> None:
    spec = function.node.args
    plain = spec.posonlyargs + spec.args
    pairs = list(zip(plain[len(plain) - len(spec.defaults) :], spec.defaults, strict=True))
    pairs += [(a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None]
    for arg, default in pairs:
        if arg.arg in function.options:
            continue
        thing = program.peek(frame, default)
        flags = [f"--{arg.arg.replace('_', '-')}", f"--{arg.arg}"]
        if isinstance(default, ast.Call) and dotted(default.func).rpartition(".")[2] in ("Option", "Argument"):
            thing = program.peek(frame, default.args[0]) if default.args else NOTHING
            for keyword in default.keywords:
                if keyword.arg == "default":
                    thing = program.peek(frame, keyword.value)
            given_flags = [
                a.value for a in default.args[1:] if isinstance(a, ast.Constant) and isinstance(a.value, str)
            ]
            flags = given_flags or flags
        kind = type(thing.value) if thing.known and thing.value is not None else None
        option = Option(
            name=arg.arg,
            flag=flags[0],
            flags=tuple(flags),
            kind=kind,
            text=arg.arg,
            default=thing.value,
            switch=True if kind is bool else None,
        )
        function.options[arg.arg] = _option_thing(frame, option)
        frame.module.arguments[arg.arg] = value_of(function.options[arg.arg], arg.arg)


def run_targets(
    program: SourceInterpreter,
    frame: ScopeState,
    name: str,
    args: list[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> None:
    """Functions that a library call runs: in other processes (`mp.spawn(worker, args=(...))`), or as commands.

    Commands are those of `fire.Fire(main)`, `typer.run(main)` and absl's `app.run(main)`.
    """
    first = args[0] if args else NOTHING
    if name.endswith(("multiprocessing.spawn", ".Process", "xla_multiprocessing.spawn", ".start_processes")):
        target = keywords.get("target") or keywords.get("fn") or first
        given = keywords.get("args") or (args[1] if len(args) > 1 else NOTHING)
        if isinstance(target.definition, Function):
            rank = [] if name.endswith(".Process") else [AbstractValue(type="rank", option=True)]
            program.invoke(target.definition, [*rank, *(given.items or ())], {}, given.items is None)
    elif not isinstance(first.definition, Function):
        return
    elif name.endswith(("notebook_launcher", "debug_launcher")):
        given = keywords.get("args") or (args[1] if len(args) > 1 else NOTHING)
        program.invoke(first.definition, list(given.items or ()), {}, given.items is None)
    elif name in ("fire.Fire", "typer.run", "fire.Fire.Fire", "defopt.run", "jsonargparse.CLI", "clize.run"):
        _typer(program, frame, first.definition)
        program.invoke(first.definition, [], {})
    elif name == "absl.app.run":
        program.invoke(first.definition, [], {}, True)


def _override(frame: ScopeState) -> None:
    """`exec(open("configurator.py").read())` at the top: `--name=value` words overwrite module constants."""
    for word in frame.module.words or ():
        name, equals, text = word.removeprefix("--").partition("=")
        held = frame.names.get(name)
        if equals and word.startswith("--") and held is not None and held.known:
            kind = type(held.value) if held.value is not None else None
            value = word_value(text, kind)
            frame.bind(name, AbstractValue(value=value, origin="command line"))  # type: ignore[arg-type]


def _flag(frame: ScopeState, name: str, default: AbstractValue, kind: type) -> None:
    option = Option(
        name=name,
        flag=f"--{name}",
        flags=(f"--{name}",),
        kind=kind,
        text=name,
        default=default.value,
        switch=True if kind is bool else None,
    )
    thing = _option_thing(frame, option)
    frame.module.arguments[name] = value_of(thing, name)
    held = frame.look("FLAGS")
    attrs = dict(held.attrs or {}) if held is not None else {}
    attrs[name] = thing
    frame.bind("FLAGS", AbstractValue(type="argparse.Namespace", attrs=attrs, option=True))
