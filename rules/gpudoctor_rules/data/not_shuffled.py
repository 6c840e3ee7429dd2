"""Answers DATA013: shuffle the training set."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import settable
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, KeywordEdit, Patient, Remedy, Rule


class NotShuffledRule(Rule):
    """shuffle=True."""

    answers = Code("DATA013")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        span = finding.span
        edits: tuple[Edit, ...] = ()
        if span is not None and settable(scripts_given(patient), span, "shuffle", free=2):
            edits = (KeywordEdit(path=span.path, line=span.line, column=span.column, set=(("shuffle", "True"),)),)
        yield Remedy(
            id="DATA013-shuffle",
            title="set shuffle=True for the training loader",
            steps=("DataLoader(dataset, shuffle=True, ...); with several ranks: sampler=DistributedSampler(...)",),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            edits=edits,
            references=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",),
        )
