"""The report as one self-contained page: no font, no picture, no script from elsewhere; plots as inline SVG.

The `.jinja` files are the pages, `page` fills them. `findings_part`, `run_part` and `comparison_page` say what they
show, `charts` draws, `axes` finds round numbers.
"""

from gpudoctor.report.html.page import render

__all__ = ["render"]
