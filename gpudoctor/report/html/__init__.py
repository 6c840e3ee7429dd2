"""The report as one self-contained page: no script, no font, no picture from elsewhere; plots as inline SVG.

`page` puts it together, `charts` draws, `scales` finds round numbers for axes, `style` is the style sheet.
"""

from gpudoctor.report.html.page import render

__all__ = ["render"]
