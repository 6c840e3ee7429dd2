"""The report as one self-contained page: no font, no picture, no script from elsewhere; plots as inline SVG.

`page` puts it together. `findings_part`, `run_part`, `parts` and `preflight_part` are its sections, `charts`
draws, `axes` finds round numbers, `style` has the style sheet and the script of the copy buttons.
"""

from gpudoctor.report.html.page import render

__all__ = ["render"]
