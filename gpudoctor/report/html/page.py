"""The page: Jinja templates, which escape every text; what they show comes from the modules below.

Every text is put on one line and into the reader's language on its way into a page. Code is escaped as it is (`|e`).
"""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import TYPE_CHECKING

from gpudoctor.lang import current_language, rendered
from gpudoctor.lang.wrapping import cells
from gpudoctor.model import Report
from gpudoctor.report import palette, preflight_words, run_words, trial_words, units
from gpudoctor.report.html import findings_part, run_part
from gpudoctor.report.html.axes import run_axis
from gpudoctor.report.templating import environment
from gpudoctor.text import duration, percent, quantity, size

if TYPE_CHECKING:
    import jinja2

_LONG = 110
"""Columns from which on a headline is set smaller; a Chinese character takes two."""
_TAGS = {"zh": "zh-Hans"}
"""The language as browsers know it, where our code is not enough to choose a font."""
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])|(?<=[\u3002\uff01\uff1f])(?=.)")
"""Between two sentences."""
_CALLED: tuple[ModuleType, ...] = (preflight_words, run_words, trial_words, units, findings_part, run_part)
"""Modules whose public functions the templates call."""


def _file(name: str) -> str:
    """A file beside this module."""
    return files("gpudoctor.report.html").joinpath(name).read_text("utf-8")


SCRIPT = _file("page.js")
"""Copy buttons; without scripts the page lacks them and nothing else."""
_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'"
"""Nothing is fetched, and nothing but our own script is executed, whatever a text in the report may hold."""


def render(report: Report) -> str:
    """The report as one HTML document."""
    language, run = current_language(), report.run
    return (
        _environment()
        .get_template("report.jinja")
        .render(
            policy=POLICY + ("; img-src data:" if run is not None and run.shown else ""),
            language=_TAGS.get(language, language),
            title=report.subject.title,
            report=report,
            axis=run_axis(run) if run else None,
            names={item.code: item.name for item in report.checks},
        )
    )


@cache
def _environment() -> "jinja2.Environment":
    """The templates with all that they call."""
    made = environment("gpudoctor.report.html")
    functions = {name: value for module in _CALLED for name, value in vars(module).items() if callable(value)}
    constants = {
        "LEAST_SHARE": run_words.LEAST_SHARE,
        "phases": palette.PHASES,
        "curves": palette.CURVES,
        "severities": palette.SEVERITIES,
    }
    files = {"css": _file("page.css"), "script": SCRIPT}
    made.globals |= {"LEAST_SHARE": run_words.LEAST_SHARE, "sentences": _sentences, **functions, **constants, **files}
    made.filters |= {"duration": duration, "percent": percent, "quantity": quantity}
    made.filters |= {"phase": run_part.phase, "phase_class": run_part.phase_class, "size": size}
    return made


def _sentences(verdict: str) -> tuple[str, str, bool]:
    """The first sentence of a verdict, the others, and whether the first is long."""
    first, *others = _SENTENCE.split(rendered(verdict), maxsplit=1)
    return first, "".join(others), cells(first) > _LONG
