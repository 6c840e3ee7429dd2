"""Markdown that fits a comment on a pull request: verdict, table, a folded section for each finding."""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from gpudoctor.estimate.fit import step_of
from gpudoctor.lang import rendered, tr
from gpudoctor.model import Crashed, Report
from gpudoctor.model.comparison import Comparison
from gpudoctor.report import comparison, estimate_words, preflight_words, run_words, trial_words, units
from gpudoctor.report.formula_words import formula_text
from gpudoctor.report.printable import one_line, printable
from gpudoctor.report.templating import environment
from gpudoctor.text import count, percent, size

if TYPE_CHECKING:
    from markupsafe import Markup

    from gpudoctor.estimate.answer import Answer

LONGEST = 60_000
"""Characters: GitHub refuses a comment above 65,536."""
_CELL = 200
_SENTENCE = 60
"""Characters of a message in the table; the whole of it stands in the section below."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")


def render(report: Report) -> str:
    """The comment; findings that do not fit are counted, never cut in the middle."""
    parts = _parts()
    head, tail = str(parts.head(report)), str(parts.tail(report))
    room = LONGEST - len(head) - len(tail) - 200
    rows, sections, left = [tr("| # | finding | severity | where | what |"), "\n|--:|---|---|---|---|\n"], [], 0
    for item in report.findings:
        row, section = str(parts.row(item)), str(parts.section(item))
        room -= len(row) + len(section)
        if room < 0:
            left += 1
            continue
        rows.append(row)
        sections.append(section)
    body = "".join([*rows, *sections]) if report.findings else ""
    said = tr(
        "{findings} did not fit here; `gpudoctor check --format json` prints all of them.",
        findings=count(left, "more finding"),
    )
    more = f"\n{said}\n" if left else ""
    return f"{head}\n{body}{more}\n{tail}"


def render_comparison(item: Comparison) -> str:
    """The comparison as a comment for a pull request."""
    return str(_parts().comparison(item))


def render_estimate(answer: "Answer", *, explain: bool = False) -> str:
    """The estimate with tables that fit a comment; `explain` adds formulas and sources to the lines."""
    return str(_parts().estimate(answer, explain))


@cache
def _parts() -> Any:
    """The macros of the template, which call the words of a report."""
    made = environment("gpudoctor.report", escape)
    for module in (comparison, preflight_words, run_words, trial_words, units, estimate_words):
        made.globals |= {name: value for name, value in vars(module).items() if callable(value)}
    made.globals |= {"code": code, "shortened": shortened}
    made.globals |= {"crashed": lambda report: [item for item in report.outcomes if isinstance(item, Crashed)]}
    made.globals |= {"formula_text": formula_text, "step_of": step_of}
    made.filters |= {"percent": percent, "size": size, "shortened": shortened}
    return made.get_template("markdown.jinja").module


def escape(text: str) -> "Markup":
    """Text on one line that Markdown shows as it is: no cell ends, nobody is mentioned, no issue is linked.

    In the reader's language.
    """
    from markupsafe import Markup

    return Markup(_SPECIAL.sub(r"\\\1", one_line(printable(rendered(text)))).replace("@", "@&#8203;"))


def code(text: str) -> "Markup":
    """A code span on one line, fenced by more backticks than it holds; safe inside a table."""
    from markupsafe import Markup

    line = one_line(printable(text)).replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return Markup(f"{fence}{pad}{line}{pad}{fence}" if line else "")


def shortened(text: str) -> str:
    """A sentence or so of a text."""
    line = one_line(text)
    if len(line) <= _CELL:
        return line
    sentence = max(line.rfind(". ", 0, _CELL), line.rfind("。", 0, _CELL))
    if sentence >= _SENTENCE:
        return line[: sentence + 1]
    return (line[: _CELL - 3].rpartition(" ")[0] or line[: _CELL - 3]) + "..."
