"""The report as one self-contained page: no font, no picture, no script from elsewhere; plots as inline SVG.

The `.jinja` files are the page, `page` fills them. `findings_part` and `run_part` say what it shows, `charts` draws,
`axes` finds round numbers.
"""

from gpudoctor.report.html.page import render

__all__ = ["render"]
