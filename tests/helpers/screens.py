"""The live view in a test: a source of given ticks, and what the screen shows."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from windows import GIB, make_gpu_window, make_rank, make_tick, make_window, report_of

from gpudoctor.model import Confidence, Finding, Measurement, Ranked, Severity
from gpudoctor.model.finding import Code
from gpudoctor.model.signs.process import Frame, GpuUser
from gpudoctor.model.watch import Tick
from gpudoctor.ui.watch.app import Actions, WatchApp


class Given:
    """Ticks one after the other; the last one again and again. An exception in the list is raised."""

    def __init__(self, ticks: Sequence[Tick | Exception]) -> None:
        self.ticks = list(ticks)
        self.taken = 0
        self.paused: list[bool] = []

    def tick(self) -> Tick | None:
        item = self.ticks[min(self.taken, len(self.ticks) - 1)]
        self.taken += 1
        if isinstance(item, Exception):
            raise item
        return item

    def pause(self, on: bool) -> None:
        self.paused.append(on)


class Noted:
    """Actions that only note what was asked of them."""

    def __init__(self, fails: bool = False) -> None:
        self.saved: list[Tick] = []
        self.fails = fails

    def save(self, tick: Tick) -> str:
        if self.fails:
            raise OSError("no space left on device")
        self.saved.append(tick)
        return "report.txt"

    def actions(self) -> Actions:
        return Actions(manual=lambda code, width: f"{code} manual page, {width} columns", save=self.save)


def on_screen(
    ticks: Sequence[Tick | Exception],
    act: Callable[[WatchApp, Any], Awaitable[None]] | None = None,
    *,
    size: tuple[int, int] = (100, 30),
    noted: Noted | None = None,
    goes_on: bool = False,
) -> tuple[str, WatchApp]:
    """Run the application on these ticks, act on it, and give the screen's text and the application.

    `goes_on`: more looks follow during the act, 20 a second. Each key waits for the application to be idle, and
    with ticks at that rate it hardly is.
    """
    source = Given(ticks)
    interval = 0.05 if goes_on or len(ticks) > 1 else 3600.0
    app = WatchApp(source, (noted or Noted()).actions(), interval=interval)
    shown: list[str] = []

    async def go() -> None:
        async with app.run_test(size=size) as pilot:
            for _ in range(2000):  # a busy machine may take its time for the first tick
                await pilot.pause(0.02)
                if source.taken >= len(ticks) and app.tick is not None:
                    break
            await pilot.pause(0.02)
            await pilot.pause()
            if act is not None:
                await act(app, pilot)
                await pilot.pause(0.02)
                await pilot.pause()
            shown.append(screen_text(app))

    asyncio.run(go())
    return shown[0], app


def screen_text(app: WatchApp) -> str:
    """What stands on the screen, without colours."""
    width, height = app.size
    console_lines = app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip).rstrip() for strip in console_lines]
    assert len(lines) <= height and all(len(line) <= width for line in lines)
    return "\n".join(lines)


LOADER = {"data_wait/loader-inline@data.py:31 __getitem__": 58, "forward": 17, "backward": 20, "optimizer": 5}


def found(
    code: str = "DATA001", name: str = "loader-bound", severity: Severity = Severity.WARNING, rank: int = 1,
    reproduce: str = "py-spy dump --pid 4711",
) -> Ranked:  # fmt: skip
    """A finding in its place."""
    measure = Measurement(name="data_wait_share", value=0.58, unit="1", reproduce=reproduce)
    finding = Finding(
        code=Code(code), name=name, severity=severity, confidence=Confidence.CONFIRMED,
        message="The training waits 58 % of the time for its next batch.", evidence=(measure,),
    )  # fmt: skip
    return Ranked(rank=rank, finding=finding, remedies=(), set_aside=(), reason="because")


def sick_tick(*findings: Ranked, **changes: Any) -> Tick:
    """A job that waits for its data, on one card."""
    window = make_window([make_rank(looks=LOADER, texts={}, gpus=(0,))], [make_gpu_window(busy=0.3)], **changes)
    report = replace(report_of(window), findings=findings or (found(), found("GPU001", "low-utilization", rank=2)))
    return make_tick(window, report)


def eight_ranks() -> Tick:
    """Eight ranks that wait for the sixth, which waits for its data."""
    ranks = [
        make_rank(
            i, 5000 + i, gpus=(i,),
            looks={"collective": 12} if i != 5 else {"data_wait/loader-wait@data.py:31 __getitem__": 12},
            stack=(Frame(name="main", path="/job/train.py", line=44),),
        )
        for i in range(8)
    ]  # fmt: skip
    gpus = [make_gpu_window(i, busy=0.3 if i != 5 else 0.04, users=(GpuUser(pid=5000 + i, memory=GIB),)) for i in range(8)]  # fmt: skip
    return make_tick(make_window(ranks, gpus))
