"""LOOP005 deprecated-api."""

import ast
from collections.abc import Iterator
from itertools import chain

from gpudoctor.analysis.source.control_flow import enclosing, holds, may_run, never_reached, never_runs
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_places import lines_at, resolved_calls
from gpudoctor.analysis.source.target_versions import asks_for, is_dated, meant_version, told_version
from gpudoctor.analysis.source.trainer_periods import HF_CONFIGS
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, GuardKind, Known, Script, Source
from gpudoctor_checks.api_facts import ApiFact, facts, reached

_Place = tuple[str, ApiFact, SourceSpan]
"""What a message calls it, its row, and where it stands."""


@frozen
class _Use:
    row: ApiFact
    what: str
    spans: tuple[SourceSpan, ...]
    """Without the places that nothing uses, if there are others."""
    runs: bool = True
    """Whether any of it may run, as far as names tell."""
    chosen: bool = False
    """Whether all of it stands behind conditions that the source does not decide."""


class DeprecatedApi(Check):
    """The script calls functions of torch and its companions that newer releases removed, or are about to.

    What it finds:
        - Calls, arguments and imports of torch that were removed or deprecated, from a table with the release
          of each.
        - `torch.cuda.amp.autocast`, `torch.cuda.memory_cached`, `torch.symeig`
        - `verbose=` of learning-rate schedulers, `torch._six`, `size_average=`
        - `torch.stft` without `return_complex`
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
        - api_facts.json of the checks: each row has its source
    """

    code = "LOOP005"
    reads = frozenset({Reads.SOURCE, Reads.ENVIRONMENT})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        for script in patient.source.scripts:
            for use in _uses(patient.source, script):
                yield from self._finding(patient, use, script.path)

    def _finding(self, patient: Patient, use: _Use, path: str) -> Iterator[Finding]:
        row, package, what = use.row, use.row.package, use.what
        meant = meant_version(patient, package, path)
        version = meant.version
        if row.back and (version is None or reached(version, row.back)):
            return
        if version is not None and not reached(version, row.since):
            return
        gone = reached(version, row.gone)
        told = told_version(patient, package, path) if gone else None
        # Whether the release that a README names, or that goes with the project's older torch, still has it.
        there = told is not None and told.version is not None and not reached(told.version, row.gone)
        if row.gone and package not in ("torch", "transformers") and is_dated(patient, path):
            there = True
        # Without a version, a project that installs the package without a bound gets the newest one.
        newest = version is None and bool(row.gone) and asks_for(patient, package, path)
        fails = use.runs and not there and gone and meant.installed and not use.chosen
        unsure = use.runs and not there and (gone or newest)
        severity = Severity.ERROR if fails else Severity.WARNING if unsure else Severity.NOTE
        if row.ignored:
            state = say("has no effect since {package} {ignored}", package=package, ignored=row.ignored)
        elif gone:
            origin = meant.origin
            if there and told is not None:
                origin = say("{first}; {second}", first=origin, second=told.origin)
            state = say(
                "was removed in {package} {removed} ({origin})", package=package, removed=row.gone, origin=origin
            )
        elif row.gone:
            state = template("is deprecated since {package} {since} and removed in {removed}")
            state = say(state, package=package, since=row.since, removed=row.gone)
        else:
            state = say("is deprecated since {package} {since}", package=package, since=row.since)
        used = template("{use_what} {state}; {lines_at}.")
        unused = template("{use_what} {state}; {lines_at}. Nothing that was read uses this code.")
        breaks = say("{use_what} fails with the installed {package}", use_what=what, package=package)
        yield self.finding(
            say(used if use.runs else unused, use_what=what, state=state, lines_at=lines_at(use.spans)),
            evidence=use.spans[:8],
            severity=severity,
            breaks=breaks if fails else None,
            subject=f"{path}:{min(span.line for span in use.spans)} {what}",
            detail=Facts(what=what, row=row),
        )


def _uses(source: Source, script: Script) -> Iterator[_Use]:
    found: dict[str, tuple[ApiFact, list[SourceSpan]]] = {}
    every = (_calls(source, script), _imports(script), _attributes(source, script), _methods(source, script))
    for what, row, span in chain.from_iterable(every):
        spans = found.setdefault(what, (row, []))[1]
        if span not in spans:
            spans.append(span)
    calls = {call.span: call for call in script.calls} if found else {}
    for what, (row, spans) in found.items():
        run = tuple(span for span in spans if may_run(source, span))
        chosen = all(span in calls and not all(map(holds, calls[span].guards)) for span in spans)
        yield _Use(row=row, what=what, spans=run or tuple(spans), runs=bool(run), chosen=chosen)


def _calls(source: Source, script: Script) -> Iterator[_Place]:
    named = {row.name: row for row in facts("calls") if not row.prefix}
    begun = [row for row in facts("calls") if row.prefix]
    names = (*named, *(row.name for row in (*begun, *facts("arguments"), *facts("missing"))))
    for call in script.calls:
        config, ours = call.method in HF_CONFIGS, call.name.startswith(names)
        if not (config or ours) or _knows(call) or never_runs(source, call):
            continue
        for row in facts("values") if config else ():
            value = call.keywords.get(row.keyword)
            if isinstance(value, Known) and value.value == row.value:
                yield f'{row.keyword}="{row.value}"', row, call.span
        if ours and call.name in named and call.receiver_class is None:
            yield named[call.name].what or f"{call.name}()", named[call.name], call.span
        for row in begun if ours else ():
            if row.names(call.name):
                yield row.name, row, call.span
        for row in facts("arguments") if ours else ():
            value = call.keywords.get(row.keyword)
            none = value is None or (isinstance(value, Known) and value.value is None)
            begins = call.name.startswith(row.name) and call.method.endswith(row.suffix)
            if not none and (begins if row.prefix else call.name == row.name):
                yield say("{keyword}= of {call}", keyword=row.keyword, call=call.name), row, call.span
        for row in facts("missing") if ours else ():
            if call.name == row.name and call.argument(row.keyword) is None:
                yield f"{call.name}() without {row.keyword}", row, call.span


def _imports(script: Script) -> Iterator[_Place]:
    """Imports of removed modules fail by themselves, used or not; in a try or an if the script knows it."""
    for row in facts("calls"):
        if not row.prefix or not all(part in script.text for part in row.name.split(".")):
            continue
        for node in nodes(script, ast.Import, ast.ImportFrom):
            modules = []
            if isinstance(node, ast.Import):
                modules = [item.name for item in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
            tried = any(isinstance(outer, ast.Try | ast.If) for outer in enclosing(script, node))
            if any(map(row.names, modules)) and not tried:
                yield row.name, row, script.span(node)


def _attributes(source: Source, script: Script) -> Iterator[_Place]:
    """Names that are used without a call: `x.astype(np.bool)`."""
    rows = {row.name: row for row in facts("attributes")}
    roots = {local: name for local, name in script.imports.items() if name == "numpy"}
    calls = resolved_calls(script) if roots else {}
    for node in nodes(script, ast.Attribute) if roots else ():
        held = node.value
        name = f"{roots.get(held.id, '')}.{node.attr}" if isinstance(held, ast.Name) else ""
        if name not in rows or not isinstance(node.ctx, ast.Load) or _tests_version(script, node):
            continue
        above = (calls[item] for item in enclosing(script, node) if isinstance(item, ast.Call) and item in calls)
        call = next(above, None)
        guarded = call is not None and (_knows(call) or never_runs(source, call))
        if not guarded and not never_reached(source, script, node):
            yield name, rows[name], script.span(node)


def _methods(source: Source, script: Script) -> Iterator[_Place]:
    """Methods told by their arguments: no other object has an `append` with `ignore_index`."""
    roots = {name.partition(".")[0] for name in script.imports.values()}
    rows = {row.name: row for row in facts("methods") if row.imports in roots}
    for call in script.calls if rows else ():
        row = rows.get(call.method)
        if row is None or not isinstance(call.node.func, ast.Attribute) or call.receiver_class is not None:
            continue
        starred = any(isinstance(item, ast.Starred) for item in call.node.args)
        placed = not starred and len(call.node.args) == row.positional
        given = row.keyword in call.keywords if row.keyword else placed
        if given and not _knows(call) and not never_runs(source, call):
            yield row.what, row, call.span


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
