"""The text report: the verdict, the findings in their order, one line about the rest; or one paragraph."""

import re
import shlex

from gpudoctor.lang import rendered, template, tr, word
from gpudoctor.lang.wrapping import cells
from gpudoctor.model import (
    Crashed,
    Evidence,
    Finding,
    Measurement,
    Ranked,
    Remedy,
    Report,
    Severity,
    Skipped,
    SourceSpan,
)
from gpudoctor.report.excerpts import excerpt_of
from gpudoctor.report.few_notes import with_few_notes
from gpudoctor.report.printable import one_line
from gpudoctor.report.strings import for_reader
from gpudoctor.report.units import (
    confidence_text,
    cost_text,
    counts,
    evidence_command,
    evidence_content,
    evidence_place,
    finding_text,
    fix_command,
    fix_title,
    is_code,
    is_fixable,
    launch_rows,
    outcome_words,
    proof_flags,
    remedy_facts,
    subject_facts,
)
from gpudoctor.text import count
from gpudoctor.ui.console.canvas import Canvas

STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
"""Colours of severities, by name: the terminal's own theme decides how they look. The word stands beside it."""
_INDENT = 3
"""Columns of the rank, under which a finding's text stands."""
_PLACE, _FIX = "--> ", template("fix: ")
"""Marks of a finding's parts; the columns that they take are the indentation of what follows."""
_BELOW = _INDENT + len(_PLACE)
_FIXABLE = "[*]"
"""The mark of what `check --fix` mends."""
_NAME = re.compile(r"[\w.]*\w")
_REMARKS = 6
_PLACES, _REMEDIES, _STEPS = 2, 3, 2
"""How many of each are shown unless asked for all."""


def render_text(report: Report, *, width: int, colour: bool, verbose: bool = False) -> str:
    """The report for people, `width` columns wide. Colour repeats the word of a severity or of a phase.

    `verbose` adds every outcome, all evidence with the commands that show it, remedies that were set aside and
    the reason for each rank.
    """
    shown = for_reader(report if verbose else with_few_notes(report))
    if shown.run or shown.synthetic or shown.trial or shown.log or shown.preflight:
        from gpudoctor.ui.console import run_text
    canvas = Canvas(width, colour)
    facts = map(one_line, map(rendered, ["gpudoctor", *subject_facts(shown)]))
    canvas.joined(list(filter(None, facts)), hang=2)
    for row in launch_rows(shown):
        canvas.paragraph(row, hang=2)
    if shown.findings or shown.run:
        canvas.blank()
    canvas.paragraph(shown.summary.verdict, style="bold")
    bars = shown.run is not None and (verbose or not (shown.run.healthy or shown.run.failed))
    if told := shown.run or shown.synthetic or shown.trial:
        run_text.before_findings(canvas, shown, verbose, bars)
    codes = {item.finding.code for item in shown.findings}
    for item in shown.findings:
        part = item.finding.effect_of in codes and not item.remedies and not verbose
        if not part:  # else it is one card with what it belongs to
            canvas.blank()
        _finding(canvas, shown, item, verbose, part=part)
    if shown.run and shown.run.training:
        canvas.blank()
        canvas.paragraph(tr("What is trained"), style="bold")
        canvas.columns([(word(line.name), line.text) for line in shown.run.training], indent=2)
    if shown.log and verbose:
        run_text.log_part(canvas, shown.log)
    if shown.preflight:
        run_text.preflight_part(canvas, shown.preflight, verbose)
    if shown.findings:
        canvas.blank()
        _next_step(canvas, shown)
    if shown.findings or bars or shown.trial or shown.synthetic or (shown.run and shown.run.training):
        canvas.blank()
    _tally(canvas, shown, verbose)
    if verbose:
        names = {item.code: item.name for item in shown.checks}
        canvas.blank()
        canvas.columns(
            [
                (outcome.code, names.get(outcome.code, ""), *outcome_words(outcome))
                for outcome in shown.outcomes
                if not (isinstance(outcome, Skipped) and outcome.deselected)  # counted above
            ]
        )
        _all_silenced(canvas, shown)
    if told:
        run_text.after_findings(canvas, shown)
    return canvas.text()


def _finding(canvas: Canvas, report: Report, item: Ranked, verbose: bool, *, part: bool) -> None:
    finding = item.finding
    style, severity = STYLES[finding.severity], word(finding.severity.value)
    mark = f" {_FIXABLE}" if is_fixable(report, item) else ""
    title = f"{item.rank:<{_INDENT - 1}} {finding.code} {finding.name}{mark}"
    aside = severity + tr(", {sure}", sure=confidence_text(finding))
    canvas.split(title, aside, _INDENT, [(finding.code, style), (severity, style)])
    canvas.paragraph(finding_text(finding, None if verbose else _PLACES), indent=_INDENT)
    if part:
        return
    _evidence(canvas, report, finding, verbose)
    if verbose:
        if price := cost_text(finding.cost):
            canvas.paragraph(tr("cost: {price}", price=price), indent=_INDENT, hang=2)
        canvas.paragraph(tr("ranked {rank}: {reason}", rank=item.rank, reason=item.reason), indent=_INDENT, hang=2)
    _remedies(canvas, item, verbose)


def _evidence(canvas: Canvas, report: Report, finding: Finding, verbose: bool) -> None:
    """The lines that show it; for numbers alone, the command that shows them (the message has the numbers)."""
    places = [item for item in finding.evidence if verbose or not isinstance(item, Measurement)]
    most = len(places) if verbose else _PLACES
    for item in places[:most]:
        _place(canvas, report, item, STYLES[finding.severity])
        if verbose and (command := evidence_command(item)):
            canvas.literal(f"$ {command}", indent=_BELOW)
    if len(places) > most:
        more = tr("and {places}", places=count(len(places) - most, "more place"))
        canvas.paragraph(more, indent=_BELOW, style="dim")
    if not places and (known := next(filter(None, map(evidence_command, finding.evidence)), None)):
        canvas.literal(tr("reproduce: {command}", command=known), indent=_INDENT)


def _place(canvas: Canvas, report: Report, item: Evidence, style: str) -> None:
    """Where it is and what is there, with carets below the name of the guilty call where its file can be read."""
    place, content = _PLACE + one_line(evidence_place(item)), one_line(evidence_content(item))
    found = excerpt_of(report.excerpts, item.path, item.line) if isinstance(item, SourceSpan) else None
    before = _INDENT + cells(place) + 3
    if found and before + cells(content) > canvas.width:
        canvas.paragraph_raw(place, _INDENT, style="dim")
        canvas.clipped(content, _BELOW, style="dim")
        before = _BELOW
    else:
        canvas.paragraph_raw(f"{place}   {content}", _INDENT, len(_PLACE), style="dim")
    if found and isinstance(item, SourceSpan):
        start = item.column - 1 - found.lines[item.line - found.first].find(content)
        name = _NAME.match(content, start)
        before += cells(content[:start])
        if name and start >= 0 and before + len(name[0]) < canvas.width:
            carets = "^" * len(name[0])
            canvas.styled(" " * before + carets, [(carets, style)])


def _remedies(canvas: Canvas, item: Ranked, verbose: bool) -> None:
    note = item.finding.severity is Severity.NOTE
    count = len(item.remedies) if verbose else 1 if note else _REMEDIES
    for place, remedy in enumerate(item.remedies[:count]):
        canvas.paragraph(f"{word(_FIX)}{fix_title(remedy)}", indent=_INDENT, hang=cells(word(_FIX)), style="bold")
        first, *others = remedy_facts(remedy)
        below = _INDENT + cells(word(_FIX))
        canvas.joined([" " * below + first, *others], hang=below)
        if verbose:
            _steps(canvas, remedy, len(remedy.steps))
            for reference in remedy.references:
                canvas.literal(tr("see: {reference}", reference=reference), indent=below)
        elif place == 0 and not note and not remedy.edits:  # an edit shows itself: see the last line
            _steps(canvas, remedy, _STEPS)
    if len(item.remedies) > count:
        more = len(item.remedies) - count
        canvas.paragraph(
            tr("and 1 more remedy") if more == 1 else tr("and {more} more remedies", more=more), indent=_INDENT
        )
    if verbose:
        for aside in item.set_aside:
            canvas.paragraph(
                tr("set aside: {title}: {reason}", title=fix_title(aside.remedy), reason=aside.reason),
                indent=_INDENT,
                hang=cells(word(_FIX)),
            )


def _steps(canvas: Canvas, remedy: Remedy, count: int) -> None:
    """How to do it, unless the title says it already; commands stay on one line, to be copied."""
    title = one_line(remedy.title)
    below = _INDENT + cells(word(_FIX))
    for step in remedy.steps[:count]:
        line = one_line(step)
        if line.rstrip(".") in title:
            continue
        if is_code(line):
            canvas.literal(line, indent=below)
        else:
            canvas.paragraph(line, indent=below)


def _tally(canvas: Canvas, report: Report, verbose: bool) -> None:
    """What passed, what was skipped and why, what crashed; nothing is left out without a word."""
    parts = counts(report)
    held = sum(isinstance(item, Skipped) and item.held for item in report.outcomes)
    if held:
        parts.append(tr("{held:,} waiting for --preview", held=held))
    deselected = sum(isinstance(item, Skipped) and item.deselected for item in report.outcomes) - held
    if deselected:
        parts.append(tr("{deselected:,} not selected", deselected=deselected))
    canvas.joined(parts, hang=2)
    names = {item.code: item.name for item in report.checks}
    for outcome in report.outcomes:
        if isinstance(outcome, Crashed):
            canvas.paragraph(
                tr(
                    "crashed: {code} {names}: {error}",
                    code=outcome.code,
                    names=names.get(outcome.code, ""),
                    error=outcome.error,
                ),
                hang=2,
            )
    for problem in report.problems:
        if report.run is not None and not report.run.ranks and problem.startswith(report.run.recording):
            continue  # nobody reported: the verdict says it already
        canvas.paragraph(tr("incomplete: {problem}", problem=problem), hang=2)
    shown = report.remarks if verbose else report.remarks[:_REMARKS]
    for remark in shown:
        canvas.paragraph(tr("remark: {remark}", remark=remark), hang=2)
    if len(shown) < len(report.remarks):
        canvas.paragraph(
            tr("and {remarks}: --verbose", remarks=count(len(report.remarks) - len(shown), "more remark")), hang=2
        )


def _all_silenced(canvas: Canvas, report: Report) -> None:
    if not report.silenced:
        return
    canvas.blank()
    for item in report.silenced:
        reason = tr(": {reason}", reason=item.reason) if item.reason else ""
        canvas.paragraph(
            tr(
                "silenced by {where}{reason}: {code} {message}",
                where=item.where,
                reason=reason,
                code=item.finding.code,
                message=item.finding.message,
            ),
            hang=2,
        )


def _next_step(canvas: Canvas, report: Report) -> None:
    """What to type next: the edits, where there are some, and the manual page of the first finding."""
    if command := fix_command(report):
        fixable = sum(is_fixable(report, item) for item in report.findings)
        of = tr("{fixable} of {findings} fixable", fixable=fixable, findings=len(report.findings))
        _command(canvas, f"{_FIXABLE} {rendered(of)}" if fixable else tr("fix it"), command)
    flags = proof_flags(report)
    if flags is not None and report.run is not None and report.run.command and report.trial is None:
        _command(canvas, tr("prove it"), f"gpudoctor verify{flags} -- {shlex.join(report.run.command)}")
    _command(canvas, word("why"), f"gpudoctor explain {report.findings[0].finding.code}")


def _command(canvas: Canvas, label: str, command: str) -> None:
    """A line to copy, never wrapped."""
    command = one_line(command)
    canvas.styled(tr("{label}: ", label=label) + command, [(command, "bold")])


# The report as one paragraph for the log of a job that is about to start.


def render_preflight(report: Report, *, width: int, floor: str = "error") -> str:
    """The verdict and what stands against the job: a line each, no blank lines, no colour.

    Only what stops the job (`floor`, the severity of --fail-on; errors for "never"): a job that may start needs
    no advice in its log. What could not be examined is said as well.
    """
    shown = for_reader(report)
    lowest = (Severity.ERROR if floor == "never" else Severity(floor)).rank
    canvas = Canvas(width, colour=False)
    passed = tr(" {checks} passed.", checks=count(report.summary.passed, "check"))
    passes = "" if "passed" in report.summary.verdict else passed
    canvas.paragraph(tr("gpudoctor: {verdict}{passes}", verdict=shown.summary.verdict, passes=passes), hang=2)
    for item in shown.findings:
        if item.finding.severity.rank >= lowest:
            canvas.paragraph_raw(_line(item), hang=2)
    for outcome in shown.outcomes:
        if isinstance(outcome, Crashed):
            canvas.paragraph(tr("incomplete: {code} crashed: {error}", code=outcome.code, error=outcome.error), hang=2)
    for problem in shown.problems:
        canvas.paragraph(tr("incomplete: {problem}", problem=problem), hang=2)
    return canvas.text()


def _line(item: Ranked) -> str:
    finding = item.finding
    span = finding.span
    place = f"{span.path}:{span.line} " if span else ""
    message = " ".join(finding.message.split()).rstrip(".。")
    title = " ".join(item.remedies[0].title.split()) if item.remedies else ""
    remedy = tr(": {title}", title=title) if title else ""
    return f"{finding.code}  {place}{message}{remedy}"
