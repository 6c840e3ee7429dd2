"""The live view in a test: a source of given ticks, and what the screen shows."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gpudoctor.model.watch import Tick
from gpudoctor.ui.watch.app import Actions, WatchApp
from gpudoctor.ui.watch.view import View


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
        self.recorded: list[bool] = []
        self.killed: list[int] = []
        self.fails = fails

    def save(self, tick: Tick) -> str:
        if self.fails:
            raise OSError("no space left on device")
        self.saved.append(tick)
        return "report.txt"

    def record(self, on: bool) -> str:
        self.recorded.append(on)
        return "ticks.gz" if on else ""

    def kill(self, pid: int) -> str:
        self.killed.append(pid)
        return f"SIGTERM sent to {pid}"

    def actions(self, kill: bool = False) -> Actions:
        return Actions(
            manual=lambda code, width: f"{code} manual page, {width} columns",
            save=self.save,
            record=self.record,
            kill=self.kill if kill else None,
        )


def on_screen(
    ticks: Sequence[Tick | Exception],
    act: Callable[[WatchApp, Any], Awaitable[None]] | None = None,
    *,
    size: tuple[int, int] = (100, 30),
    noted: Noted | None = None,
    kill: bool = False,
    view: View | None = None,
) -> tuple[str, WatchApp]:
    """Run the application on these ticks, act on it, and give the screen's text and the application."""
    source = Given(ticks)
    app = WatchApp(source, (noted or Noted()).actions(kill), interval=0.05, view=view)
    shown: list[str] = []

    async def go() -> None:
        async with app.run_test(size=size) as pilot:
            for _ in range(2000):  # a busy machine may take its time for the first tick
                await pilot.pause(0.02)
                if source.taken >= len(ticks) and app.tick is not None:
                    break
            await pilot.pause(0.05)
            await pilot.pause()
            if act is not None:
                await act(app, pilot)
                await pilot.pause(0.05)
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
