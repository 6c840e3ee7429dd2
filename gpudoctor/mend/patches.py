"""Remedies with their edits as unified diffs."""

from dataclasses import replace

from gpudoctor.mend.plan import patch_of
from gpudoctor.model import Report


def with_patches(report: Report) -> Report:
    """The report with each remedy's edits as a unified diff, for readers that apply them one at a time."""
    return replace(
        report,
        findings=tuple(
            replace(item, remedies=tuple(replace(remedy, patch=patch_of(remedy)) for remedy in item.remedies))
            for item in report.findings
        ),
    )
