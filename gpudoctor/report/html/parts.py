"""What the page shows of a job's log and of a synthetic job."""

from collections.abc import Iterator

from gpudoctor.model.log_message import LogSummary
from gpudoctor.model.run import SyntheticSummary
from gpudoctor.report.html.tags import text as _text
from gpudoctor.report.run_words import (
    job_words,
    memory_heading,
    memory_rows,
    moment_rows,
    small_print,
    speed_words,
)

# What the page shows of a job's log: the time line with the role of each message.


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


# What the page shows of a synthetic job: memory beside its estimate, speed, and the program.


def synthetic_part(job: SyntheticSummary) -> Iterator[str]:
    """The sections about it."""
    yield "<h2>A synthetic job: random weights, random tokens</h2>"
    yield f"<p>{_text(job_words(job))}</p>"
    if speed := speed_words(job):
        yield f"<p>{_text(speed)}</p>"
    rows = memory_rows(job)
    if rows:
        yield f"<h2>{_text(memory_heading(job))}</h2>"
        yield "<table><tr><th></th><th>estimated</th><th>measured</th><th></th></tr>"
        for name, *cells in rows:
            numbers = "".join(f'<td class="number">{_text(cell)}</td>' for cell in cells)
            yield f"<tr><th>{_text(name)}</th>{numbers}</tr>"
        yield "</table>"
    said = [*small_print(job), f"program: {job.script}"]
    listed = "".join(f"<li>{_text(text)}</li>" for text in said)
    yield f"<details><summary>about these numbers</summary><ul>{listed}</ul></details>"
