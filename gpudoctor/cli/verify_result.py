"""What the parts of `gpudoctor verify` pass on: a job that is measured first, and the result of the trials."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gpudoctor.model import Report
    from gpudoctor.trial.bounded_run import RunOutcome
    from gpudoctor.trial.protection import RunProtection
    from gpudoctor.trial.trial_runner import Arm
    from gpudoctor.ui.status_line import StatusLine


class TrialJob(Protocol):
    """A job that gpudoctor wrote itself: it is measured before the trials and brings settings to try."""

    began: float
    """When its time began, on the monotonic clock."""
    arms: "list[tuple[str, Arm]]"
    """What `--vary` or `--against` asks for."""

    def measure(self, guard: "RunProtection", scratch: Path, line: "StatusLine") -> None:
        """Measure its memory."""

    def settings(self, report: "Report", folder: Path) -> "Sequence[tuple[str, Arm]]":
        """Settings to try beside the remedies of the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What came of it."""

    report: "Report"
    finished: "RunOutcome"
    """The command's first run."""
    interrupted: bool = False
    """Whether Ctrl-C ended the trials."""
