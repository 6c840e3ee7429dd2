"""What the page shows of each finding: its lines in the source, what to do with the patch, its manual page."""

import html
import re
import shlex
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from gpudoctor.engine.manual import for_reader
from gpudoctor.lang import tr, word
from gpudoctor.lang.wrapping import unfolded
from gpudoctor.model import Measurement, Ranked, Remedy, Report, SourceSpan
from gpudoctor.model.report import Excerpt
from gpudoctor.report.excerpts import excerpt_of
from gpudoctor.report.html.tags import copyable, diff, heading, text
from gpudoctor.report.printable import one_line
from gpudoctor.report.units import (
    confidence_text,
    cost_text,
    diff_flags,
    evidence_command,
    evidence_content,
    evidence_place,
    facts_line,
    fix_title,
    is_code,
)


def findings_part(report: Report) -> Iterator[str]:
    """The findings in their order; nothing without one."""
    if not report.findings:
        return
    yield heading(tr("What to do, in this order"))
    for item in report.findings:
        yield from _finding(report, item)
    paths = [edit.path for item in report.findings for remedy in item.remedies for edit in remedy.edits]
    if (flags := diff_flags(report)) and report.subject.kind != "process":
        targets = " ".join(map(shlex.quote, dict.fromkeys(paths)))
        yield f"<p>{text(tr('All of these patches in one, then applied:'))}</p>"
        yield copyable(f"gpudoctor check {targets} {flags}")
        yield copyable(f"gpudoctor check {targets} {flags.replace('--diff', '--fix')}")


def _finding(report: Report, item: Ranked) -> Iterator[str]:
    finding = item.finding
    severity = finding.severity.value
    sure = tr("{severity}, {sure}", severity=word(severity), sure=confidence_text(finding))
    yield f'<section class="finding {severity}" id="{text(finding.code)}-{item.rank}">'
    yield (
        f"<h3><span>{item.rank}. {text(finding.code)} {text(finding.name)}</span>"
        f'<span class="severity {severity}">{text(sure)}</span></h3>'
    )
    yield f"<p>{text(finding.message)}</p>"
    spans = [item for item in finding.evidence if isinstance(item, SourceSpan)]
    yield from _sources(report, spans)
    for evidence in finding.evidence:
        if not isinstance(evidence, SourceSpan | Measurement):
            yield f"<pre>{text(evidence_place(evidence))}   {text(evidence_content(evidence))}</pre>"
    if item.remedies:
        yield '<ul class="remedies">'
        yield from (_remedy(remedy, first=place == 0) for place, remedy in enumerate(item.remedies))
        yield "</ul>"
    yield from _evidence(item)
    yield _manual(report, item)
    yield "</section>"


def _sources(report: Report, spans: Sequence[SourceSpan]) -> Iterator[str]:
    """The lines, with those around them and a link into an editor where the file is here as it was."""
    waiting: list[Excerpt] = []
    for span in spans:
        found = excerpt_of(report.excerpts, span.path, span.line)
        if found is None:
            cited = f'<code class="cited"><i>{span.line}</i>{html.escape(span.text)}</code>'
            yield f'<pre class="source"><span class="place">{text(evidence_place(span))}</span>{cited}</pre>'
        else:
            waiting.append(found)
    for path in dict.fromkeys(item.path for item in waiting):
        yield from map(_block, _neighbours([item for item in waiting if item.path == path]))


def _neighbours(found: list[Excerpt]) -> list[list[Excerpt]]:
    """Excerpts of one file, those together that touch each other."""
    groups: list[list[Excerpt]] = []
    end = 0
    for item in sorted(found, key=lambda each: each.first):
        if groups and item.first <= end + 1:
            groups[-1].append(item)
        else:
            groups.append([item])
        end = max(end, item.first + len(item.lines) - 1)
    return groups


def _block(group: list[Excerpt]) -> str:
    """Excerpts that touch each other as one block of lines; the lines that the finding names are marked."""
    numbered = {number: line for item in group for number, line in enumerate(item.lines, item.first)}
    cited = {item.line for item in group}
    lines = "".join(
        f"<code{' class=cited' if number in cited else ''}><i>{number}</i>{html.escape(line)}</code>"
        for number, line in sorted(numbered.items())
    )
    title = text(tr("open in VS Code"))
    links = ", ".join(
        f'<a href="{html.escape(f"vscode://file{quote(group[0].absolute)}:{line}")}" title="{title}">'
        f"{text(f'{group[0].path}:{line}' if place == 0 else str(line))}</a>"
        for place, line in enumerate(sorted(cited))
    )
    return f'<pre class="source"><span class="place">{links}</span>{lines}</pre>'


def _remedy(remedy: Remedy, *, first: bool) -> str:
    steps = [step for step in remedy.steps if one_line(step).rstrip(".") not in remedy.title]
    shown = "".join(copyable(one_line(step)) if is_code(step) else f"<p>{text(step)}</p>" for step in steps)
    title = fix_title(remedy)
    if is_code(title) and not remedy.patch:
        shown = copyable(one_line(title)) + shown
    patch = ""
    if remedy.patch:
        opened = " open" if first else ""
        block = copyable(remedy.patch, style="diff", inner=diff(remedy.patch))
        patch = f'<details class="patch"{opened}><summary>{text(tr("patch"))}</summary>{block}</details>'
    effect = f'<span class="effect">{text(facts_line(remedy))}</span>'
    return f"<li>{html.escape(tr('fix: '))}<b>{text(title)}</b> {effect}{shown}{patch}</li>"


def _evidence(item: Ranked) -> Iterator[str]:
    """All evidence, its cost and the reason for its rank, folded."""
    yield '<details class="fold"><summary>' + text(tr("evidence and rank")) + "</summary><table>"
    for evidence in item.finding.evidence:
        command = evidence_command(evidence)
        by_hand = f"<br><code>$ {text(command)}</code>" if command else ""
        place, content = text(evidence_place(evidence)), text(evidence_content(evidence))
        if not isinstance(evidence, Measurement):  # a line of the source, of a log, of a config
            content = f"<code>{content}</code>"
        yield f"<tr><th>{place}</th><td>{content}{by_hand}</td></tr>"
    if price := cost_text(item.finding.cost):
        yield f"<tr><th>{text(tr('cost'))}</th><td>{text(price)}</td></tr>"
    yield f"<tr><th>{text(tr('ranked {rank}', rank=item.rank))}</th><td>{text(item.reason)}</td></tr>"
    for aside in item.set_aside:
        said = tr("{title}: {reason}", title=fix_title(aside.remedy), reason=aside.reason)
        yield f"<tr><th>{text(tr('set aside'))}</th><td>{text(said)}</td></tr>"
    yield "</table></details>"


def _manual(report: Report, item: Ranked) -> str:
    """The manual page, folded: it is in the file, so that the link works without a network."""
    named = next((check for check in report.checks if check.code == item.finding.code), None)
    if named is None or not named.help.strip():
        return ""
    named = for_reader(named)
    return (
        f'<details class="fold" id="manual-{text(named.code)}-{item.rank}">'
        f"<summary>{text(tr('manual page of {code}', code=named.code))}</summary>"
        f'<div class="manual"><p><b>{text(named.title)}</b></p>{"".join(_blocks(named.help))}</div></details>'
    )


_ADDRESS = re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;:)]")


_BOLD = re.compile(r"\*\*[^*]+\*\*")
"""A line that is bold as a whole: the head of a section."""


def _blocks(markdown: str) -> Iterator[str]:
    """The Markdown of manual pages: headings, lists, code, paragraphs."""
    for block in re.split(r"\n\s*\n", markdown.strip("\n")):
        if not block.strip():
            continue
        lines = block.split("\n")
        if lines[0].startswith("#") or _BOLD.fullmatch(lines[0]):
            yield f"<h4>{text(lines[0].strip('#* '))}</h4>"
            lines = lines[1:]
        if not lines:
            continue
        if all(line.startswith(("    ", "\t", "```")) for line in lines):
            code = [line.removeprefix("    ") for line in lines if not line.startswith("```")]
            yield f"<pre>{html.escape(chr(10).join(code))}</pre>"
        elif lines[0].lstrip().startswith(("- ", "* ")):
            yield f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in _items(lines))}</ul>"
        else:
            yield from _paragraph(lines)


def _paragraph(lines: list[str]) -> Iterator[str]:
    """A paragraph, and the list that may follow it without an empty line."""
    first = next((at for at, line in enumerate(lines) if line.lstrip().startswith(("- ", "* "))), len(lines))
    yield f"<p>{_inline(unfolded(map(str.strip, lines[:first])))}</p>"
    if lines[first:]:
        yield f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in _items(lines[first:]))}</ul>"


def _items(lines: list[str]) -> list[str]:
    """Items of a list; a line without a dash goes on with the item before it."""
    found: list[str] = []
    for line in map(str.strip, lines):
        if line.startswith(("- ", "* ")) or not found:
            found.append(line.lstrip("-* "))
        else:
            found[-1] = unfolded((found[-1], line))
    return found


def _inline(words: str) -> str:
    """Text with its code and its addresses marked."""
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words.replace("\\", "")))
    return _ADDRESS.sub(lambda match: f'<a href="{match[0]}">{match[0]}</a>', escaped)
