"""Markdown that fits a comment on a pull request: verdict, table, a folded section for each finding."""

import re

from gpudoctor.lang import rendered, tr, word
from gpudoctor.lang.message import row as in_a_row
from gpudoctor.model import Crashed, Evidence, Ranked, Report, Setting, Skipped, SourceSpan
from gpudoctor.model.log_message import LogSummary
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.preflight import Preflight
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
        + (_run(report.run) if report.run else "")
        + (_log(report.log) if report.log else "")
        + (_preflight(report.preflight) if report.preflight else "")
    )
    tail = "\n".join(_tail(report)) + "\n"
    room = LONGEST - len(head) - len(tail) - 200
    rows, sections, left = [tr("| # | finding | severity | where | what |"), "|--:|---|---|---|---|"], [""], 0
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
        said = tr(
            "{findings} did not fit here; `gpudoctor check --format json` prints all of them.",
            findings=count(left, "more finding"),
        )
        more = f"\n{said}\n"
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
        head = (escape(memory_heading(job)), tr("estimated"), tr("measured"))
        lines += ["", f"| {' | '.join(head)} | |", "|---|--:|--:|--:|"]
        lines += [f"| {' | '.join(map(escape, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _run(run: RunSummary) -> str:
    """What was run: its facts, and where a step's time goes unless all is well."""
    lines = ["", escape(" · ".join(run_facts(run)))] if run.steps else []
    rows = [] if run.healthy else phase_rows(run)
    if rows:
        lines += ["", tr("| phase | of a step | time |"), "|---|--:|--:|"]
        lines += [f"| {escape(word(name))} | {percent(share)} | {each} |" for name, share, each in rows]
    return "\n".join(lines) + "\n" if lines else ""


def _log(log: LogSummary) -> str:
    """What was read of the log, and the time line, folded."""
    lines = ["", escape(read_words(log))]
    rows = [*moment_rows(log)][:_MOMENTS]
    if rows:
        lines += [
            "",
            f"<details><summary>{tr('time line')}</summary>",
            "",
            tr("| role | where | message |"),
            "|---|---|---|",
        ]
        lines += [f"| {escape(role)} | {escape(place)} | {code(text[:_CELL])} |" for role, place, text in rows]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _preflight(found: Preflight) -> str:
    """What nodes, cards and links reached: the slowest, the median, the fastest of each quantity."""
    from gpudoctor.report.preflight_words import figure_rows, preflight_facts, untested

    lines = ["", escape(" · ".join(preflight_facts(found)))]
    rows = figure_rows(found)
    if rows:
        lines += ["", tr("| measured | slowest | median | fastest | times |"), "|---|--:|--:|--:|--:|"]
        lines += [
            f"| {escape(row.title)} | {escape(row.worst)} | {row.middle} | {row.best} | {row.measured} |"
            for row in rows
        ]
    lines += ["", *(f"- {escape(tr('Not tested: {text}', text=text))}" for text in untested(found))]
    return "\n".join(lines).rstrip() + "\n"


def escape(text: str) -> str:
    """Text on one line that Markdown shows as it is: no cell ends, nobody is mentioned, no issue is linked.

    In the reader's language.
    """
    return _SPECIAL.sub(r"\\\1", one_line(printable(rendered(text)))).replace("@", "@&#8203;")


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
        tr("{severity}, {sure}", severity=word(finding.severity.value), sure=confidence_text(finding)),
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
    sentence = max(line.rfind(". ", 0, _CELL), line.rfind("。", 0, _CELL))
    if sentence >= _SENTENCE:
        return line[: sentence + 1]
    return line[: _CELL - 3].rpartition(" ")[0] + "..." if " " in line[: _CELL - 3] else line[: _CELL - 3] + "..."


def _section(item: Ranked) -> str:
    finding = item.finding
    head = tr("{code} {name}: what to do", code=finding.code, name=finding.name)
    lines = ["", f"<details><summary>{item.rank}. {_html(head)}</summary>", "", escape(finding.message), ""]
    for evidence in finding.evidence:
        command = evidence_command(evidence)
        by_hand = tr(", reproduce: {command}", command=code(command)) if command else ""
        found = f"{code(evidence_place(evidence))} {code(evidence_content(evidence))}"
        lines.append(tr("- evidence: {found}{by_hand}", found=found, by_hand=by_hand))
    for number, remedy in enumerate(item.remedies, start=1):
        fix = tr("fix: {title}", title=f"**{escape(fix_title(remedy))}**")
        lines += ["", f"{number}\\. {fix}<br>{escape(facts_line(remedy))}", ""]
        lines += [f"   - {code(step) if is_code(step) else escape(step)}" for step in remedy.steps]
    return "\n".join([*lines, "", "</details>"])


def _html(text: str) -> str:
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _tail(report: Report) -> list[str]:
    summary = report.summary
    counts = [
        tr("{passed:,} passed", passed=summary.passed),
        tr("{skipped:,} skipped", skipped=summary.skipped),
        tr("{crashed:,} crashed", crashed=summary.crashed),
    ]
    if summary.silenced:
        counts.append(tr("{silenced:,} silenced", silenced=summary.silenced))
    lines = [tr("Checks: {counts}.", counts=in_a_row(", ", counts))]
    crashed = [item for item in report.outcomes if isinstance(item, Crashed)]
    lines += [
        f"- {tr('crashed: {code}: {error}', code=escape(item.code), error=escape(_shortened(item.error)))}"
        for item in crashed[:20]
    ]
    lines += [f"- {tr('incomplete: {problem}', problem=escape(_shortened(item)))}" for item in report.problems[:20]]
    lines += [f"- {tr('remark: {remark}', remark=escape(_shortened(remark)))}" for remark in report.remarks[:20]]
    reasons = dict.fromkeys(
        _shortened(item.reason) for item in report.outcomes if isinstance(item, Skipped) and not item.deselected
    )
    if reasons:
        said = tr("Skipped: {reasons}", reasons=in_a_row("; ", list(reasons)[:12]))
        lines.append(f"\n{escape(said)}")
    return [*lines, f"\n<sub>gpudoctor {escape(report.version)}</sub>"]
