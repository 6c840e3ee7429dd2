"""The page: verdict, where the time goes, findings with what to do, the run, and every outcome."""

import re
from collections import Counter
from collections.abc import Iterator

from gpudoctor.lang import current_language, rendered, tr, word
from gpudoctor.lang.wrapping import cells
from gpudoctor.model import Crashed, Found, Passed, Report, Skipped
from gpudoctor.report.html.findings_part import findings_part
from gpudoctor.report.html.parts import log_part, synthetic_part
from gpudoctor.report.html.preflight_part import preflight_part
from gpudoctor.report.html.run_part import axis_inputs, phases_part, run_part, tiles
from gpudoctor.report.html.style import POLICY, SCRIPT, STYLE
from gpudoctor.report.html.tags import heading, listed, text
from gpudoctor.report.preflight_words import preflight_facts
from gpudoctor.report.run_words import read_words
from gpudoctor.text import count

_LONG = 110
"""Columns from which on a headline is set smaller; a Chinese character takes two."""
_TAGS = {"zh": "zh-Hans"}
"""The language as browsers know it, where our code is not enough to choose a font."""
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])|(?<=[\u3002\uff01\uff1f])(?=.)")
"""Between two sentences."""


def render(report: Report) -> str:
    """The whole page as one HTML document."""
    body = "\n".join(_body(report))
    title = tr("gpudoctor: {title}", title=report.subject.title)
    return document(title, body, inputs=axis_inputs(report.run))


def document(title: str, body: str, *, inputs: str = "") -> str:
    """A page of its own; `inputs` are choices that its style sheet reads."""
    language = current_language()
    labels = f'data-copy="{text(tr("copy"))}" data-copied="{text(tr("copied"))}"'  # of the copy buttons
    return (
        f'<!DOCTYPE html>\n<html lang="{_TAGS.get(language, language)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body {labels}>\n"
        f"{inputs}<main>\n{body}\n</main>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def headline(verdict: str) -> str:
    """The verdict: its first sentence large, the others below it."""
    first, *others = _SENTENCE.split(rendered(verdict), maxsplit=1)
    lead = f'<p class="lead">{text(others[0])}</p>' if others else ""
    size = ' class="long"' if cells(first) > _LONG else ""
    return f"<h1{size}>{text(first)}</h1>{lead}"


def _body(report: Report) -> Iterator[str]:
    yield f'<p class="facts">{text(" · ".join(_heading(report)))}</p>'
    yield headline(report.summary.verdict)
    if report.run is not None:
        yield tiles(report.run)
        yield from phases_part(report.run)
    if report.synthetic is not None:
        yield from synthetic_part(report.synthetic)
    yield from findings_part(report)
    if report.run is not None:
        yield from run_part(report)
    if report.log is not None:
        yield from log_part(report.log)
    if report.preflight is not None:
        yield from preflight_part(report.preflight)
    yield from _examination(report)
    where = f" · {text(report.run.recording)}" if report.run else ""
    yield f"<footer>gpudoctor {text(report.version)}{where}</footer>"


def _heading(report: Report) -> list[str]:
    subject, run = report.subject, report.run
    parts = ["gpudoctor", subject.title]
    if run is not None:
        names = Counter(gpu.name for gpu in run.gpus if gpu.name)
        parts += [name if cards == 1 else f"{cards} x {name}" for name, cards in names.items()]
        parts += [subject.host or run.node, run.started[:16].replace("T", " ")]
        parts += [tr("commit {commit}", commit=run.commit)] if run.commit else []
        return list(filter(None, parts))
    if report.log is not None:
        parts.append(read_words(report.log))
    if report.preflight is not None:
        return [*parts, *preflight_facts(report.preflight)]
    parts += [name if count == 1 else f"{count} x {name}" for name, count in Counter(subject.gpus).items()]
    return parts + [f"{word(label)} {rendered(value)}" for label, value in subject.details]


def _examination(report: Report) -> Iterator[str]:
    """What passed, what was skipped and why, what crashed."""
    summary = report.summary
    parts = [
        tr("{checks} passed", checks=count(summary.passed, "check")),
        tr("{skipped:,} skipped", skipped=summary.skipped),
    ]
    parts += [tr("{crashed:,} crashed", crashed=summary.crashed)] if summary.crashed else []
    parts += [tr("{silenced:,} silenced", silenced=summary.silenced)] if summary.silenced else []
    yield heading(tr("The examination"))
    yield f"<p>{text(tr('{parts}.', parts=listed(parts)))}</p>"
    yield from (f"<p>{text(tr('incomplete: {problem}', problem=item))}</p>" for item in report.problems)
    yield from (f"<p>{text(tr('remark: {remark}', remark=remark))}</p>" for remark in report.remarks)
    names = {item.code: item.name for item in report.checks}
    yield '<details class="fold"><summary>' + text(tr("every check")) + "</summary><table>"
    for outcome in report.outcomes:
        match outcome:
            case Passed():
                words = (tr("passed"), "")
            case Found():
                words = (tr("found"), count(len(outcome.findings), "finding"))
            case Skipped():
                words = (tr("not selected") if outcome.deselected else tr("skipped"), outcome.reason)
            case Crashed():
                words = (tr("crashed"), outcome.error)
        name = f"{outcome.code} {names.get(outcome.code, '')}"
        yield f"<tr><th>{text(name)}</th><td>{words[0]}</td><td>{text(words[1])}</td></tr>"
    yield "</table></details>"
