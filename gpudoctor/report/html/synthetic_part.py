"""What the page shows of a synthetic job: memory beside its estimate, speed, and the program."""

import html
from collections.abc import Iterator

from gpudoctor.model.run import SyntheticSummary
from gpudoctor.report.printable import one_line
from gpudoctor.report.synthetic_words import job_words, memory_heading, memory_rows, small_print, speed_words


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


def _text(text: str) -> str:
    return html.escape(one_line(text))
