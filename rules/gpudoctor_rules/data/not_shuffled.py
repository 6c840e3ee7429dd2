"""Answers DATA013: shuffle the training set."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, KeywordEdit, Patient, Remedy, Rule
from gpudoctor.model.reading.cadence import settable
from gpudoctor.model.workload import scripts_given


class NotShuffledRule(Rule):
    """shuffle=True."""

    answers = Code("DATA013")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        span = finding.span
        edits: tuple[Edit, ...] = ()
        if span is not None and settable(scripts_given(patient), span, "shuffle", free=2):
            edits = (
                KeywordEdit(path=span.path, line=span.line, column=span.column, set=(("shuffle", "True"),)),
            )
        yield Remedy(
            id="DATA013-shuffle",
            title="shuffle=True for the training loader",
            steps=(
                "DataLoader(dataset, shuffle=True, ...); with several ranks: sampler=DistributedSampler(...)",
            ),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            edits=edits,
            references=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",),
        )
