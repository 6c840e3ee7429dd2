"""The live view: takes ticks from a source in a thread of its own and shows them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.worker import get_current_worker

from gpudoctor.errors import DoctorError
from gpudoctor.model import Ranked, Report
from gpudoctor.model.watch import Tick
from gpudoctor.report.strings import for_reader
from gpudoctor.ui.watch.loop_panels import Findings, Phases, PlacesTable, Ranks
from gpudoctor.ui.watch.marks import LETTERS, SORTS, View, next_choice, phase_name, shown_gpus
from gpudoctor.ui.watch.panels import Gpus, Header, HostPanel, Panel, VerdictLine

# Screens that lie over the view: the keys, and a manual page.


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


LEAST_WIDTH, LEAST_HEIGHT = 60, 18
_BEAT = 0.05
_KEYS = (
    ("q", "quit; the job keeps running"),
    ("p, space", "pause or resume sampling"),
    ("r", "select the next rank, or all ranks"),
    ("g", "select the next GPU, or all GPUs"),
    ("o", "sort the hottest lines by share, file or phase"),
    ("enter", "manual page of the selected finding (arrow keys select)"),
    ("c", "copy the command of the selected finding"),
    ("R", "start or stop recording ticks to a file"),
    ("s", "save the current report"),
    ("t", "light or dark"),
    ("?", "these keys"),
)


class TickProvider(Protocol):
    """Where ticks come from: a live process, or a recorded one."""

    def tick(self) -> Tick | None:
        """The next tick; None at the end of a recording. It may raise: the screen goes on with the last one."""

    def pause(self, on: bool) -> None:
        """Stop looking, or go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """What keys do outside the screen; each gives a sentence to show."""

    manual: Callable[[str, int], str]
    """The manual page of a code in so many columns."""
    save: Callable[[Tick], str]
    record: Callable[[bool], str]
    """Begin or end a recording of ticks; the file's name, or "" when it has ended."""
    kill: Callable[[int], str] | None = None
    """Ends a process; None unless the user asked for it."""


class WatchApp(App[None]):
    """The screen of `gpudoctor watch`."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "gpudoctor watch"
    CSS = """
    Screen { layout: vertical; }
    #header { height: 1; }
    #verdict { height: 2; margin: 0 0; }
    .row { height: 1fr; }
    #low { height: 1fr; }
    #findings {
        height: auto; min-height: 4; max-height: 40%; border: none; border-top: solid $foreground 30%;
        border-title-color: $foreground; padding: 0; background: transparent;
    }
    Panel { padding: 0 1 0 0; }
    #gpus, #phases, #places, #ranks, #host {
        border-top: solid $foreground 30%; border-title-color: $foreground; height: 1fr; width: 1fr;
    }
    #side { width: 1fr; height: 1fr; }
    #host { height: 1fr; }
    #findings > .option-list--option-highlighted { background: $foreground 15%; text-style: bold; }
    #keys { height: 1; color: $text-muted; }
    #small { display: none; padding: 1; }
    .too-small > * { display: none; }
    .too-small > #small { display: block; }
    #page { margin: 1 2; border: round $foreground 50%; padding: 0 1; background: $surface; }
    """
    BINDINGS = [
        Binding("q,ctrl+c", "quit", "quit", priority=True),
        Binding("p,space", "pause", "pause"),
        Binding("r", "rank", "rank"),
        Binding("g", "gpu", "gpu"),
        Binding("o", "sort", "order"),
        Binding("c", "copy", "copy"),
        Binding("R", "record", "record"),
        Binding("s", "save", "save"),
        Binding("t", "theme", "theme"),
        Binding("K", "kill", "kill"),
        Binding("question_mark", "keys", "keys"),
    ]

    class Arrived(Message):
        """A tick is there."""

        def __init__(self, tick: Tick) -> None:
            super().__init__()
            self.tick = tick

    class Failed(Message):
        """A tick could not be taken."""

        def __init__(self, error: str) -> None:
            super().__init__()
            self.error = error

    def __init__(
        self, source: TickProvider, actions: Actions, *, interval: float = 1.0, view: View | None = None
    ) -> None:
        super().__init__()
        self._source, self._actions, self._interval = source, actions, interval
        self.view = view or View()
        self.tick: Tick | None = None
        self.whole: Tick | None = None
        """The tick as it came, for files."""
        self.fatal: DoctorError | None = None
        """Why nothing can be watched at all; the application has ended then."""
        self._shown: Report | None = None

    def compose(self) -> ComposeResult:
        """The panels, top to bottom."""
        yield Header(id="header")
        yield VerdictLine(id="verdict")
        with Horizontal(classes="row", id="top"):
            yield Gpus(id="gpus")
            yield Phases(id="phases")
        with Horizontal(classes="row", id="middle"):
            yield PlacesTable(id="places")
            with Vertical(id="side"):
                yield Ranks(id="ranks")
                yield HostPanel(id="host")
        yield Findings(id="findings")
        yield Static(_key_line(self._actions), id="keys", markup=False)
        yield Static(f"This view needs {LEAST_WIDTH} x {LEAST_HEIGHT} characters.", id="small", markup=False)

    def on_mount(self) -> None:
        """Look at once; what loads meanwhile does so behind the first frame."""
        self.query_one("#gpus").border_title = "gpu"
        self.query_one("#phases").border_title = "where the loop is"
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
                    self.post_message(self.Failed(str(error)))
                except Exception as error:  # noqa: BLE001  # the screen shows it and goes on with the last tick
                    self.post_message(self.Failed(f"{type(error).__name__}: {error}"))
                else:
                    if tick is None:
                        return
                    self.post_message(self.Arrived(tick))
            while time.monotonic() - began < self._interval and not worker.is_cancelled:
                time.sleep(_BEAT)

    def on_watch_app_arrived(self, message: Arrived) -> None:
        """Show a tick; of its report only what a terminal may show."""
        tick = message.tick
        if tick.report is not self._shown:
            self._shown = tick.report
            self._clean = for_reader(replace(tick.report, checks=()))
        self.tick = replace(tick, report=self._clean)
        self.whole = tick
        if self.view.error:
            self.view = replace(self.view, error="")
        self.show()

    def on_watch_app_failed(self, message: Failed) -> None:
        """Say what failed, above the last tick."""
        self.view = replace(self.view, error=message.error)
        self.show()

    def on_resize(self, event: Resize) -> None:
        """Too small a terminal gets a sentence in place of a ruin."""
        small = event.size.width < LEAST_WIDTH or event.size.height < LEAST_HEIGHT
        for screen in self.screen_stack[:1]:
            screen.set_class(small, "too-small")

    def show(self) -> None:
        """Draw the tick in the view."""
        if self.tick is None or not self.screen_stack:  # a last tick may come while the application ends
            return
        base = self.screen_stack[0]
        for panel in base.query(Panel):
            panel.show(self.tick, self.view)
        for findings in base.query(Findings):  # none while the application ends
            findings.show(self.tick, self.view)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click: the manual page."""
        del event
        chosen = self._chosen
        if chosen is not None:
            width = max(40, min(100, self.size.width - 10))
            self.push_screen(
                TextScreen(str(chosen.finding.code), self._actions.manual(chosen.finding.code, width))
            )

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        self.view = replace(self.view, paused=not self.view.paused)
        self._source.pause(self.view.paused)
        self.show()

    def action_rank(self) -> None:
        """The next rank."""
        if self.tick is not None:
            self.view = replace(
                self.view, rank=next_choice(self.view.rank, len(self.tick.window.ranks)), gpu=None
            )
            self.show()

    def action_gpu(self) -> None:
        """The next GPU."""
        if self.tick is not None:
            gpus = shown_gpus(self.tick.window, self.view)
            self.view = replace(self.view, gpu=next_choice(self.view.gpu, len(gpus)))
            self.show()

    def action_sort(self) -> None:
        """The next order of the lines."""
        self.view = replace(self.view, sort=SORTS[(SORTS.index(self.view.sort) + 1) % len(SORTS)])
        self.show()

    def action_copy(self) -> None:
        """The command that shows or cures the chosen finding, to the clipboard (by the terminal: OSC 52)."""
        chosen = self._chosen
        command = command_of(chosen) if chosen else f"gpudoctor watch {self._pids()}"
        self.copy_to_clipboard(command)
        self.notify(command, title="copied")

    def action_record(self) -> None:
        """Begin or end a recording."""
        self._do(lambda: self._set_recording(self._actions.record(not self.view.recording)))

    def action_save(self) -> None:
        """Save the report of this tick."""
        tick = self.whole
        if tick is not None:
            self._do(lambda: self.notify(self._actions.save(tick), title="saved"))

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"

    def action_kill(self) -> None:
        """End the chosen rank's process; only where the user has allowed it."""
        kill = self._actions.kill
        if kill is None or self.tick is None:
            return
        ranks = self.tick.window.ranks
        rank = ranks[self.view.rank or 0]
        if len(ranks) > 1 and self.view.rank is None:
            self.notify("select a rank first (r)", title="kill")
            return
        self._do(lambda: self.notify(kill(rank.pid), title="kill"))

    def action_keys(self) -> None:
        """The page of keys."""
        rows = (*_KEYS, ("K", "end the selected process")) if self._actions.kill else _KEYS
        letters = [(letter, phase_name(phase)) for phase, letter in LETTERS.items()]
        self.push_screen(TextScreen("keys", keys_text(rows, letters)))

    @property
    def _chosen(self) -> Ranked | None:
        return self.screen_stack[0].query_one(Findings).chosen

    def _pids(self) -> str:
        return " ".join(str(rank.pid) for rank in self.tick.window.ranks) if self.tick else "--find"

    def _set_recording(self, name: str) -> None:
        self.view = replace(self.view, recording=name)
        self.notify(name or "the recording has ended", title="recording")
        self.show()

    def _do(self, act: Callable[[], None]) -> None:
        """An action outside the screen: what fails there is a sentence."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  # a full disk or a lost process must not end the watch
            self.notify(str(error) or type(error).__name__, title="failed", severity="error")


def command_of(item: Ranked) -> str:
    """What to type about a finding: the command that shows it by hand, else its manual page."""
    from gpudoctor.report.units import evidence_command

    shown = next(filter(None, map(evidence_command, item.finding.evidence)), None)
    return shown or f"gpudoctor explain {item.finding.code}"


def _key_line(actions: Actions) -> str:
    extra = "  K kill" if actions.kill else ""
    return f"q quit  p pause  r rank  g gpu  o order  enter explain  c copy  R record  s save  ? keys{extra}"
