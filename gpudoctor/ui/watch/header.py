"""The first line: what is watched, since when, on what."""

from collections import Counter

from rich.text import Text

from gpudoctor.model.watch import Tick
from gpudoctor.text import duration
from gpudoctor.ui.watch.marks import clip, plain
from gpudoctor.ui.watch.panel import Panel
from gpudoctor.ui.watch.view import View


class Header(Panel):
    """Title, pid, ranks, age, GPUs; and what the watch itself does."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """One line."""
        del height
        left = " · ".join(_facts(tick))
        right = _state(tick, view)
        room = width - len(right) - (2 if right else 0)
        left = clip(left, room)
        text = Text(left.ljust(width - len(right)), style="bold", no_wrap=True)
        return text.append(right, style="reverse bold" if right else "")


def _facts(tick: Tick) -> list[str]:
    window = tick.window
    first = window.ranks[0]
    parts = ["gpudoctor", plain(tick.report.subject.title)]
    if first.started:
        parts.append(duration(max(0.0, window.wall - first.started)))
    steps = [rank.steps for rank in window.ranks if rank.steps]
    if steps:
        parts.append(f"step {min(step.step for step in steps):,}")
        parts.append(f"{duration(max(step.seconds for step in steps))} a step")
    names = Counter(gpu.name for gpu in window.gpus)
    parts += [f"{count} x {plain(name)}" if count > 1 else plain(name) for name, count in names.items()]
    return parts


def _state(tick: Tick, view: View) -> str:
    words = []
    if tick.window.ended:
        words.append("ENDED")
    if view.replay:
        words.append("REPLAY")
    if view.paused:
        words.append("PAUSED")
    if view.recording:
        words.append("REC")
    return f" {' '.join(words)} " if words else ""
