"""The style sheet of the page and its one script: light and dark, for paper too, colours from the palette."""

import base64
import hashlib
from importlib.resources import files

from gpudoctor.report.palette import CURVES, PHASES, SEVERITIES


def _variables(dark: bool) -> str:
    """Every colour of the palette as a custom property."""
    named = {f"p-{name.replace('_', '-')}": colour for name, colour in PHASES.items()}
    named |= {f"c{place}": colour for place, colour in enumerate(CURVES)}
    named |= dict(SEVERITIES)
    return " ".join(f"--{name}: {colour.dark if dark else colour.light};" for name, colour in named.items())


def _classes() -> str:
    names = [f"p-{name.replace('_', '-')}" for name in PHASES] + [f"c{place}" for place in range(len(CURVES))]
    return "\n".join(f".{name} {{ color: var(--{name}); }}" for name in names)


def _file(name: str) -> str:
    return files("gpudoctor.report.html").joinpath(name).read_text("utf-8")


_PAPER = "--ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --panel: #f6f8fa; --rule: #d8dee4;"
_NIGHT = "--ink: #e6edf3; --soft: #9aa5b1; --paper: #0f1318; --panel: #171c22; --rule: #303842;"
_LIGHT, _DARK = f"{_PAPER} {_variables(False)}", f"{_NIGHT} {_variables(True)}"

STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
@media print {{ :root {{ color-scheme: light; {_LIGHT} }} }}
{_classes()}
{_file("page.css")}"""

SCRIPT = _file("page.js")
"""Copy buttons; without scripts the page lacks them and nothing else."""

_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'"
"""Nothing is fetched, and nothing but our own script is executed, whatever a text in the report may hold."""
