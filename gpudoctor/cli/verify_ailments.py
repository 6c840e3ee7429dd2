"""What `verify` does about an ailment itself, beside the trials of speed: it replays a NaN."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.run_common import recorded_patient

if TYPE_CHECKING:
    from gpudoctor.engine.examination import Request
    from gpudoctor.model import Finding, Report
    from gpudoctor.model.proof import Replay
    from gpudoctor.model.signs.recording import Recording
    from gpudoctor.trial.cure import Cures
    from gpudoctor.trial.session import TrialSession
    from gpudoctor.trial.trial_runner import Arm

_REPLAY_SHARE = 0.4
"""Share of the time that is left which a replay may take."""


class Ailments:
    """The baseline's ailments that a run of their own says more about."""

    def __init__(
        self, session: "TrialSession", command: tuple[str, ...], folder: Path, request: "Request",
        arguments: argparse.Namespace,
    ) -> None:  # fmt: skip
        self._session = session
        self._command = command
        self._folder = folder
        self._request = request
        self._arguments = arguments
        self.replay: Replay | None = None

    @property
    def found(self) -> bool:
        """Whether there is anything to tell."""
        return self.replay is not None

    def explain(self, report: "Report", recording: "Recording") -> "Report":
        """The report with what a replay has shown in its findings."""
        if self._arguments.against is not None or self._arguments.vary or self._arguments.find_batch is not None:
            return report
        with self._session.stopping():
            return self._replayed(report, recording)
        return report

    def cures(self, report: "Report", recording: "Recording", seconds: float) -> "Cures":
        """What looks whether a finding is gone in a re-run; `seconds` is how long the baseline took."""
        from gpudoctor.engine.examination import examine
        from gpudoctor.engine.selection import Selection
        from gpudoctor.model import Code
        from gpudoctor.trial.cure import Cures

        def diagnose(folder: Path, arm: "Arm", codes: frozenset[str]) -> "Report":
            patient = recorded_patient(arm.words(self._command), folder, arm.sources)
            chosen = Selection(selected=frozenset(map(Code, codes)), ignored={})
            return examine(patient, replace(self._request, selection=chosen, signs_first=()))

        return Cures(self._session.bench, diagnose, report.findings, recording, seconds)

    def _wanted(self, code: str) -> bool:
        """Whether the user named no remedies, or one of this ailment's."""
        named = self._arguments.remedy
        return not named or any(name.startswith(code) for name in named)

    def _replayed(self, report: "Report", recording: "Recording") -> "Report":
        from gpudoctor.trial.replay import bad_step, explained, replay

        session = self._session
        bad = bad_step(report.findings, recording)
        if bad is None or not self._wanted(bad.code):
            return report

        self.replay = found = replay(session.bench, bad, recording, _REPLAY_SHARE * session.left, self._doing)
        return self._with(report, found.code, lambda finding: explained(finding, found))

    def _doing(self, what: str) -> None:
        self._session.doing, self._session.current = what, None

    def _with(self, report: "Report", code: str, change: "Callable[[Finding], Finding]") -> "Report":
        """The report with another finding of a code, and the remedies that go with it."""
        from gpudoctor.engine.examination import prescribe_again

        patient = recorded_patient(self._command, self._folder)
        findings = tuple(
            prescribe_again(item, change(item.finding), patient, self._request.registry)
            if item.finding.code == code
            else item
            for item in report.findings
        )
        return replace(report, findings=findings)
