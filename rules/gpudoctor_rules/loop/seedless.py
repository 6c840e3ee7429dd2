"""Answers LOOP008: set a seed before anything is drawn."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import insert_after
from gpudoctor.analysis.source.syntax_places import find_extent
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.loop.seedless import SeedlessDetail


class SeedlessRule(Rule):
    """One line for torch, one for each other generator that is used."""

    answers = Code("LOOP008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        lines = ["torch.manual_seed(0)  # CPU and all GPUs"]
        roots = {
            name.split(".")[0]
            for script in patient.source.scripts
            if script.path in {finding.subject, finding.detail_of(SeedlessDetail).script}
            for name in script.imports.values()
        }
        lines += ["random.seed(0)"] if "random" in roots else []
        lines += ["numpy.random.seed(0)"] if "numpy" in roots else []
        yield Remedy(
            id="LOOP008-seed",
            title="call torch.manual_seed(0) before the model is built",
            steps=tuple(lines),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            edits=_edits(finding, patient),
            references=("https://docs.pytorch.org/docs/stable/notes/randomness.html",),
        )


def _edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """The line after the imports at the head of the entry script."""
    found = find_extent(patient.source, finding.detail_of(SeedlessDetail).edit_at)
    if found is None or not isinstance(found[1], ast.stmt):
        return ()
    return (insert_after(found[0], found[1], "\ntorch.manual_seed(0)"),)
