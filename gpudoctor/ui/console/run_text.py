"""The part of a text report that shows a run: its heading, where a step's time goes, where the recording is."""

from collections.abc import Iterator

from gpudoctor.model.run import RunSummary
from gpudoctor.report.printable import one_line
from gpudoctor.report.run_words import phase_rows, rate_text
from gpudoctor.text import duration, number, percent, size
from gpudoctor.ui.console.canvas import Canvas
from gpudoctor.ui.watch.marks import bar

_LABEL, _NUMBERS = 11, 20
_LINES = 8


def phase_bars(canvas: Canvas, run: RunSummary) -> None:
    """A bar for each phase, the largest first, `other` last."""
    width = max(10, min(40, canvas.width - _LABEL - _NUMBERS - 6))
    for place, (name, share, each) in enumerate(phase_rows(run)):
        if place == 0:
            canvas.blank()
        canvas.literal_raw(f"{name:<{_LABEL}} {bar(share, width)} {percent(share):>6}  {each:>9}", indent=2)
    if run.device_idle is not None and run.phases:
        busy = 1 - run.device_idle
        canvas.literal_raw(
            f"{'device busy':<{_LABEL}} {bar(busy, width)} {percent(busy):>6}   at least", indent=2
        )


def run_details(canvas: Canvas, run: RunSummary) -> None:
    """Everything else that was measured, for `--verbose`."""
    canvas.blank()
    rows: list[tuple[str, ...]] = list(_step_rows(run))
    rows += _memory_rows(run)
    for index, gpu in enumerate(run.gpus):
        told = [
            f"{percent(gpu.utilization)} of the time busy" if gpu.utilization is not None else "",
            f"{percent(gpu.sm_active)} of the SMs" if gpu.sm_active is not None else "",
            size(gpu.memory) if gpu.memory is not None else "",
            f"{number(round(gpu.power))} W" if gpu.power is not None else "",
            f"{number(round(gpu.temperature))} °C" if gpu.temperature is not None else "",
        ]
        rows.append((f"GPU {index}", ", ".join(filter(None, told))))
    canvas.columns(rows, indent=2)
    if run.lines:
        canvas.blank()
        canvas.paragraph("Your lines with most of the training thread's time:", indent=2)
        canvas.columns(
            [(percent(line.share), f"{line.path}:{line.line}", line.function) for line in run.lines[:_LINES]],
            indent=2,
        )


def where_recorded(run: RunSummary) -> str:
    """The last line: the folder, or the process, to look at it again."""
    if run.origin == "watch":
        return f"live view: gpudoctor watch {one_line(run.recording)}"
    return f"recording: {one_line(run.recording)}"


def _step_rows(run: RunSummary) -> Iterator[tuple[str, ...]]:
    step = run.step_seconds
    if step is not None:
        yield (
            "step",
            f"median {duration(step.median)}, 10 % below {duration(step.p10)}, 10 % above "
            f"{duration(step.p90)}, longest {duration(step.max)}, deviation {duration(step.std)}",
        )
    for name, spread in run.throughput.spreads.items():
        unit = name.replace("_per_second", "/s")
        yield (
            unit,
            f"{rate_text(spread.mean)} on average, {rate_text(spread.min)} to {rate_text(spread.max)}, "
            f"deviation {rate_text(spread.std)}",
        )
    if run.start_seconds is not None:
        yield (
            "start",
            f"{duration(run.start_seconds)} to the end of the first step, then "
            f"{duration(run.warm_up_seconds)} of warm-up",
        )


def _memory_rows(run: RunSummary) -> Iterator[tuple[str, ...]]:
    memory = run.memory
    if memory.allocated is not None:
        reserved = f", {size(memory.reserved)} reserved" if memory.reserved is not None else ""
        total = f" of {size(memory.device)}" if memory.device is not None else ""
        yield "GPU memory", f"{size(memory.allocated)} allocated at most{reserved}{total}"
    if memory.tree_rss is not None:
        yield "memory", f"{size(memory.tree_rss)} at most in all processes of the command"
