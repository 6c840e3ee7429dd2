"""Text for a terminal, a pipe or a job log, laid out with Rich."""

from gpudoctor.ui.console.text_report import render_preflight, render_text

__all__ = ["render_preflight", "render_text"]
