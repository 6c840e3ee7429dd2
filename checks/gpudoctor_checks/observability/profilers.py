"""Profilers and FLOPs counters in scripts: which calls make them, and when they are active."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import bound_to, enclosing, steady, switched_off, trains_within, withs_of
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.model.signs.source import Call, Event, Known, Loop, Script, Source, Unknown

PROFILERS = {"torch": {"profile", "_KinetoProfile"}, "cProfile": {"Profile"}, "line_profiler": {"LineProfiler"}}
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
class ProfilerCall:
    """A call that makes or runs a profiler or counter."""

    script: Script
    call: Call
    counts: bool
    """True for a FLOPs counter."""


def tools(script: Script) -> Iterator[ProfilerCall]:
    """Calls that make or run a profiler or a counter."""
    for call in script.calls:
        package = call.name.split(".", 1)[0]
        counts = call.method in COUNTERS.get(package, ())
        if counts or (call.method in PROFILERS.get(package, ()) and "cuda" not in call.name):
            yield ProfilerCall(script=script, call=call, counts=counts)


def uses(loop: Loop, made: list[ProfilerCall]) -> Iterator[tuple[Event, ProfilerCall]]:
    """Events of a pass that make a tool, enter one made before (`with prof:`) or start it."""
    nodes = {tool.call.node: tool for tool in made}
    named = {(tool.script.path, name): tool for tool in made if (name := bound_to(tool.script, tool.call.node))}
    for event in loop.events:
        if event.node in nodes:
            yield event, nodes[event.node]
        elif isinstance(event.node, ast.With | ast.AsyncWith):
            for item in event.node.items:
                tool = named.get((event.span.path, ast.unparse(item.context_expr)))
                if tool is not None:
                    yield event, tool
        elif event.call is not None and event.call.method in STARTS:
            tool = named.get((event.span.path, event.call.receiver))
            if tool is not None:
                yield event, tool


def profiled_loops(source: Source, tool: ProfilerCall) -> Iterator[tuple[Script, Loop]]:
    """Training loops during which a tool stays active: in its with statement, or from its start to its stop."""
    for block in withs_of(tool.script, tool.call):
        found = trains_within(source, tool.script, block)
        if found is not None:
            yield found
    name = bound_to(tool.script, tool.call.node)
    starts = list(_lasting_starts(source, tool, name)) if name else []
    for start, stop in starts:
        found = trains_within(source, tool.script, _region(tool.script, start, stop))
        if found is not None:
            yield found
    if starts:
        yield from _stepped(source, name)


def _lasting_starts(source: Source, tool: ProfilerCall, name: str) -> Iterator[tuple[Call, Call | None]]:
    """Calls that start a tool, with the one that stops it; nothing when it stops somewhere on the way."""
    calls = [call for call in tool.script.calls if call.receiver == name]
    stops = [call for call in calls if call.method in STOPS]
    if any(stop.guards or _in_a_loop(tool.script, stop) for stop in stops):
        return
    for start in calls:
        if start.method in STARTS and not switched_off(source, start):
            after = [stop for stop in stops if stop.function == start.function and stop.span.line > start.span.line]
            yield start, after[0] if after else None


def _stepped(source: Source, name: str) -> Iterator[tuple[Script, Loop]]:
    """Training loops that call the profiler's `step()`, wherever it was started."""
    for script, loop in source.training_loops:
        for event in loop.calls(".step"):
            if event.call is not None and event.call.receiver == name and steady(event):
                yield script, loop
                break


def _in_a_loop(script: Script, call: Call) -> bool:
    return any(isinstance(node, ast.For | ast.While) for node in enclosing(script, call.node))


def _region(script: Script, start: Call, stop: Call | None) -> ast.AST:
    """The lines from one call to another, or to the end of the function, as a node that has them."""
    holder = next((node for node in enclosing(script, start.node) if isinstance(node, ast.FunctionDef)), script.tree)
    last = stop.span.line if stop else (getattr(holder, "end_lineno", None) or script.lines)
    return ast.Pass(lineno=start.span.line, end_lineno=last, col_offset=0, end_col_offset=0)


def cycle(tool: ProfilerCall) -> int | None:
    """Steps after which recording comes back: 1 without a schedule, None when it ends or cannot be told."""
    keyword = keyword_value(tool.call.node, "schedule")
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


def disabled(call: Call) -> bool:
    """Whether the call itself is switched off, or may be: `profile(enabled=args.profile)`."""
    enabled = call.argument("enabled") if "enabled" in call.keywords else None
    return isinstance(enabled, Unknown) or (isinstance(enabled, Known) and not enabled.value)


def lightning_profiler(script: Script, call: Call) -> str | None:
    """The profiler that a Lightning Trainer is given, when it is one that records operations."""
    value = call.argument("profiler") if "profiler" in call.keywords else None
    if isinstance(value, Known):
        return f'profiler="{value.value}"' if value.value in LIGHTNING_PROFILERS else None
    keyword = keyword_value(call.node, "profiler")
    for other in script.calls:
        same = other.node is keyword or (isinstance(keyword, ast.Name) and bound_to(script, other.node) == keyword.id)
        if same and other.method in LIGHTNING_PROFILERS and not other.guards:
            return other.method if "schedule" not in other.keywords else None
    return None
