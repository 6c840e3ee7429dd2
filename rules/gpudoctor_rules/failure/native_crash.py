"""Answers FAIL006: see the stack; versions that fit together."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.failure.native_crash import NativeCrashDetail


class NativeCrashRule(Rule):
    """See the stack; versions that fit together."""

    answers = Code("FAIL006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if isinstance(finding.detail, NativeCrashDetail) and finding.detail.profiled:
            return
        span = finding.span
        where = say(" (it was called from {path}:{line})", path=span.path, line=span.line) if span is not None else ""
        yield Remedy(
            id="FAIL006-stack",
            title="print the native stack once",
            steps=(
                say(
                    "gdb -batch -ex run -ex bt --args python train.py ...   # the library's name "
                    "is in the first frames{caller}",
                    caller=where,
                ),
                "python -X faulthandler train.py ...                     # the Python side, if it is unknown",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
        )
