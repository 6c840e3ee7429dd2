"""What the page shows of a job's log and of a synthetic job."""

from collections.abc import Iterator

from gpudoctor.lang import tr
from gpudoctor.model.log_message import LogSummary
from gpudoctor.model.run import SyntheticSummary
from gpudoctor.report.html.tags import heading, heads
from gpudoctor.report.html.tags import text as _text
from gpudoctor.report.run_words import job_words, memory_heading, memory_rows, moment_rows, small_print, speed_words

# What the page shows of a job's log: the time line with the role of each message.


def log_part(log: LogSummary) -> Iterator[str]:
    """The section about it; nothing where the log has no message that matters."""
    rows = [*moment_rows(log)]
    if not rows:
        return
    yield heading(tr("Time line of the log"))
    yield f"<table>{heads(tr('role'), tr('where'), tr('message'))}"
    for role, place, text in rows:
        cells = f"<td>{_text(place)}</td><td><code>{_text(text)}</code></td>"
        yield f'<tr><th class="whole-word">{_text(role)}</th>{cells}</tr>'
    yield "</table>"


# What the page shows of a synthetic job: memory beside its estimate, speed, and the program.


def synthetic_part(job: SyntheticSummary) -> Iterator[str]:
    """The sections about it."""
    yield heading(tr("A synthetic job: random weights, random tokens"))
    yield f"<p>{_text(job_words(job))}</p>"
    if speed := speed_words(job):
        yield f"<p>{_text(speed)}</p>"
    rows = memory_rows(job)
    if rows:
        yield heading(memory_heading(job))
        yield f"<table>{heads('', tr('estimated'), tr('measured'), '', numbers=True)}"
        for name, *cells in rows:
            numbers = "".join(f'<td class="number">{_text(cell)}</td>' for cell in cells)
            yield f"<tr><th>{_text(name)}</th>{numbers}</tr>"
        yield "</table>"
    said = [*small_print(job), tr("program: {script}", script=job.script)]
    listed = "".join(f"<li>{_text(text)}</li>" for text in said)
    yield f"<details><summary>{_text(tr('about these numbers'))}</summary><ul>{listed}</ul></details>"
