"""Markdown that fits a comment on a pull request: verdict, table, a folded section for each finding."""

import re

from gpudoctor.lang import say
from gpudoctor.model import Crashed, Evidence, Ranked, Report, Setting, Skipped, SourceSpan
from gpudoctor.report.preflight_words import figure_rows, preflight_facts, untested
from gpudoctor.report.printable import one_line, printable
from gpudoctor.report.run_words import (
    job_words,
    memory_heading,
    memory_rows,
    moment_rows,
    phase_rows,
    read_words,
    run_facts,
    speed_words,
)
from gpudoctor.report.units import (
    confidence_text,
    evidence_command,
    evidence_content,
    evidence_place,
    facts_line,
    fix_title,
    is_code,
)
from gpudoctor.text import count, percent

LONGEST = 60_000
"""Characters: GitHub refuses a comment above 65,536."""
_CELL = 200
_MOMENTS = 30
"""Rows of a time line."""
_SENTENCE = 60
"""Characters of a message in the table; the whole of it stands in the section below."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")


def render(report: Report) -> str:
    """The comment; findings that do not fit are counted, never cut in the middle."""
    head = (
        f"### gpudoctor: {escape(report.summary.verdict)}\n"
        + _synthetic(report)
        + _run(report)
        + _log(report)
        + _preflight(report)
    )
    tail = "\n".join(_tail(report)) + "\n"
    room = LONGEST - len(head) - len(tail) - 200
    rows, sections, left = [say("| # | finding | severity | where | what |"), "|--:|---|---|---|---|"], [""], 0
    used = sum(map(len, rows))
    for item in report.findings:
        row, section = _row(item), _section(item)
        used += len(row) + len(section) + 2
        if used > room:
            left += 1
            continue
        rows.append(row)
        sections.append(section)
    body = "\n".join([*rows, *sections]) + "\n" if report.findings else ""
    more = ""
    if left:
        hint = say("`gpudoctor check --format json` prints all of them")
        more = f"\n{count(left, 'more finding')} did not fit here; {hint}.\n"
    return f"{head}\n{body}{more}\n{tail}"


def _synthetic(report: Report) -> str:
    """The job that was made for it: memory beside its estimate, and speed."""
    job = report.synthetic
    if job is None:
        return ""
    lines = ["", escape(job_words(job))]
    if speed := speed_words(job):
        lines += ["", escape(speed)]
    rows = memory_rows(job)
    if rows:
        lines += ["", f"| {escape(memory_heading(job))} | estimated | measured | |", "|---|--:|--:|--:|"]
        lines += [f"| {' | '.join(map(escape, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _run(report: Report) -> str:
    """What was run: its facts, and where a step's time goes unless all is well."""
    run = report.run
    if run is None:
        return ""
    lines = ["", escape(" · ".join(run_facts(run)))] if run.steps else []
    rows = [] if run.healthy else phase_rows(run)
    if rows:
        lines += ["", say("| phase | of a step | time |"), "|---|--:|--:|"]
        lines += [f"| {escape(name)} | {percent(share)} | {each} |" for name, share, each in rows]
    return "\n".join(lines) + "\n" if lines else ""


def _log(report: Report) -> str:
    """What was read of the log, and the time line, folded."""
    log = report.log
    if log is None:
        return ""
    lines = ["", escape(read_words(log))]
    rows = [*moment_rows(log)][:_MOMENTS]
    if rows:
        lines += [
            "",
            "<details><summary>time line</summary>",
            "",
            say("| role | where | message |"),
            "|---|---|---|",
        ]
        lines += [f"| {escape(role)} | {escape(place)} | {code(text[:_CELL])} |" for role, place, text in rows]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _preflight(report: Report) -> str:
    """What nodes, cards and links reached: the slowest, the median, the fastest of each quantity."""
    found = report.preflight
    if found is None:
        return ""
    lines = ["", escape(" · ".join(preflight_facts(found)))]
    rows = figure_rows(found)
    if rows:
        lines += ["", say("| measured | slowest | median | fastest | times |"), "|---|--:|--:|--:|--:|"]
        lines += [
            f"| {escape(row.title)} | {escape(row.worst)} | {row.middle} | {row.best} | {row.measured} |"
            for row in rows
        ]
    lines += ["", *(f"- Not tested: {escape(text)}" for text in untested(found))]
    return "\n".join(lines).rstrip() + "\n"


def escape(text: str) -> str:
    """Text on one line that Markdown shows as it is: no cell ends, nobody is mentioned, no issue is linked."""
    return _SPECIAL.sub(r"\\\1", one_line(printable(text))).replace("@", "@&#8203;")


def code(text: str) -> str:
    """A code span on one line, fenced by more backticks than it holds; safe inside a table."""
    line = one_line(printable(text)).replace("|", "\\|")
    if not line:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _row(item: Ranked) -> str:
    finding = item.finding
    place = next((code(evidence_place(evidence)) for evidence in finding.evidence if _in_file(evidence)), None)
    cells = (
        str(item.rank),
        f"**{escape(finding.code)}** {escape(finding.name)}",
        f"{finding.severity.value}, {confidence_text(finding)}",
        place or escape(finding.subject),
        escape(_shortened(finding.message)),
    )
    return f"| {' | '.join(cells)} |"


def _in_file(evidence: Evidence) -> bool:
    return isinstance(evidence, SourceSpan) or (isinstance(evidence, Setting) and evidence.path is not None)


def _shortened(text: str) -> str:
    line = one_line(text)
    if len(line) <= _CELL:
        return line
    sentence = line.rfind(". ", 0, _CELL)
    if sentence >= _SENTENCE:
        return line[: sentence + 1]
    return (
        line[: _CELL - 3].rpartition(" ")[0] + "..." if " " in line[: _CELL - 3] else line[: _CELL - 3] + "..."
    )


def _section(item: Ranked) -> str:
    finding = item.finding
    lines = [
        "",
        f"<details><summary>{item.rank}. {_html(finding.code)} {_html(finding.name)}: what to do</summary>",
        "",
        escape(finding.message),
        "",
    ]
    for evidence in finding.evidence:
        command = evidence_command(evidence)
        by_hand = f", reproduce: {code(command)}" if command else ""
        lines.append(
            f"- evidence: {code(evidence_place(evidence))} {code(evidence_content(evidence))}{by_hand}"
        )
    for number, remedy in enumerate(item.remedies, start=1):
        lines += ["", f"{number}\\. fix: **{escape(fix_title(remedy))}**<br>{escape(facts_line(remedy))}", ""]
        lines += [f"   - {code(step) if is_code(step) else escape(step)}" for step in remedy.steps]
    return "\n".join([*lines, "", "</details>"])


def _html(text: str) -> str:
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _tail(report: Report) -> list[str]:
    summary = report.summary
    counts = [f"{summary.passed} passed", f"{summary.skipped} skipped", f"{summary.crashed} crashed"]
    if summary.silenced:
        counts.append(f"{summary.silenced} silenced")
    lines = [f"Checks: {', '.join(counts)}."]
    crashed = [item for item in report.outcomes if isinstance(item, Crashed)]
    lines += [f"- crashed: {escape(item.code)}: {escape(_shortened(item.error))}" for item in crashed[:20]]
    lines += [f"- incomplete: {escape(_shortened(problem))}" for problem in report.problems[:20]]
    lines += [f"- remark: {escape(_shortened(remark))}" for remark in report.remarks[:20]]
    reasons = dict.fromkeys(
        _shortened(item.reason) for item in report.outcomes if isinstance(item, Skipped) and not item.deselected
    )
    if reasons:
        lines.append(f"\nSkipped: {escape('; '.join(list(reasons)[:12]))}")
    return [*lines, f"\n<sub>gpudoctor {escape(report.version)}</sub>"]
