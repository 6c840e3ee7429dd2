"""Answers NUM011: count the labels of the whole set."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class ConstantTargetRule(Rule):
    """Count, then look at the code that makes them; shuffle."""

    answers = Code("NUM011")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        shuffle = ("set shuffle=True for the training loader",) if finding.fact("ordered") else ()
        yield Remedy(
            id="NUM011-count",
            title="count the labels of the whole set" + (", and shuffle" if shuffle else ""),
            steps=(
                "collections.Counter(int(dataset[i][1]) for i in range(len(dataset)))",
                "look at the column, the mapping and the folder that the label is made of",
                *shuffle,
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )
