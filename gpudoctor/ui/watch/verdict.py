"""The verdict: what the job waits for now, and what fails in the watch itself."""

from rich.text import Text

from gpudoctor.model import Severity
from gpudoctor.model.watch import Tick
from gpudoctor.ui.console.canvas import STYLES
from gpudoctor.ui.watch.marks import plain
from gpudoctor.ui.watch.panel import Panel
from gpudoctor.ui.watch.view import View


class VerdictLine(Panel):
    """One or two sentences, in the colour of the worst finding."""

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """The sentences, wrapped; the last line is cut where they do not fit."""
        style = next((STYLES[item.finding.severity] for item in tick.report.findings), "")
        worst = [item.finding.severity for item in tick.report.findings]
        if Severity.ERROR in worst:
            style = STYLES[Severity.ERROR]
        words = plain(tick.report.summary.verdict)
        if view.error:
            words = f"This tick failed: {plain(view.error)}. {words}"
        lines = _wrapped(words, width)
        if len(lines) > height:
            lines = lines[:height]
            lines[-1] = lines[-1][: width - 1] + "…"
        # A span, no style of the whole text: only spans follow the theme, and yellow on white is unreadable.
        return Text(no_wrap=True).append("\n".join(lines), style=style)


def _wrapped(words: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(words, max(10, width)) or [""]
