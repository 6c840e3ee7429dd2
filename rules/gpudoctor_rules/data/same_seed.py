"""Answers DATA014: a seed of its own for each worker."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class SameSeedRule(Rule):
    """Seed in the worker, from torch's seed of the worker."""

    answers = Code("DATA014")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        if finding.fact("how") == "start":
            seeds = str(finding.fact("seeds"))
            title = "seed from torch.initial_seed(), which differs in each worker"
            steps: tuple[str, ...] = (
                f"{seeds}(torch.initial_seed() % 2**32)",
                "or leave worker_init_fn out: torch seeds random and NumPy apart in each worker",
            )
        else:
            name, maker = str(finding.fact("name")), str(finding.fact("maker"))
            title = f"make self.{name} in the worker, at its first item"
            steps = (
                f"self.{name} = None                                  # in __init__",
                f"if self.{name} is None:                             # first lines of __getitem__",
                f"    self.{name} = {maker}(torch.initial_seed() % 2**32)   # differs by worker and epoch",
            )
        yield Remedy(
            id=f"DATA014-{finding.fact('how')}",
            title=title,
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
            references=("https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader",),
        )
