"""The page: its style, verdict, findings with what to do, the run, and every outcome."""

import html
from collections import Counter
from collections.abc import Iterator

from gpudoctor.model import Crashed, Found, Measurement, Passed, Ranked, Remedy, Report, Skipped
from gpudoctor.report.html.parts import log_part, run_part, synthetic_part
from gpudoctor.report.html.preflight_part import preflight_part
from gpudoctor.report.preflight_words import preflight_facts
from gpudoctor.report.printable import one_line
from gpudoctor.report.run_words import read_words, run_facts
from gpudoctor.report.units import (
    confidence_text,
    cost_text,
    evidence_command,
    evidence_content,
    evidence_place,
    facts_line,
    fix_title,
    is_code,
)
from gpudoctor.text import count

# The style sheet of the page: light and dark, for paper too; severity is a word before it is a colour.

STYLE = """
:root { --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --panel: #f6f8fa; --rule: #d1d9e0;
  --error: #b3261e; --warning: #8a5a00; --note: #0b6472;
  --c0: #20639b; --c1: #c2571a; --c2: #3c8031; --c3: #8250a8; --c4: #a3811b; --c5: #b0386b; --c6: #227f80;
  --c7: #6e5344; --c8: #5566c4; --c9: #7a7f16; --c10: #9c4221; --c11: #8b949e; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e6edf3; --soft: #9aa5b1; --paper: #0f1318; --panel: #171c22;
  --rule: #303842; --error: #ff8a80; --warning: #e6b450; --note: #67d0dd;
  --c0: #64a9e8; --c1: #ef935c; --c2: #79c26b; --c3: #c094e4; --c4: #dbb64d; --c5: #ec7fac; --c6: #5cc0c1;
  --c7: #b7957f; --c8: #93a1f0; --c9: #bcc24f; --c10: #dd8767; --c11: #768390; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 860px; padding: 28px 20px 60px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 21px; margin: 4px 0 12px; line-height: 1.35; }
h2 { font-size: 15px; margin: 34px 0 10px; padding-bottom: 4px; border-bottom: 1px solid var(--rule); }
p { margin: 6px 0; }
code, pre, .mono { font: 13px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { background: var(--panel); padding: 6px 10px; overflow-x: auto; margin: 6px 0; border-radius: 4px; }
.facts { color: var(--soft); margin: 0; }
.finding { border-left: 4px solid var(--rule); padding: 2px 0 2px 14px; margin: 18px 0; break-inside: avoid; }
.finding.error { border-color: var(--error); } .finding.warning { border-color: var(--warning); }
.finding.note { border-color: var(--note); }
.finding h3 { font-size: 15px; margin: 0 0 4px; display: flex; justify-content: space-between; gap: 12px; }
.severity { font-weight: 600; white-space: nowrap; }
.severity.error { color: var(--error); } .severity.warning { color: var(--warning); }
.severity.note { color: var(--note); }
.where { color: var(--soft); }
ul.remedies { margin: 8px 0 0; padding-left: 20px; } ul.remedies li { margin: 5px 0; }
.effect { color: var(--soft); }
details { margin: 6px 0; } summary { cursor: pointer; color: var(--soft); }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: 3px 10px 3px 0;
  vertical-align: top; border-bottom: 1px solid var(--rule); font-weight: normal; }
th { color: var(--soft); } td.number, th.number { text-align: right; white-space: nowrap; }
.bar { height: 14px; border-radius: 2px; min-width: 1px; }
td.track { width: 48%; }
figure { margin: 18px 0 6px; break-inside: avoid; } figcaption { font-weight: 600; margin-bottom: 2px; }
svg { width: 100%; height: auto; display: block; font: 11px system-ui, sans-serif; }
svg text { fill: var(--soft); } svg .end { text-anchor: end; } svg .mid { text-anchor: middle; }
svg .grid { stroke: var(--rule); fill: none; stroke-width: 1; } svg .tick { stroke: var(--soft); fill: none; }
svg .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke: currentColor; }
svg .band { stroke: var(--paper); stroke-width: .6; fill: currentColor; fill-opacity: .82; }
svg .heat { fill: var(--c5); } svg .failed rect { fill: none; stroke: var(--soft); }
svg .failed path { stroke: currentColor; stroke-width: 1; } td.wide { width: 50%; }
svg .label { font-weight: 600; fill: currentColor; } svg .dot { fill: transparent; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); } .c7 { color: var(--c7); }
.c8 { color: var(--c8); } .c9 { color: var(--c9); } .c10 { color: var(--c10); } .c11 { color: var(--c11); }
.bar.c0, .bar.c1, .bar.c2, .bar.c3, .bar.c4, .bar.c5, .bar.c6, .bar.c7, .bar.c8, .bar.c9, .bar.c10, .bar.c11 {
  background: currentColor; }
footer { margin-top: 40px; color: var(--soft); font-size: 13px; }
@media print { body { max-width: none; padding: 0; } details { display: none; } }
"""


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
    if report.preflight is not None:
        yield from preflight_part(report.preflight)
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
    if report.preflight is not None:
        return [*parts, *preflight_facts(report.preflight)]
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
    return f"<li>fix: <b>{_text(fix_title(remedy))}</b> {effect}{shown}</li>"


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
        yield f"<tr><th>set aside</th><td>{_text(fix_title(aside.remedy))}: {_text(aside.reason)}</td></tr>"
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
