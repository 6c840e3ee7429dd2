"""Jinja templates beside the code that fills them: every text is escaped, on one line, in the reader's language."""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from gpudoctor.lang import rendered, tr, word
from gpudoctor.report.printable import one_line, printable

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment(package: str, escape: Callable[[str], str] | None = None) -> "Environment":
    """The templates of a package, for HTML unless `escape` is another format's.

    Code is escaped as it is with `|e`; what is escaped already is marked `|safe`.
    """
    import jinja2

    def shown(value: Any) -> Any:
        if not isinstance(value, str) or hasattr(value, "__html__"):
            return value
        return escape(value) if escape else one_line(printable(rendered(value)))

    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: files(package).joinpath(name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    made.globals["_"] = tr
    made.filters |= {"fixed": lambda value, digits: f"{value:.{digits}f}", "word": word}
    return made
