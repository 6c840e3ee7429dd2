"""Answers PERF013: by what grows."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class StepTimeDriftRule(Rule):
    """By what grows."""

    answers = Code("PERF013")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if finding.fact("episodes"):
            yield Remedy(
                id="PERF013-episodes",
                title="count frames, not episodes",
                steps=(
                    "an update every 2,048 frames (for _ in range(2048): env.step(...)), not every episode",
                    "a limit on an episode's frames where it has none (gymnasium.wrappers.TimeLimit)",
                ),
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.SMALL_EDIT,
            )
            return
        part = str(finding.fact("part"))
        steps = {
            "logging": (
                "open the log in append mode and write the new lines only; no plot of the whole history a step",
            ),
            "checkpoint": ("keep what is saved bounded: no list that grows with the steps in the checkpoint",),
            "data_wait": (
                "look for what the data set keeps: a cache without a limit, a list that is searched",
            ),
        }.get(
            part,
            (
                "look for a list, dict or tensor that grows by each step and is walked through or concatenated",
                "keep a bounded window: collections.deque(maxlen=1000); sums instead of lists",
                "detach what is kept of a step: losses.append(loss.detach())",
            ),
        )
        yield Remedy(
            id="PERF013-bound",
            title="bound what grows with the steps",
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
