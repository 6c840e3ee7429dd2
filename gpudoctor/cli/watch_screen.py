"""`gpudoctor watch` on a terminal: the application, and what its keys do outside the screen."""

import argparse
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.output import tell, write_file
from gpudoctor.cli.reporting import rendered

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry
    from gpudoctor.model.watch import Tick
    from gpudoctor.ui.watch.app import Actions
    from gpudoctor.watch.session import WatchSession


Opened = Callable[[], "tuple[WatchSession, Registry]"]


class LazySession:
    """Opens the session at the first tick, in the application's thread: the first frame need not wait for it."""

    def __init__(self, open_session: Opened) -> None:
        self._open = open_session
        self._session: WatchSession | None = None
        self.registry: Registry | None = None

    def tick(self) -> "Tick":
        """The next tick."""
        if self._session is None:
            self._session, self.registry = self._open()
        return self._session.tick()

    def pause(self, on: bool) -> None:
        """Stop looking, or go on."""
        if self._session is not None:
            self._session.pause(on)


def show(open_session: Opened, arguments: argparse.Namespace) -> int:
    """Run the application until the user quits; the last verdict stays on the terminal."""
    from gpudoctor.engine.exit_codes import exit_code
    from gpudoctor.ui.watch.app import WatchApp

    lazy = LazySession(open_session)
    app = WatchApp(lazy, _actions(lazy, arguments), interval=arguments.interval)
    app.run()
    if app.fatal is not None:
        raise app.fatal
    if app.whole is None:
        return 0
    tell("gpudoctor: {verdict}\n", verdict=app.whole.report.summary.verdict)
    return exit_code(app.whole.report, arguments.fail_on, arguments.strict)


def _actions(lazy: LazySession, arguments: argparse.Namespace) -> "Actions":
    from gpudoctor.ui.watch.app import Actions

    def manual(code: str, width: int) -> str:
        from gpudoctor.engine.manual import read_page
        from gpudoctor.model import Code
        from gpudoctor.ui.console.manual_page import render_manual_page

        if lazy.registry is None:
            return ""
        return render_manual_page(read_page(lazy.registry.checks[Code(code)]), width=width)

    def save(tick: "Tick") -> str:
        endings = {"text": "txt", "markdown": "md", "github": "txt", "nagios": "txt", "junit": "xml"}
        ending = endings.get(arguments.format, arguments.format)
        name = f"gpudoctor-watch-{tick.window.ranks[0].pid}-{time.strftime('%H%M%S')}.{ending}"
        write_file(Path(name), rendered(tick.report, arguments, "error", stream=io.StringIO()).text, "save")
        return name

    return Actions(manual=manual, save=save)
