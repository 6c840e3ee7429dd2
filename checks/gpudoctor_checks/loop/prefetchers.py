"""Hand-written prefetch loaders: classes that copy the next batch to the device on a stream of their own."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.syntax import is_name, nodes, segment
from gpudoctor.model.signs.source import Script, Source

_FETCHES = re.compile(r"pre_?load|pre_?fetch|fetch_next|load_next|_fetch|advance", re.IGNORECASE)
_DEFINED = re.compile(rf"(def|class)\s+\w*({_FETCHES.pattern})", re.IGNORECASE)
_CONSUMES = ("next", "__next__", "__iter__", "get_next", "next_batch", "get_batch")
_WAITS = re.compile(r"wait_stream|wait_event|synchronize\(|\.wait\(")

Method = ast.FunctionDef


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prefetcher:
    """One such class."""

    script: Script
    node: ast.ClassDef
    methods: dict[str, Method] = field(default_factory=dict)
    text: str
    """The class as source."""

    @property
    def fetchers(self) -> Iterator[Method]:
        """Methods that take the next batch from the loader and keep it."""
        for name, method in self.methods.items():
            if name in {*_CONSUMES, "__init__"}:
                continue
            draws = any(isinstance(part, ast.Call) and _name(part) == "next" for part in ast.walk(method))
            if kept(method) and (draws or _FETCHES.search(name)):
                yield method

    @property
    def loaders(self) -> Iterator[Method]:
        """The fetchers, and methods named so that copy what they are given and keep nothing."""
        known = tuple(self.fetchers)
        yield from known
        for name, method in self.methods.items():
            if name not in {*_CONSUMES, "__init__"} and method not in known and _FETCHES.search(name):
                yield method

    @property
    def consumers(self) -> Iterator[Method]:
        """Methods that hand batches to the training loop."""
        for name in _CONSUMES:
            if name in self.methods:
                yield self.methods[name]

    @property
    def streams(self) -> tuple[str, ...]:
        """Attributes that hold its streams, `self.stream`."""
        found = []
        for part in ast.walk(self.node):
            made = part.value if isinstance(part, ast.Assign) else None
            if (
                isinstance(part, ast.Assign)
                and isinstance(made, ast.Call)
                and ast.unparse(made.func).endswith("cuda.Stream")
            ):
                found += [ast.unparse(target) for target in part.targets]
        return tuple(found)

    @property
    def copies_aside(self) -> bool:
        """Whether it starts asynchronous copies on its stream."""
        for part in ast.walk(self.node):
            if isinstance(part, ast.With) and any("stream(" in ast.unparse(item) for item in part.items):
                body = "\n".join(ast.unparse(item) for item in part.body)
                if re.search(r"\.(cuda|to)\(", body) and "non_blocking=True" in body:
                    return True
        return False

    @property
    def waits(self) -> bool:
        """Whether anything in it waits for its copies."""
        return bool(_WAITS.search(self.text))

    @property
    def keeps_memory(self) -> bool:
        """Whether the allocator is told who uses the copies, or the stream waits for the users."""
        own = any(
            f"{stream}.wait_stream(" in self.text or f"{stream}.synchronize(" in self.text for stream in self.streams
        )
        return "record_stream" in self.text or own or self._hands_out_inside

    @property
    def _hands_out_inside(self) -> bool:
        """Whether a generator yields inside of its stream's block: then its consumer works on that stream."""
        return any(
            isinstance(inner, ast.Yield)
            for part in ast.walk(self.node)
            if isinstance(part, ast.With) and any("stream(" in ast.unparse(item) for item in part.items)
            for inner in ast.walk(part)
        )


def prefetchers(source: Source) -> Iterator[Prefetcher]:
    """Every prefetch loader that the program defines."""
    for script in source.scripts:
        yield from _of_script(script)


@once
def _of_script(script: Script) -> tuple[Prefetcher, ...]:
    if "tream(" not in script.text and not _DEFINED.search(script.text):
        return ()
    found = []
    for node in nodes(script, ast.ClassDef):
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        if any(name in methods for name in _CONSUMES):
            one = Prefetcher(script=script, node=node, methods=methods, text=ast.unparse(node))
            named = _FETCHES.search(node.name) or any(_FETCHES.search(name) for name in methods)
            if one.streams or named:
                found.append(one)
    return tuple(found)


def waited_elsewhere(source: Source, one: Prefetcher) -> bool:
    """Whether the program waits for a stream outside of the class."""
    return any(_WAITS.search(script.text.replace(segment(script, one.node), "")) for script in source.scripts)


def kept(method: Method) -> tuple[str, ...]:
    """Attributes that a method stores batches in: `self.next_batch`; constants are none."""
    found: list[str] = []
    for part in ast.walk(method):
        if isinstance(part, ast.Assign) and not isinstance(part.value, ast.Constant):
            for target in part.targets:
                items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                found += [ast.unparse(item) for item in items if _of_self(item)]
    return tuple(dict.fromkeys(found))


def changed(method: Method) -> tuple[str, ...]:
    """Parameters that a method gives a new value and cannot hand back otherwise."""
    given = {item.arg for item in method.args.args} - {"self"}
    return tuple(
        dict.fromkeys(
            part.id
            for part in ast.walk(method)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id in given
        )
    )


def calls_of(node: ast.AST, method: str) -> list[ast.Call]:
    """Calls of one of the object's own methods."""
    return [
        part for part in ast.walk(node) if isinstance(part, ast.Call) and ast.unparse(part.func) == f"self.{method}"
    ]


def _of_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and is_name(node.value, "self")


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""
