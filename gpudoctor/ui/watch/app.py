"""The live view: takes ticks from a source in a thread of its own and shows them."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from rich.style import Style
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.worker import get_current_worker

from gpudoctor.errors import DoctorError
from gpudoctor.lang import rendered, template, tr, word
from gpudoctor.model import Ranked, Report
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.watch import Tick
from gpudoctor.report.strings import for_reader
from gpudoctor.ui.watch.loop_panels import Findings, Phases, PlacesTable, Ranks
from gpudoctor.ui.watch.marks import View, shown_gpus
from gpudoctor.ui.watch.panels import Gpus, Header, HostPanel, Panel, VerdictLine

# Screens that lie over the view: the keys, and a manual page.


class TextScreen(ModalScreen[None]):
    """A text to read and leave."""

    BINDINGS = [Binding("escape,q,enter,question_mark", "dismiss", "back")]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """The text in a box that scrolls."""
        with VerticalScroll(id="page") as box:
            box.border_title = self._title
            box.border_subtitle = tr("escape: back")
            yield Static(self._text, markup=False)

    def on_mount(self) -> None:
        """Arrow keys scroll at once."""
        self.query_one("#page").focus()

    async def action_dismiss(self, result: None = None) -> None:
        """Back to the view."""
        self.dismiss(result)


def keys_text() -> Text:
    """The page of keys: what each does."""
    text = Text("\n".join(f"{key:<10} {word(meaning)}" for key, meaning in _KEYS))
    text.append(
        tr(
            "\n\nShares come from stack samples of the main thread, taken without stopping it.\n"
            "Samples that failed are counted: fast Python code loses more of them than waits do."
        )
    )
    return text


LEAST_WIDTH, LEAST_HEIGHT = 60, 18
_BEAT = 0.05
_KEYS = (
    ("q", template("quit; the job keeps running")),
    ("p, space", template("pause or resume sampling")),
    ("r", template("select the next rank, or all ranks")),
    ("enter", template("manual page of the selected finding (arrow keys select)")),
    ("s", template("save the current report")),
    ("?", template("these keys")),
    ("mouse", template("click a finding or a key; the wheel scrolls")),
)


class TickProvider(Protocol):
    """Where ticks come from."""

    def tick(self) -> Tick:
        """The next tick. It may raise: the screen goes on with the last one."""

    def pause(self, on: bool) -> None:
        """Stop looking, or go on."""


@frozen
class Actions:
    """What keys do outside the screen; each gives a sentence to show."""

    manual: Callable[[str, int], str]
    """The manual page of a code in so many columns."""
    save: Callable[[Tick], str]


class WatchApp(App[None]):
    """The screen of `gpudoctor watch`."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "gpudoctor watch"
    CSS = """
    Screen { layout: vertical; }
    #header { height: 1; }
    #verdict { height: 2; }
    #body { height: 1fr; }
    .two-columns #body { layout: grid; grid-size: 2; }
    .two-columns #middle { row-span: 2; layout: vertical; }
    Panel { padding: 0 2 0 0; }
    #header, #verdict { padding: 0; }
    #gpus, #phases, #places, #ranks, #host {
        border-top: solid $foreground 25%; border-title-color: $foreground; border-title-style: bold;
        height: 1fr; width: 1fr;
    }
    #side { width: 1fr; height: 1fr; }
    .many-gpus #gpus { width: 3fr; } .many-gpus #side { width: 2fr; }
    #findings {
        border: none; border-top: solid $foreground 25%; border-title-color: $foreground;
        border-title-style: bold; border-subtitle-color: $text-muted; padding: 0; background: transparent;
    }
    #findings > .option-list--option-highlighted { background: $foreground 12%; text-style: none; }
    #keys { height: 1; color: $text-muted; link-style: none; link-color: $text-muted; link-style-hover: bold; }
    #small { display: none; padding: 1; }
    .empty { display: none; }
    .too-small > * { display: none; }
    .too-small > #small { display: block; }
    #page { margin: 1 2; border: round $foreground 50%; padding: 0 1; background: $surface; }
    """
    BINDINGS = [
        Binding("q,ctrl+c", "quit", "quit", priority=True),
        Binding("p,space", "pause", "pause"),
        Binding("r", "rank", "rank"),
        Binding("s", "save", "save"),
        Binding("question_mark", "keys", "keys"),
    ]

    class Came(Message):
        """A tick is there, or why it could not be taken."""

        def __init__(self, tick: Tick | None = None, error: str = "") -> None:
            super().__init__()
            self.tick, self.error = tick, error

    def __init__(self, source: TickProvider, actions: Actions, *, interval: float = 1.0) -> None:
        super().__init__()
        self._source, self._actions, self._interval = source, actions, interval
        self.view = View(plain=self.no_color)
        self.tick: Tick | None = None
        self.whole: Tick | None = None
        """The tick as it came, for files."""
        self.fatal: DoctorError | None = None
        """Why nothing can be watched at all; the application has ended then."""
        self._shown: Report | None = None
        self._waiting = False
        """Whether a tick or its failure waits to be drawn: on a busy machine ticks must not pile up."""

    def compose(self) -> ComposeResult:
        """The panels, top to bottom."""
        yield Header(id="header")
        yield VerdictLine(id="verdict")
        yield Findings(id="findings")
        with Container(id="body"):
            yield Phases(id="phases")
            with Horizontal(id="middle"):
                yield Gpus(id="gpus")
                with Vertical(id="side"):
                    yield Ranks(id="ranks")
                    yield HostPanel(id="host")
            yield PlacesTable(id="places")
        # The keys, each of which can be clicked.
        line = Text(no_wrap=True, overflow="crop")
        for action, words in _KEY_LINE:
            line.append(word(words), Style(meta={"@click": f"app.{action}"})).append("  ")
        yield Static(line, id="keys", markup=False)
        yield Static(
            tr(
                "This view needs {least_width} x {least_height} characters.",
                least_width=LEAST_WIDTH,
                least_height=LEAST_HEIGHT,
            ),
            id="small",
            markup=False,
        )

    def on_mount(self) -> None:
        """Look at once; what loads meanwhile does so behind the first frame."""
        self.query_one("#gpus").border_title = word("gpu")
        self.query_one("#phases").border_title = tr("where the loop is")
        for name in ("#gpus", "#ranks", "#places"):  # until a tick has something for them
            self.query_one(name).add_class("empty")
        self.query_one("#findings").focus()
        self.look()

    @work(thread=True, exclusive=True, exit_on_error=False)
    def look(self) -> None:
        """Take ticks until the application ends; a collector that hangs holds up only this thread."""
        worker = get_current_worker()
        while not worker.is_cancelled:
            began = time.monotonic()
            if not self.view.paused:
                try:
                    tick = self._source.tick()
                except DoctorError as error:
                    if self.tick is None:  # there is nothing to watch
                        self.fatal = error
                        self.call_from_thread(self.exit)
                        return
                    self._hand_over(self.Came(error=rendered(str(error))))
                except Exception as error:  # noqa: BLE001  # the screen shows it and goes on with the last tick
                    self._hand_over(self.Came(error=f"{type(error).__name__}: {error}"))
                else:
                    self._hand_over(self.Came(tick))
            while (self._waiting or time.monotonic() - began < self._interval) and not worker.is_cancelled:
                time.sleep(_BEAT)

    def _hand_over(self, message: Message) -> None:
        """Have a tick or its failure shown."""
        self._waiting = True
        self.post_message(message)

    def on_watch_app_came(self, message: Came) -> None:
        """Show a tick, of its report only what a terminal may show; or what failed, above the last tick."""
        if (tick := message.tick) is not None:
            if tick.report is not self._shown:
                self._shown = tick.report
                self._clean = for_reader(replace(tick.report, checks=()))
            self.tick = replace(tick, report=self._clean)
            self.whole = tick
        self.view = replace(self.view, error=message.error)
        self.show()
        self._waiting = False

    def on_resize(self, event: Resize) -> None:
        """Too small a terminal gets a sentence in place of a ruin."""
        small = event.size.width < LEAST_WIDTH or event.size.height < LEAST_HEIGHT
        for screen in self.screen_stack[:1]:
            screen.set_class(small, "too-small")
        self._arrange(event.size.height)

    def show(self) -> None:
        """Draw the tick in the view."""
        if self.tick is None or not self.screen_stack:  # a last tick may come while the application ends
            return
        base = self.screen_stack[0]
        self._arrange(self.size.height)
        for panel in base.query(Panel):
            panel.show(self.tick, self.view)
        for findings in base.query(Findings):  # none while the application ends
            findings.show(self.tick, self.view)

    def _arrange(self, height: int) -> None:
        """Give each panel the lines that it has something for; one without anything takes none."""
        if self.tick is None or not self.screen_stack or not self.screen_stack[0].query(Findings):
            return
        base, tick, view = self.screen_stack[0], self.tick, self.view
        wanted = {str(panel.id): panel.wanted(tick, view) for panel in base.query(Panel)}
        wide = self.size.width >= _TWO_COLUMNS
        base.set_class(wide, "two-columns")
        base.set_class(len(shown_gpus(tick.window, view)) > 1 and not wide, "many-gpus")
        lines = heights(wanted, base.query_one(Findings).wanted(tick), height, wide=wide)
        for name in ("gpus", "ranks"):
            base.query_one(f"#{name}").set_class(wanted[name] == 0, "empty")
        # The host is the first to go where ranks and workers need its lines.
        base.query_one("#host").set_class(bool(wanted["ranks"]) and lines["middle"] < _BOTH, "empty")
        for name, size in lines.items():
            widget = base.query_one(f"#{name}")
            widget.set_class(size == 0, "empty")
            widget.styles.height = max(1, size)
        base.query_one("#gpus").styles.height = wanted["gpus"] + 1 if wide else "1fr"
        base.query_one("#body").styles.grid_rows = (str(lines["phases"]), "1fr")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click: the manual page."""
        del event
        self.action_manual()

    def action_manual(self) -> None:
        """The manual page of the chosen finding."""
        chosen = self._chosen
        if chosen is not None:
            width = max(40, min(100, self.size.width - 10))
            page = Text(self._actions.manual(chosen.finding.code, width))
            self.push_screen(TextScreen(str(chosen.finding.code), page))

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        self.view = replace(self.view, paused=not self.view.paused)
        self._source.pause(self.view.paused)
        self._say(
            tr("paused: gpudoctor takes no samples, the job goes on") if self.view.paused else tr("sampling again")
        )
        self.show()

    def action_rank(self) -> None:
        """The next rank."""
        if self.tick is not None:
            ranks = self.tick.window.ranks
            if len(ranks) < 2:
                self._say(tr("there is one rank"))
                return
            place = 0 if self.view.rank is None else self.view.rank + 1
            self.view = replace(self.view, rank=place if place < len(ranks) else None)
            alone = self.view.rank is not None
            self._say(
                tr("{title} alone", title=ranks[place].title) if alone else tr("all {ranks} ranks", ranks=len(ranks))
            )
            self.show()

    def _say(self, words: str) -> None:
        """What a key has done; the newest takes the place of the one before."""
        self.clear_notifications()
        self.notify(words, timeout=2, markup=False)

    def action_save(self) -> None:
        """Save the report of this tick."""
        try:
            if self.whole is not None:
                self.notify(self._actions.save(self.whole), title=word("saved"))
        except Exception as error:  # noqa: BLE001  # a full disk must not end the watch
            self.notify(rendered(str(error)) or type(error).__name__, title=word("failed"), severity="error")

    def action_keys(self) -> None:
        """The page of keys."""
        self.push_screen(TextScreen(word("keys"), keys_text()))

    @property
    def _chosen(self) -> Ranked | None:
        return self.screen_stack[0].query_one(Findings).chosen


_BOTH = 9
"""Lines of the middle row from which ranks and host share a column."""
_TWO_COLUMNS = 140
"""Columns of the screen from which the machine and the ranks stand beside the loop."""
_FEWEST = {"findings": 4, "phases": 5, "middle": 5, "places": 4}
"""Lines that a part needs at least, with its edge; in this order they are given away."""


def heights(wanted: Mapping[str, int], findings: int, height: int, *, wide: bool = False) -> dict[str, int]:
    """Lines of findings, phases, middle row and places, edges included; 0 hides one.

    `wanted` are lines by panel. What is left over makes the last list longer. If `wide`, the middle row is a column
    beside phases and places.
    """
    side = (wanted["ranks"] + 1 if wanted["ranks"] else 0) + wanted["host"] + 1
    middle = max(wanted["gpus"] + 1 if wanted["gpus"] else 0, min(side, _BOTH + 3))
    want = {
        "phases": wanted["phases"] + 1,
        "findings": findings + 1,
        "middle": 0 if wide else middle,
        "places": wanted["places"] + 1 if wanted["places"] else 0,
    }
    room = height - 4  # header, verdict and keys
    given = dict.fromkeys(want, 0)
    for name, least in _FEWEST.items():
        size = min(want[name], least)
        if size and size <= room:
            given[name] = size
            room -= size
    for name in _FEWEST:
        if given[name]:
            more = max(0, min(room, want[name] - given[name]))
            given[name] += more
            room -= more
    given["places" if given["places"] else "phases" if wide else "middle"] += room
    return {**given, "middle": given["phases"] + given["places"]} if wide else given


_KEY_LINE = (
    ("quit", "q quit"),
    ("keys", "? keys"),
    ("pause", "p pause"),
    ("rank", "r rank"),
    ("manual", template("enter explain")),
    ("save", "s save"),
)
