"""Answers PERF014: look at the lines; take them out of the step."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule, SourceSpan


class UnexplainedTimeRule(Rule):
    """Look at the lines; take them out of the step."""

    answers = Code("PERF014")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        engine = str(finding.fact("engine_loop") or "")
        if engine:
            yield Remedy(
                id="PERF014-engine",
                title="larger batches, fewer callbacks: the framework's own work is the same for each step",
                steps=(
                    "a larger batch a device, with fewer steps of gradient accumulation",
                    "py-spy record -- python ... shows which of its callbacks and checks take the time",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SETTING,
            )
            return
        places = [f"{item.path}:{item.line}" for item in finding.evidence if isinstance(item, SourceSpan)]
        looks = (
            f"py-spy dump --pid PID, or look at {', '.join(places[:3])}" if places else "py-spy dump --pid PID"
        )
        yield Remedy(
            id="PERF014-look",
            title=f"take the work of {places[0]} out of the step"
            if places
            else "find the lines that take the time",
            steps=(
                f"{looks}: what is computed there, and who needs it on every step?",
                "do it every N steps (if step % 50 == 0:), once before the loop, or on whole tensors",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
