"""JUnit XML: a test case for each check, so that any CI system shows which ones found something."""

import xml.etree.ElementTree as ET

from gpudoctor.engine.exit_codes import at_least
from gpudoctor.model import Crashed, Found, Outcome, Passed, Ranked, Report, Skipped
from gpudoctor.report.printable import one_line, printable
from gpudoctor.report.units import evidence_content, evidence_place, facts_line, fix_title
from gpudoctor.text import count


def render(report: Report, fail_on: str = "error") -> str:
    """The document; ASCII with character references, so that it is well-formed in any encoding.

    A failure is what makes the exit code 1: findings from `fail_on` on. The others are output of their case.
    What could not be examined is an error of a case of its own.
    """
    placed: dict[str, list[Ranked]] = {}
    for item in report.findings:
        placed.setdefault(str(item.finding.code), []).append(item)
    suite = ET.Element("testsuite", {"name": "gpudoctor", "hostname": report.subject.host})
    properties = ET.SubElement(suite, "properties")
    pairs = (("version", report.version), ("verdict", report.summary.verdict), ("patient", report.subject.title))
    for name, value in pairs:
        ET.SubElement(properties, "property", {"name": name, "value": one_line(value)})
    names = {item.code: item.name for item in report.checks}
    for outcome in report.outcomes:
        case = ET.SubElement(
            suite,
            "testcase",
            {
                "classname": "gpudoctor." + (str(outcome.code).rstrip("0123456789") or "checks"),
                "name": f"{outcome.code} {names.get(outcome.code, '')}".rstrip(),
                "time": "0",
            },
        )
        _fill(case, outcome, placed.get(str(outcome.code), []), fail_on)
    if report.problems:
        case = ET.SubElement(suite, "testcase", {"classname": "gpudoctor", "name": "examination", "time": "0"})
        error = ET.SubElement(case, "error", {"message": one_line(report.problems[0]), "type": "incomplete"})
        error.text = "\n".join(report.problems)
    root = ET.Element("testsuites", {"name": "gpudoctor"})
    for element in (root, suite):
        element.set("tests", str(len(suite.findall("testcase"))))
        element.set("failures", str(len(suite.findall("testcase/failure"))))
        element.set("errors", str(len(suite.findall("testcase/error"))))
        element.set("skipped", str(len(suite.findall("testcase/skipped"))))
        element.set("time", "0")
    root.append(suite)
    for element in root.iter():  # no character that XML forbids
        element.attrib = {name: printable(value) for name, value in element.attrib.items()}
        element.text = printable(element.text or "") or None
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return document.decode("ascii") + "\n"


def _fill(case: ET.Element, outcome: Outcome, findings: list[Ranked], fail_on: str) -> None:
    match outcome:
        case Passed():
            if outcome.silenced:
                ET.SubElement(case, "system-out").text = f"{count(outcome.silenced, 'finding')} silenced"
        case Found():
            failing = [item for item in findings if at_least(item.finding.severity, fail_on)]
            if failing:
                _failure(case, failing)
            below = [item for item in findings if item not in failing]
            if below:
                ET.SubElement(case, "system-out").text = "\n\n".join(_details(item) for item in below)
        case Skipped():
            ET.SubElement(case, "skipped", {"message": one_line(outcome.reason)})
        case Crashed():
            error = ET.SubElement(case, "error", {"message": one_line(outcome.error), "type": "crashed"})
            error.text = outcome.error


def _failure(case: ET.Element, findings: list[Ranked]) -> None:
    """One failure a case, as the format has it; its text holds every finding of the check."""
    worst = max((item.finding.severity for item in findings), key=lambda severity: severity.rank)
    message = one_line(findings[0].finding.message)
    if len(findings) > 1:
        message += f" (and {len(findings) - 1} more)"
    failure = ET.SubElement(case, "failure", {"message": message, "type": worst.value})
    failure.text = "\n\n".join(_details(item) for item in findings)


def _details(item: Ranked) -> str:
    finding = item.finding
    lines = [f"{finding.severity.value}, {finding.confidence.value}: {finding.message}"]
    lines += [f"  evidence: {evidence_place(evidence)}  {evidence_content(evidence)}" for evidence in finding.evidence]
    for remedy in item.remedies:
        lines += [f"  fix: {fix_title(remedy)}", f"       {facts_line(remedy)}"]
    return "\n".join(lines)
