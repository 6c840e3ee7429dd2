"""The findings, best to act on first; Enter or a click opens the manual page."""

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpudoctor.model import Ranked, Severity
from gpudoctor.model.watch import Tick
from gpudoctor.report.units import confidence_text, remedy_gain
from gpudoctor.ui.console.canvas import STYLES
from gpudoctor.ui.watch.marks import clip, plain
from gpudoctor.ui.watch.view import View


class Findings(OptionList):
    """One option a finding; a tick that brings the same ones leaves the choice where it is."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._shown: list[Text] = []
        self._tick: Tick | None = None

    def show(self, tick: Tick, view: View) -> None:
        """Show the findings of a tick."""
        del view
        chosen = self.code
        self._tick = tick
        self.border_title = f"findings ({len(tick.report.findings)})"
        texts = [finding_text(item, max(20, self.content_size.width - 2)) for item in tick.report.findings]
        if texts == self._shown and self.option_count:
            return
        self._shown = texts
        self.clear_options()
        if not texts:
            self.add_option(Option(_nothing(tick), disabled=True))
        codes = [str(item.finding.code) for item in tick.report.findings]
        self.add_options([Option(text) for text in texts])
        if texts:
            self.highlighted = codes.index(chosen) if chosen in codes else 0

    def on_resize(self) -> None:
        """Write again for the new width."""
        if self._tick is not None:
            self._shown = []
            self.show(self._tick, View())

    @property
    def chosen(self) -> Ranked | None:
        """The finding under the cursor."""
        place = self.highlighted
        if self._tick is None or place is None or place >= len(self._tick.report.findings):
            return None
        return self._tick.report.findings[place]

    @property
    def code(self) -> str:
        """Its code; "" without one."""
        return str(self.chosen.finding.code) if self.chosen else ""


def finding_text(item: Ranked, width: int) -> Text:
    """Two lines: the ailment and how sure we are, then the best remedy and what it is worth."""
    finding = item.finding
    style = STYLES[finding.severity]
    head = f"{item.rank} {plain(finding.code)} {plain(finding.name)}"
    aside = f"{finding.severity.value}, {confidence_text(finding)}"
    subject = f"  {plain(finding.subject)}" if finding.subject else ""
    room = width - len(head) - len(aside) - 2
    text = Text(no_wrap=True, overflow="crop")
    text.append(head, style=style)
    text.append(clip(subject, room).ljust(room) if room > 0 else "  ")
    text.append(f" {aside}", style=style)
    if item.remedies:
        best = item.remedies[0]
        worth = " · ".join(remedy_gain(best))
        title = clip(f"  fix: {plain(best.title)}", width - len(worth) - 2)
        text.append(f"\n{title}  {worth}".rstrip())
    return text


def _nothing(tick: Tick) -> str:
    seen = [item for item in tick.report.findings if item.finding.severity is not Severity.NOTE]
    return "" if seen else "nothing found so far"
