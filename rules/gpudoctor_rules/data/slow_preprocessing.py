"""Answers DATA002 slow-preprocessing."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule, Unavailable
from gpudoctor.model.job_devices import cpus_per_rank
from gpudoctor_checks.data.slow_preprocessing import SlowPreprocessingDetail

_MOST = 16
"""Processes beyond which preparing a set gains little on common disks."""


class SlowPreprocessingRule(Rule):
    """Tokens made once, by as many processes as there are CPUs; the rest is told in the table."""

    answers = Code("DATA002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        if finding.detail_of(SlowPreprocessingDetail).kind == "tokens":
            yield _pretokenise(processes_for(patient))


def _pretokenise(processes: int) -> Remedy:
    several = f"num_proc={processes}" if processes > 1 else ""
    how = say("batched=True, {several}", several=several) if several else "batched=True"
    return Remedy(
        id="DATA002-pretokenise",
        title=say(
            "tokenise once, before the training{several}",
            several=say(" ({several})", several=several) if several else "",
        ),
        steps=(
            say("dataset = dataset.map(tokenise, {how})   # cached on disk", how=how),
            'or in the Dataset\'s __init__: self.encoded = tokenizer(texts, truncation=True)["input_ids"]',
            "pad in the collate function, to the batch's longest sample",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        uses=frozenset({Resource.DISK}),
    )


def processes_for(patient: Patient) -> int:
    """Processes to prepare a set with: this machine's CPUs, which nothing else uses yet."""
    try:
        return max(1, min(_MOST, int(cpus_per_rank(patient)[0])))
    except Unavailable:
        return 4
