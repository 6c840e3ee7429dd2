"""Screens that lie over the view: the keys, and a manual page."""

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static


class TextScreen(ModalScreen[None]):
    """A text to read and leave."""

    BINDINGS = [
        Binding("escape,q,enter,question_mark", "dismiss", "back"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """The text in a box that scrolls."""
        with VerticalScroll(id="page") as box:
            box.border_title = self._title
            box.border_subtitle = "escape: back"
            yield Static(Text(self._text), markup=False)

    def on_mount(self) -> None:
        """Arrow keys scroll at once."""
        self.query_one("#page").focus()

    async def action_dismiss(self, result: None = None) -> None:
        """Back to the view."""
        self.dismiss(result)


def keys_text(rows: Sequence[tuple[str, str]], letters: Sequence[tuple[str, str]]) -> str:
    """The page of keys: what each does, and what the letters of the phases mean."""
    lines = [f"{key:<10} {meaning}" for key, meaning in rows]
    lines += ["", "Letters of the phases:"]
    cells = [f"{letter} {name}" for letter, name in letters]
    lines += [
        "  ".join(f"{cell:<14}" for cell in cells[place : place + 4]) for place in range(0, len(cells), 4)
    ]
    lines += [
        "",
        "Shares come from stack samples of the main thread, taken without stopping it.",
        "Samples that failed are counted: fast Python code loses more of them than waits do.",
    ]
    return "\n".join(lines)
