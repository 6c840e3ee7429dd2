"""LOOP005 deprecated-api."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain

from gpudoctor.analysis.source.control_flow import enclosing, function_of, holds, may_run, never_reached, never_runs
from gpudoctor.analysis.source.syntax import is_attribute, nodes
from gpudoctor.analysis.source.syntax_places import lines_at, resolved_calls
from gpudoctor.analysis.source.target_versions import Meant, asks_for, is_dated, meant_version, told_version
from gpudoctor.analysis.source.trainer_periods import HF_CONFIGS
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    Patient,
    Reads,
    Severity,
    SourceSpan,
    Unavailable,
)
from gpudoctor.model.signs.source import Call, GuardKind, Known, Script, Source

Entry = Mapping[str, str | bool | int]
_SIDES = re.compile(r"\b(zeros|ones|full|Tensor|tensor|Variable|view|reshape|unsqueeze|keepdim|keepdims)\b")

_PACKAGES = (
    "torch.", "functorch.", "transformers.", "lightning.", "torchvision.", "numpy.", "pandas.", "scipy.",
    "sklearn.",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    entry: Entry
    what: str
    spans: tuple[SourceSpan, ...]
    """Without the places that nothing uses, if there are others."""
    runs: bool = True
    """Whether any of it may run, as far as names tell."""
    chosen: bool = False
    """Whether all of it stands behind conditions that the source does not decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeprecatedApiDetail(Detail):
    """What the rule reads."""

    what: str
    """The old name."""
    replacement: str
    rename: str
    """The function's new name."""
    first_argument: str
    """What the new one takes first."""
    keyword: str
    """A keyword to set."""
    keyword_value: str
    drop: str
    """A keyword to drop."""
    add: str
    """A keyword to add."""
    value: str
    """Its value."""
    source: str
    """The page that says so."""


class DeprecatedApi(Check):
    """The script calls functions of torch and its companions that newer releases removed, or are about to.

    What it finds:
        - Calls, arguments and imports of torch that were removed or deprecated, from a table with the release
          of each.
        - `torch.cuda.amp.autocast`, `torch.cuda.memory_cached`, `torch.symeig`
        - `verbose=` of learning-rate schedulers, `torch._six`, `size_average=`
        - `torch.stft` without `return_complex`
        - `torch.distributed.launch` in a job script
        - Of transformers its own `AdamW` and `optim="adamw_hf"`.
        - Of Lightning `gpus=`, `resume_from_checkpoint=` and other former arguments of its Trainer.

        Also `iter(loader).next()`, and `loss.data[0]` of a scalar loss. Of numpy, pandas, torchvision, scipy
        and scikit-learn the removed names that scripts use most: `np.float`, `DataFrame.append`,
        `transforms.Scale`, `scipy.misc.imread`.
    Why it hurts:
        A removed call raises when it is reached, which may be hours into a run. A deprecated one warns, often
        on every step, and fails after some later upgrade.
    How it knows:
        Names are resolved through imports and aliases, and compared with the installed torch. Removed there is
        an error. Deprecated or without effect there is a note. A later removal is silent. If the package is not
        installed, a removal is a note. It is a warning if the project asks for it without a bound. If the
        project's own files exclude the installed torch, gpudoctor compares with the newest release that they
        admit. It then reports no error. Behind a condition that the source does not decide, an error is a
        warning. Code that nothing uses is a note: a function that is never named, a class that is only
        registered. A README that names an older release makes an error a note. So does an import that only an
        older release has, for what that release has too. What other packages removed is a note in a project
        that uses an older torch. A project that carries a package itself (`src/transformers`,
        `third_party/peft`) settles its version.
    False alarms:
        Code behind a version test that never runs with this torch.
    Remedies:
        Use the replacement that torch names; it comes as an edit if it is a plain renaming.
    References:
        - deprecated_apis.json beside this check: each row has its source
        - https://github.com/pytorch-labs/torchfix
        - https://github.com/pytorch/pytorch/releases
    """

    code = Code("LOOP005")
    name = "deprecated-api"
    reads = frozenset({Reads.SOURCE, Reads.ENVIRONMENT})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for script in patient.source.scripts:
            for use in _uses(patient.source, script):
                package = str(use.entry.get("package", "torch"))
                yield from self._finding(patient, use, package, script.path)
        yield from self._launchers(patient)

    def _launchers(self, patient: Patient) -> Iterator[Finding]:
        try:
            job = patient.job
        except Unavailable:
            return
        for entry in table()["launchers"]:
            for launch in job.launches:
                if str(entry["module"]) in launch.text and launch.path and launch.line:
                    span = SourceSpan(path=launch.path, line=launch.line, text=launch.text)
                    use = _Use(entry=entry, what=str(entry["module"]), spans=(span,))
                    yield from self._finding(patient, use, "torch", launch.path)

    def _finding(self, patient: Patient, use: _Use, package: str, path: str) -> Iterator[Finding]:
        meant = meant_version(patient, package, path)
        version = meant.version
        back = use.entry.get("back")
        if back is not None and (version is None or _reaches(version, str(back))):
            return
        since = str(use.entry["since"])
        removed = str(use.entry["removed"]) if "removed" in use.entry else None
        if version is not None and not _reaches(version, since):
            return
        gone = removed is not None and version is not None and _reaches(version, removed)
        told = told_version(patient, package, path) if gone else None
        if told is not None and told.outgrown is not None and told.outgrown.name == use.what:
            told = None  # the import that tells the version fails by itself
        there = removed is not None and _has(told, removed)
        if removed is not None and package not in ("torch", "transformers") and is_dated(patient, path):
            there = True
        fails = gone and meant.installed and not there
        # Without a version, a project that installs the package without a bound gets the newest one.
        newest = version is None and asks_for(patient, package, path)
        unsure = not there and (gone or (removed is not None and newest))
        if not use.runs:
            fails = unsure = False
        if fails and use.chosen:
            fails, unsure = False, True
        severity = Severity.ERROR if fails else Severity.WARNING if unsure else Severity.NOTE
        if "ignored" in use.entry:
            state = say("has no effect since {package} {ignored}", package=package, ignored=use.entry["ignored"])
        elif gone:
            older = told if there else None
            origin = (
                say("{first}; {second}", first=meant.origin, second=older.origin) if older is not None else meant.origin
            )
            state = say(
                "was removed in {package} {removed} ({origin})", package=package, removed=removed, origin=origin
            )
        elif removed:
            state = say(
                "is deprecated since {package} {since} and removed in {removed}",
                package=package,
                since=since,
                removed=removed,
            )
        else:
            state = say("is deprecated since {package} {since}", package=package, since=since)

        def entry(name: str) -> str:
            return str(use.entry.get(name, ""))

        where = lines_at(use.spans)
        yield self.finding(
            say("{use_what} {state}; {lines_at}.", use_what=use.what, state=state, lines_at=where)
            if use.runs
            else say(
                "{use_what} {state}; {lines_at}. Nothing that was read uses this code.",
                use_what=use.what,
                state=state,
                lines_at=where,
            ),
            evidence=use.spans[:8],
            confidence=Confidence.SUSPECTED,
            severity=severity,
            cost=Cost(breaks=say("{use_what} fails with the installed {package}", use_what=use.what, package=package))
            if fails
            else None,
            subject=f"{path}:{min(span.line for span in use.spans)} {use.what}",
            detail=DeprecatedApiDetail(
                what=use.what,
                replacement=entry("replacement"),
                rename=entry("rename"),
                first_argument=entry("first_argument"),
                keyword=entry("keyword") if entry("keyword_value") else "",
                keyword_value=entry("keyword_value"),
                drop=entry("keyword") if entry("drop") else "",
                add=entry("keyword") if entry("value") else "",
                value=entry("value"),
                source=entry("source"),
            ),
        )


@cache
def table() -> Mapping[str, tuple[Entry, ...]]:
    """The table of removed and deprecated names, by kind."""
    text = files(__package__).joinpath("deprecated_apis.json").read_text(encoding="utf-8")
    return {kind: tuple(rows) for kind, rows in json.loads(text).items() if kind != "about"}


@cache
def _by_name() -> Mapping[str, Entry]:
    return {str(row["name"]): row for row in table()["calls"] if not row.get("prefix")}


@cache
def _prefixes() -> tuple[Entry, ...]:
    return tuple(row for row in table()["calls"] if row.get("prefix"))


def _uses(source: Source, script: Script) -> Iterator[_Use]:
    found: dict[str, tuple[Entry, list[SourceSpan]]] = {}
    every = (
        *(_calls(source, script), _imports(script), _decorators(script), _scalars(script)),
        *(_attributes(source, script), _methods(source, script)),
    )
    for what, entry, span in chain.from_iterable(every):
        spans = found.setdefault(what, (entry, []))[1]
        if span not in spans:
            spans.append(span)
    calls = {call.span: call for call in script.calls} if found else {}
    for what, (entry, spans) in found.items():
        run = tuple(span for span in spans if may_run(source, span))
        chosen = all(span in calls and not all(map(holds, calls[span].guards)) for span in spans)
        yield _Use(entry=entry, what=what, spans=run or tuple(spans), runs=bool(run), chosen=chosen)


def _calls(source: Source, script: Script) -> Iterator[tuple[str, Entry, SourceSpan]]:
    names = _by_name()
    for call in script.calls:
        if not call.name.startswith(_PACKAGES) and call.method not in HF_CONFIGS:
            continue
        if _knows(call) or never_runs(source, call):
            continue
        for row in table()["values"]:
            value = call.keywords.get(str(row["keyword"])) if call.method in HF_CONFIGS else None
            if isinstance(value, Known) and value.value == row["value_was"]:
                yield f'{row["keyword"]}="{row["value_was"]}"', row, call.span
        if not call.name.startswith(_PACKAGES):
            continue
        if call.name in names and call.receiver_class is None:
            row = names[call.name]
            yield str(row.get("what", f"{call.name}()")), row, call.span
        for row in _prefixes():
            if call.name == row["name"] or call.name.startswith(f"{row['name']}."):
                yield str(row["name"]), row, call.span
        for row in table()["arguments"]:
            if _matches(call, row) and _passed(call, str(row["keyword"])):
                yield say("{keyword}= of {call}", keyword=row["keyword"], call=call.name), row, call.span
        for row in table()["missing"]:
            if call.name == row["call"] and call.argument(str(row["keyword"])) is None:
                yield f"{call.name}() without {row['keyword']}", row, call.span


def _attributes(source: Source, script: Script) -> Iterator[tuple[str, Entry, SourceSpan]]:
    """Names that are used without a call: `x.astype(np.bool)`."""
    rows = {str(row["name"]): row for row in table()["attributes"]}
    roots = {local: name for local, name in script.imports.items() if name == "numpy"}
    for node in nodes(script, ast.Attribute) if roots else ():
        held = node.value
        name = f"{roots.get(held.id, '')}.{node.attr}" if isinstance(held, ast.Name) else ""
        if name in rows and isinstance(node.ctx, ast.Load) and not _is_guarded(source, script, node):
            yield name, rows[name], script.span(node)


def _is_guarded(source: Source, script: Script, node: ast.AST) -> bool:
    """Whether a node stands in a try or under a test of versions, or in a call or function that never runs."""
    calls = resolved_calls(script)
    above = (calls[item] for item in enclosing(script, node) if isinstance(item, ast.Call) and item in calls)
    call = next(above, None)
    if _tests_version(script, node) or never_reached(source, script, node):
        return True
    return call is not None and (_knows(call) or never_runs(source, call))


def _methods(source: Source, script: Script) -> Iterator[tuple[str, Entry, SourceSpan]]:
    """Methods told by their arguments: no other object has an `append` with `ignore_index`."""
    roots = {name.partition(".")[0] for name in script.imports.values()}
    rows = {str(row["method"]): row for row in table()["methods"] if row["imports"] in roots}
    for call in script.calls if rows else ():
        row = rows.get(call.method)
        if row is None or not isinstance(call.node.func, ast.Attribute) or call.receiver_class is not None:
            continue
        given = str(row["keyword"]) in call.keywords if "keyword" in row else _places(call) == row["positional"]
        if given and not _knows(call) and not never_runs(source, call):
            yield str(row["what"]), row, call.span


def _places(call: Call) -> int:
    """Arguments that a call gives by place; -1 where `*` hides how many."""
    return -1 if any(isinstance(item, ast.Starred) for item in call.node.args) else len(call.node.args)


def _scalars(script: Script) -> Iterator[tuple[str, Entry, SourceSpan]]:
    """`loss.data[0]` of what `loss.backward()` is called on: a tensor without sides has no first element."""
    if ".data[0]" not in script.text:
        return
    backward = {
        (function_of(script, call.node), call.receiver)
        for call in script.calls
        if call.method == "backward" and not call.node.args and not call.node.keywords
    }
    for node in nodes(script, ast.Subscript):
        held = node.value.value if is_attribute(node.value, "data") else None
        if not isinstance(held, ast.Name) or ast.unparse(node.slice) != "0" or _tests_version(script, node):
            continue
        inside = function_of(script, node)
        if (inside, held.id) in backward and not _has_sides(script, inside, held.id):
            yield (
                say("Indexing a loss ({expression})", expression=ast.unparse(node)),
                table()["scalars"][0],
                script.span(node),
            )


def _has_sides(script: Script, function: ast.AST | None, name: str) -> bool:
    """Whether a name may hold a tensor of one element with a side: `loss = torch.zeros(1)`."""
    given = [
        item.value
        for item in nodes(script, ast.Assign)
        if name in {ast.unparse(target) for target in item.targets} and function_of(script, item) is function
    ]
    return not given or any(_SIDES.search(ast.unparse(value)) for value in given)


def _tests_version(script: Script, node: ast.AST) -> bool:
    """Whether a node stands in a try, or under a test of what torch is or has."""
    outer = list(enclosing(script, node))
    tests = [ast.unparse(item.test).lower() for item in outer if isinstance(item, ast.If | ast.IfExp)]
    return any(isinstance(item, ast.Try) for item in outer) or any(
        word in test for test in tests for word in ("version", "hasattr", "dim", "shape", "size")
    )


def _knows(call: Call) -> bool:
    """Whether the call stands behind a test of the version or of what torch has, or in a handler."""
    return any(
        guard.kind is GuardKind.FAILURE or "version" in guard.text.lower() or "hasattr" in guard.text
        for guard in call.guards
    )


def _matches(call: Call, row: Entry) -> bool:
    name = str(row["call"])
    if not row.get("prefix"):
        return call.name == name
    return call.name.startswith(name) and call.method.endswith(str(row.get("suffix", "")))


def _passed(call: Call, keyword: str) -> bool:
    value = call.keywords.get(keyword)
    return value is not None and not (isinstance(value, Known) and value.value is None)


def _imports(script: Script) -> Iterator[tuple[str, Entry, SourceSpan]]:
    """Imports of removed modules fail by themselves, used or not."""
    text = script.text
    for row in _prefixes():
        name = str(row["name"])
        if not all(part in text for part in name.split(".")):
            continue
        for node in nodes(script, ast.Import, ast.ImportFrom):
            modules = []
            if isinstance(node, ast.Import):
                modules = [item.name for item in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
            taken = any(module == name or module.startswith(name + ".") for module in modules)
            if taken and not _tried(script, node):
                yield name, row, script.span(node)


def _tried(script: Script, node: ast.AST) -> bool:
    """Whether an import stands in a try or an if: the script knows that it may fail."""
    return any(isinstance(outer, ast.Try | ast.If) for outer in enclosing(script, node))


def _decorators(script: Script) -> Iterator[tuple[str, Entry, SourceSpan]]:
    """Decorators without parentheses are no calls: `@torch.cuda.amp.custom_fwd`."""
    names = _by_name()
    todo: list[ast.stmt] = list(script.tree.body)
    while todo:
        node = todo.pop()
        for field in ("body", "orelse", "finalbody"):
            todo += getattr(node, field, [])
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Name | ast.Attribute):
                first, _, rest = ast.unparse(decorator).partition(".")
                name = script.imports.get(first, first) + (f".{rest}" if rest else "")
                if name in names:
                    yield f"{name}()", names[name], script.span(decorator)


def _has(told: Meant | None, removed: str) -> bool:
    """Whether the release that a README names still has what another has removed."""
    return told is not None and told.version is not None and not _reaches(told.version, removed)


def _reaches(version: str, floor: str) -> bool:
    """Whether a release is at or above another, by its leading numbers: `2.13.0a0+git` reaches `2.13`."""
    return _numbers(version) >= _numbers(floor)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in found.group().split(".")] if found else []
    return tuple([*parts, 0, 0, 0][:3])
