"""Answers ENV014 tokenizer-fork."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class TokenizerForkRule(Rule):
    """Say it, so that neither the warning nor the wait comes."""

    answers = Code("ENV014")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        del patient
        steps = ["export TOKENIZERS_PARALLELISM=false   # before the launch line"]
        if not finding.fact("workers_tokenize"):
            steps.append(
                "tokenizing in the main process then runs on one thread; with dataset.map(..., num_proc=N) it "
                "runs in N processes instead"
            )
        yield Remedy(
            id=f"{self.answers}-off",
            title="export TOKENIZERS_PARALLELISM=false",
            steps=tuple(steps),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=(("TOKENIZERS_PARALLELISM", "false"),),
            references=("https://huggingface.co/docs/transformers/en/fast_tokenizers",),
        )
