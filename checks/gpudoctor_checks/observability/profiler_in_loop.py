"""OBS001: a profiler or FLOPs counter stays active while the model trains."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Evidence,
    Finding,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Severity,
    SourceSpan,
    Threshold,
    Unavailable,
)
from gpudoctor.model.signs.configs import ConfigFile, Configs, Meaning
from gpudoctor.model.signs.program import (
    bound,
    bound_to,
    enclosing,
    passes_between,
    steady,
    switched_off,
    trains_within,
    withs_of,
)
from gpudoctor.model.signs.source import Call, Event, Known, Loop, Script, Source, Unknown

PROFILERS = {
    "torch": {"profile", "_KinetoProfile"},
    "cProfile": {"Profile"},
    "line_profiler": {"LineProfiler"},
}
"""Package and last part of the name of profilers that record every operation or call."""

COUNTERS = {
    "fvcore": {"FlopCountAnalysis", "flop_count", "ActivationCountAnalysis", "flop_count_table"},
    "thop": {"profile"},
    "ptflops": {"get_model_complexity_info"},
    "torch": {"FlopCounterMode"},
    "calflops": {"calculate_flops", "calculate_flops_hf"},
    "deepspeed": {"FlopsProfiler", "get_model_profile"},
    "torchinfo": {"summary"},
    "torchsummary": {"summary"},
    "torchsummaryX": {"summary"},
    "torchstat": {"stat"},
    "torchprofile": {"profile_macs"},
    "pthflops": {"count_ops"},
    "flopth": {"flopth"},
}
"""Package and last part of the name of FLOPs counters: each runs the model once more, hooked or traced."""

STARTS = {"start", "__enter__", "start_profile", "enable"}
STOPS = {"stop", "__exit__", "stop_profile", "end_profile", "disable"}

LIGHTNING = {"lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer"}
LIGHTNING_PROFILERS = {"pytorch", "advanced", "PyTorchProfiler", "AdvancedProfiler"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """A call that makes or runs a profiler or counter."""

    script: Script
    call: Call
    counts: bool
    """True for a FLOPs counter."""


class ProfilerInLoop(Check):
    """A profiler or a FLOPs counter stays active in steady state.

    What it finds:
        `torch.profiler.profile` (or the older autograd profiler, `cProfile`) entered on each training step,
        or left open around the whole training loop: without a schedule, or with one that repeats for ever.
        FLOPs counters (fvcore, thop, ptflops, calflops, `FlopCounterMode`, DeepSpeed's `FlopsProfiler`) that
        run on each step or more often than every 500 steps. Lightning's `profiler="pytorch"|"advanced"`.
        In configs: `flops_profile_freq`, `profile_freq` under 500, DeepSpeed's `flops_profiler.enabled`.
    Why it hurts:
        A profiler records every operator with its shapes and stack: on a small model the step gets several
        times longer, and the events stay in host memory until the profiler closes, so a long run ends in
        out-of-memory. A FLOPs counter runs a second forward pass under hooks or a tracer, often on the CPU,
        for a number that does not change from step to step.
    How it knows:
        It reads the script: which calls a pass of the training loop reaches and under which conditions, and
        for a profiler around the loop, what its `schedule` says (`repeat=0`, the default, never ends). In
        config files it reads written keys, and the switches beside them that turn them off.
    False alarms:
        A script that is itself a benchmark: loops of at most 50 steps count as measurements. Profiling that
        runs once or behind a switch that is off by default is no finding.
    Remedies:
        Count FLOPs once before the loop. Give the profiler a schedule that ends (`repeat=1`), or take it out
        of the training run and profile 20 steps of a separate one.
    References:
        - https://docs.pytorch.org/docs/stable/profiler.html
        - https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
        - https://github.com/Lightning-AI/pytorch-lightning/issues/10717
    """

    code = Code("OBS001")
    name = "profiler-in-loop"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="profile_period",
            default=500,
            unit="{step}",
            source="the catalogue's S4 (training-step fix): profile and count FLOPs every 500 steps",
            meaning="A profiler or counter that comes back sooner than this is active in steady state.",
        ),
        Threshold(
            name="measurement_steps",
            default=50,
            unit="{step}",
            source="torch.profiler's recipe records two cycles of 5 to 10 steps; five times that",
            meaning="A loop known to end within this many steps is a measurement, not a training.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        try:
            source = patient.source
        except Unavailable:
            yield from self._from_configs(patient.configs)
            return
        yield from self._from_source(source)
        try:
            configs = patient.configs
        except Unavailable:
            return
        yield from self._from_configs(configs)

    def _from_configs(self, configs: Configs) -> Iterator[Finding]:
        for file in configs.files:
            if not self._short_config(file):
                yield from self._periods(file)
                yield from self._switches(file)

    def _short_config(self, file: ConfigFile) -> bool:
        runs = [item.number for item in file.meaning("max_steps") if item.number]
        return any(item.value for item in file.meaning("smoke_run")) or bool(
            runs and min(runs) <= self.limit("measurement_steps")
        )

    def _periods(self, file: ConfigFile) -> Iterator[Finding]:
        """`flops_profile_freq`, `profile_freq` and the like in sections of somebody's own."""
        runs = [item.number for item in file.meaning("max_steps") if item.number]
        for name, what in (("flops_period", "counts FLOPs"), ("profile_period", "profiles")):
            for said in file.meaning(name):
                period = int(said.number or 0)
                if not period or period >= self.limit("profile_period") or (runs and period >= runs[0]):
                    continue
                often = "on every training step" if period == 1 else f"every {period} training steps"
                message = (
                    f"{said.entry.key}={period} {what} {often}; "
                    f"in steady state once in {self.limit('profile_period'):.0f} is the limit."
                )
                yield self._declared(
                    said, message, kind=name, period=period, value=f"{self.limit('profile_period'):.0f}"
                )

    def _switches(self, file: ConfigFile) -> Iterator[Finding]:
        """Profilers that a tool keeps on for the whole run once they are switched on."""
        for said in file.meaning("flops_profiler"):
            if said.value is True:
                message = (
                    "DeepSpeed's flops_profiler is on: it profiles one step and turns wall_clock_breakdown on "
                    "for all of them, timers that wait for the GPU in each forward, backward and step."
                )
                yield self._declared(said, message, kind="flops_switch", period=1, value="false", sure=False)
        for said in file.meaning("profiler"):
            inside = file.under(said.entry.key.removesuffix(".class_path"))
            ends = any("schedule" in entry.parts for entry in inside)
            name = str(said.value).rsplit(".", 1)[-1]
            if name in LIGHTNING_PROFILERS and not ends:
                message = f"Lightning's Trainer profiles the whole fit with {said.entry.key}={said.value}."
                yield self._declared(said, message, kind="profiler_switch", period=1, value="null")
            cycles = file.get("profiler.num_cycles")
            if said.value is True and cycles is not None and cycles.value == 0:
                message = (
                    "torchtune's profiler is on with num_cycles=0: its schedule starts over and never ends."
                )
                yield self._declared(said, message, kind="profiler_switch", period=1, value="false")

    def _declared(
        self, said: Meaning, message: str, *, kind: str, period: int, value: str, sure: bool = True
    ) -> Finding:
        return self.finding(
            message,
            evidence=(said.setting,),
            confidence=Confidence.SUSPECTED,
            severity=Severity.WARNING if sure else Severity.NOTE,
            subject=f"{said.file.path}:{said.entry.line} {said.entry.key}",
            facts=(("kind", kind.partition("_")[0]), ("how", "config"), ("period", period), ("set", value)),
        )

    def _from_source(self, source: Source) -> Iterator[Finding]:
        tools = [tool for script in source.scripts for tool in _tools(script)]
        inside: set[ast.AST] = set()
        said: set[ast.AST] = set()
        for script, loop in source.training_loops:
            inside |= {event.node for event in loop.events}
            for event, tool in _uses(loop, tools):
                found = None if tool.call.node in said else self._in_loop(script, loop, event, tool)
                if found is not None:
                    said.add(tool.call.node)
                    yield found
        for tool in tools:
            if tool.call.node not in inside and not switched_off(source, tool.call):
                yield from self._around(source, tool)
        yield from self._engines(source)

    def _in_loop(self, script: Script, loop: Loop, event: Event, tool: _Tool) -> Finding | None:
        period = passes_between(event)
        if not steady(event) or period is None or period >= self.limit("profile_period"):
            return None
        if self._short(script, loop) or _disabled(tool.call):
            return None
        often = "on every training step" if period == 1 else f"every {period} training steps"
        what = "counts FLOPs" if tool.counts else "profiles"
        return self._found(
            f"{tool.call.name} {what} {often}; the limit is once in {self.limit('profile_period'):.0f}.",
            event.span,
            tool,
            how="step",
            period=period,
            via=event.via,
        )

    def _around(self, source: Source, tool: _Tool) -> Iterator[Finding]:
        for block in _active(tool):
            found = trains_within(source, tool.script, block)
            if found is None or self._short(*found) or _disabled(tool.call):
                continue
            cycle = _cycle(tool)
            if cycle is None or cycle >= self.limit("profile_period"):
                continue
            where = f"the training loop at {found[1].span.path}:{found[1].span.line}"
            if cycle == 1:
                message = f"{tool.call.name} records every step of {where}: it has no schedule that ends."
            else:
                message = (
                    f"{tool.call.name} records steps of {where} again and again: its schedule starts over "
                    f"every {cycle} steps (the limit is {self.limit('profile_period'):.0f}) and never ends."
                )
            yield self._found(message, tool.call.span, tool, how="around", period=cycle, via=())
            return

    def _engines(self, source: Source) -> Iterator[Finding]:
        for script in source.scripts:
            for call in script.calls_to(*LIGHTNING):
                name = _lightning_profiler(script, call)
                steps = call.argument("max_steps")
                known = steps.value if isinstance(steps, Known) and isinstance(steps.value, int) else 0
                short = 0 < known <= self.limit("measurement_steps")
                if name is None or short or switched_off(source, call) or _disabled(call):
                    continue
                tool = _Tool(script=script, call=call, counts=False)
                message = f"Lightning's Trainer profiles the whole fit with {name}."
                yield self._found(message, call.span, tool, how="engine", period=1, via=())

    def _short(self, script: Script, loop: Loop) -> bool:
        passes = bound(script, loop)
        return passes is not None and passes <= self.limit("measurement_steps")

    def _found(
        self, message: str, span: SourceSpan, tool: _Tool, *, how: str, period: int, via: tuple[SourceSpan, ...]
    ) -> Finding:
        evidence: tuple[Evidence, ...] = (
            span,
            *via,
            Measurement(
                name="steps_between_profiles",
                value=period,
                unit="{step}",
                provenance=Provenance.DECLARED,
                reproduce=f"grep -n '{tool.call.method}' {span.path}",
            ),
        )
        return self.finding(
            message,
            evidence=evidence,
            confidence=Confidence.SUSPECTED,
            subject=f"{span.path}:{span.line}",
            facts=(("kind", "flops" if tool.counts else "profiler"), ("how", how), ("period", period)),
        )


def _tools(script: Script) -> Iterator[_Tool]:
    for call in script.calls:
        package = call.name.split(".", 1)[0]
        counts = call.method in COUNTERS.get(package, ())
        if counts or (call.method in PROFILERS.get(package, ()) and "cuda" not in call.name):
            yield _Tool(script=script, call=call, counts=counts)


def _uses(loop: Loop, tools: list[_Tool]) -> Iterator[tuple[Event, _Tool]]:
    """Events of a pass that make a tool, enter one made before (`with prof:`) or start it."""
    made = {tool.call.node: tool for tool in tools}
    named = {
        (tool.script.path, name): tool for tool in tools if (name := bound_to(tool.script, tool.call.node))
    }
    for event in loop.events:
        if event.node in made:
            yield event, made[event.node]
        elif isinstance(event.node, ast.With | ast.AsyncWith):
            for item in event.node.items:
                tool = named.get((event.span.path, ast.unparse(item.context_expr)))
                if tool is not None:
                    yield event, tool
        elif event.call is not None and event.call.method in STARTS:
            tool = named.get((event.span.path, event.call.receiver))
            if tool is not None:
                yield event, tool


def _active(tool: _Tool) -> Iterator[ast.AST]:
    """Blocks of code during which a tool is active: with statements, or from its start to its stop."""
    yield from withs_of(tool.script, tool.call)
    name = bound_to(tool.script, tool.call.node)
    if not name:
        return
    starts = [call for call in tool.script.calls if call.receiver == name and call.method in STARTS]
    stops = [call for call in tool.script.calls if call.receiver == name and call.method in STOPS]
    for start in starts:
        after = [stop for stop in stops if stop.span.line > start.span.line and stop.function == start.function]
        if any(stop.guards or _in_a_loop(tool.script, stop) for stop in after):
            return  # it stops somewhere along the way
        yield _region(tool.script, start, after[0] if after else None)


def _in_a_loop(script: Script, call: Call) -> bool:
    return any(isinstance(node, ast.For | ast.While) for node in enclosing(script, call.node))


def _region(script: Script, start: Call, stop: Call | None) -> ast.AST:
    """The lines from one call to another, or to the end of the function, as a node that has them."""
    holder = next(
        (node for node in enclosing(script, start.node) if isinstance(node, ast.FunctionDef)), script.tree
    )
    last = stop.span.line if stop else (getattr(holder, "end_lineno", None) or script.lines)
    return ast.Pass(lineno=start.span.line, end_lineno=last, col_offset=0, end_col_offset=0)


def _cycle(tool: _Tool) -> int | None:
    """Steps after which recording comes back: 1 without a schedule, None when it ends or cannot be told."""
    keyword = next((item.value for item in tool.call.node.keywords if item.arg == "schedule"), None)
    if keyword is None or (isinstance(keyword, ast.Constant) and keyword.value is None):
        return None if tool.call.open_ended else 1
    schedule = next(
        (
            call
            for call in tool.script.calls
            if call.node is keyword
            or (isinstance(keyword, ast.Name) and bound_to(tool.script, call.node) == keyword.id)
        ),
        None,
    )
    if schedule is None or schedule.method != "schedule":
        return None
    try:
        repeat = schedule.known("repeat", default=0)
        parts = [schedule.known(name, default=0) for name in ("wait", "warmup", "active")]
    except LookupError:
        return None
    whole = [part for part in parts if isinstance(part, int)]
    return sum(whole) if not repeat and len(whole) == 3 else None


def _disabled(call: Call) -> bool:
    """Whether the call itself is switched off, or may be: `profile(enabled=args.profile)`."""
    enabled = call.argument("enabled") if "enabled" in call.keywords else None
    return isinstance(enabled, Unknown) or (isinstance(enabled, Known) and not enabled.value)


def _lightning_profiler(script: Script, call: Call) -> str | None:
    """The profiler that a Lightning Trainer is given, when it is one that records operations."""
    value = call.argument("profiler") if "profiler" in call.keywords else None
    if isinstance(value, Known):
        return f'profiler="{value.value}"' if value.value in LIGHTNING_PROFILERS else None
    keyword = next((item.value for item in call.node.keywords if item.arg == "profiler"), None)
    for other in script.calls:
        same = other.node is keyword or (
            isinstance(keyword, ast.Name) and bound_to(script, other.node) == keyword.id
        )
        if same and other.method in LIGHTNING_PROFILERS and not other.guards:
            return other.method if "schedule" not in other.keywords else None
    return None
