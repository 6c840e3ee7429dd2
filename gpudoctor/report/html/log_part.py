"""What the page shows of a job's log: the time line with the role of each message."""

import html
from collections.abc import Iterator

from gpudoctor.model.log_message import LogSummary
from gpudoctor.report.log_words import moment_rows
from gpudoctor.report.printable import one_line


def log_part(log: LogSummary) -> Iterator[str]:
    """The section about it; nothing where the log has no message that matters."""
    rows = [*moment_rows(log)]
    if not rows:
        return
    yield "<h2>Time line of the log</h2>"
    yield "<table><tr><th>role</th><th>where</th><th>message</th></tr>"
    for role, place, text in rows:
        yield f"<tr><th>{_text(role)}</th><td>{_text(place)}</td><td><code>{_text(text)}</code></td></tr>"
    yield "</table>"


def _text(text: str) -> str:
    return html.escape(one_line(text))
