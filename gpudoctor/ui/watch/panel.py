"""The base of every panel: draws a tick in a view, and again when its size changes."""

from rich.text import Text
from textual.events import Resize
from textual.widgets import Static

from gpudoctor.model.watch import Tick
from gpudoctor.ui.watch.view import View


class Panel(Static):
    """A static text that a pure function makes. Subclasses give `draw`, and `heading` or a NAME."""

    NAME = ""
    """The title on the panel's edge; "" for none."""

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._tick: Tick | None = None
        self._view = View()
        self._drawn: Text | None = None

    def show(self, tick: Tick, view: View) -> None:
        """Show another tick, or the same one in another view."""
        self._tick, self._view = tick, view
        self._redraw()

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """The panel's text, at most `height` lines of `width` columns."""
        raise NotImplementedError

    def heading(self, tick: Tick, view: View) -> str:
        """The title on the panel's edge."""
        del tick, view
        return self.NAME

    def on_resize(self, event: Resize) -> None:
        """Draw again for the new size."""
        del event
        self._redraw()

    def _redraw(self) -> None:
        size = self.content_size
        if self._tick is None or size.width <= 0 or size.height <= 0:
            return
        title = self.heading(self._tick, self._view)
        if title and self.border_title != title:
            self.border_title = title
        text = self.draw(self._tick, self._view, size.width, size.height)
        if text != self._drawn:  # an unchanged panel costs nothing
            self._drawn = text
            self.update(text)


def lines_text(lines: list[str], height: int) -> Text:
    """At most `height` lines; the last one says how many more there were."""
    if len(lines) > height > 0:
        lines = [*lines[: height - 1], f"and {len(lines) - height + 1} more"]
    return Text("\n".join(lines), no_wrap=True, overflow="crop")
