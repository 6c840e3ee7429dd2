"""Reporters: each turns the data of a report into text. They decide nothing and print nothing.

One module a format, with one function `render(report) -> str`, imported when its format is asked for.
`text` is not here: it needs Rich and lives in `gpudoctor.ui.console`.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from gpudoctor.lang import ENGLISH, speaking

if TYPE_CHECKING:
    from gpudoctor.model import Report

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "json": "gpudoctor.report.json",
        "sarif": "gpudoctor.report.sarif",
        "junit": "gpudoctor.report.junit",
        "github": "gpudoctor.report.github",
        "markdown": "gpudoctor.report.markdown",
        "html": "gpudoctor.report.html",
        "nagios": "gpudoctor.report.nagios",
    }
)
"""Name of a format and the module that renders it."""


_FOR_PEOPLE = frozenset({"markdown", "html"})
"""Formats that people read, in their own language."""
_BY_SEVERITY = frozenset({"junit"})
"""Formats that say which findings make the run fail."""


def render(report: "Report", format: str, fail_on: str = "error") -> str:
    """The report in a format of `FORMATS`, ending in a line feed; secrets are masked whatever the format.

    What people read is in the language of now, what programs read in English. `fail_on` is the lowest severity
    that makes the exit code 1.
    """
    from gpudoctor.report.few_notes import with_few_notes
    from gpudoctor.report.strings import for_reader, presentable

    module = importlib.import_module(FORMATS[format])
    further = (fail_on,) if format in _BY_SEVERITY else ()
    if format not in _FOR_PEOPLE:
        with speaking(ENGLISH):
            return cast(str, module.render(presentable(report), *further))
    shown = for_reader(with_few_notes(report))
    return cast(str, module.render(shown, *further))
