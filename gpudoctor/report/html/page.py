"""The page: verdict, findings with what to do, the run, and every outcome."""

import html
from collections import Counter
from collections.abc import Iterator

from gpudoctor.model import Crashed, Found, Measurement, Passed, Ranked, Remedy, Report, Skipped
from gpudoctor.report.html.log_part import log_part
from gpudoctor.report.html.run_part import run_part
from gpudoctor.report.html.style import STYLE
from gpudoctor.report.html.synthetic_part import synthetic_part
from gpudoctor.report.log_words import read_words
from gpudoctor.report.printable import one_line
from gpudoctor.report.run_words import run_facts
from gpudoctor.report.steps import is_code
from gpudoctor.report.units import (
    confidence_text,
    cost_text,
    evidence_command,
    evidence_content,
    evidence_place,
    facts_line,
)
from gpudoctor.text import count

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is fetched and nothing is executed, whatever a text in the report may hold."""


def render(report: Report) -> str:
    """The whole page as one HTML document."""
    title = f"gpudoctor: {report.subject.title}"
    body = "\n".join(_body(report))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _body(report: Report) -> Iterator[str]:
    yield f'<p class="facts">{_text(" · ".join(_heading(report)))}</p>'
    yield f"<h1>{_text(report.summary.verdict)}</h1>"
    if report.synthetic is not None:
        yield from synthetic_part(report.synthetic)
    if report.findings:
        yield "<h2>What to do, in this order</h2>"
        for item in report.findings:
            yield from _finding(item)
    if report.run is not None:
        yield from run_part(report.run)
    if report.log is not None:
        yield from log_part(report.log)
    yield from _examination(report)
    where = f" · {_text(report.run.recording)}" if report.run else ""
    yield f"<footer>gpudoctor {_text(report.version)}{where}</footer>"


def _heading(report: Report) -> list[str]:
    subject = report.subject
    parts = ["gpudoctor", subject.title]
    if report.run is not None:
        return [*parts, *run_facts(report.run)]
    if report.log is not None:
        parts.append(read_words(report.log))
    parts += [name if count == 1 else f"{count} x {name}" for name, count in Counter(subject.gpus).items()]
    return parts + [f"{label} {value}" for label, value in subject.details]


def _finding(item: Ranked) -> Iterator[str]:
    finding = item.finding
    severity = finding.severity.value
    yield f'<section class="finding {severity}">'
    yield (
        f"<h3><span>{item.rank}. {_text(finding.code)} {_text(finding.name)}</span>"
        f'<span class="severity {severity}">{severity}, {confidence_text(finding)}</span></h3>'
    )
    yield f"<p>{_text(finding.message)}</p>"
    for evidence in finding.evidence:
        if not isinstance(evidence, Measurement):
            yield f"<pre>{_text(evidence_place(evidence))}   {_text(evidence_content(evidence))}</pre>"
    if item.remedies:
        yield '<ul class="remedies">'
        yield from (_remedy(remedy) for remedy in item.remedies)
        yield "</ul>"
    yield from _evidence(item)
    yield "</section>"


def _remedy(remedy: Remedy) -> str:
    steps = [step for step in remedy.steps if one_line(step).rstrip(".") not in remedy.title]
    shown = "".join(f"<pre>{_text(step)}</pre>" if is_code(step) else f"<p>{_text(step)}</p>" for step in steps)
    effect = f'<span class="effect">{_text(facts_line(remedy))}</span>'
    return f"<li>fix: <b>{_text(remedy.title)}</b> {effect}{shown}</li>"


def _evidence(item: Ranked) -> Iterator[str]:
    """All evidence, its cost and the reason for its rank, folded."""
    yield "<details><summary>evidence and rank</summary><table>"
    for evidence in item.finding.evidence:
        command = evidence_command(evidence)
        by_hand = f"<br><code>$ {_text(command)}</code>" if command else ""
        place, content = _text(evidence_place(evidence)), _text(evidence_content(evidence))
        yield f"<tr><th>{place}</th><td>{content}{by_hand}</td></tr>"
    if price := cost_text(item.finding.cost):
        yield f"<tr><th>cost</th><td>{_text(price)}</td></tr>"
    yield f"<tr><th>ranked {item.rank}</th><td>{_text(item.reason)}</td></tr>"
    for aside in item.set_aside:
        yield f"<tr><th>set aside</th><td>{_text(aside.remedy.title)}: {_text(aside.reason)}</td></tr>"
    yield "</table></details>"


def _examination(report: Report) -> Iterator[str]:
    """What passed, what was skipped and why, what crashed."""
    summary = report.summary
    parts = [f"{count(summary.passed, 'check')} passed", f"{summary.skipped:,} skipped"]
    parts += [f"{summary.crashed:,} crashed"] if summary.crashed else []
    parts += [f"{summary.silenced:,} silenced"] if summary.silenced else []
    yield f"<h2>The examination</h2><p>{_text(', '.join(parts))}.</p>"
    yield from (f"<p>incomplete: {_text(problem)}</p>" for problem in report.problems)
    yield from (f"<p>remark: {_text(remark)}</p>" for remark in report.remarks)
    names = {item.code: item.name for item in report.checks}
    yield "<details><summary>every check</summary><table>"
    for outcome in report.outcomes:
        match outcome:
            case Passed():
                words = ("passed", "")
            case Found():
                words = ("found", count(len(outcome.findings), "finding"))
            case Skipped():
                words = ("not selected" if outcome.deselected else "skipped", outcome.reason)
            case Crashed():
                words = ("crashed", outcome.error)
        name = f"{outcome.code} {names.get(outcome.code, '')}"
        yield f"<tr><th>{_text(name)}</th><td>{words[0]}</td><td>{_text(words[1])}</td></tr>"
    yield "</table></details>"


def _text(text: str) -> str:
    """Text on one line, safe anywhere between tags."""
    return html.escape(one_line(text))
