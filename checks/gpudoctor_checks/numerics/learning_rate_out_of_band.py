"""NUM009: a learning rate outside of the band in which its optimizer and method learn."""

import re
from collections.abc import Iterator
from math import isfinite

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import LEAST_STEPS, Run, demanded, spots
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Cost, Facts, Finding, Patient, Reads, Severity, SourceSpan, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Source

REINFORCED = re.compile(
    r"\b(DPO|ORPO|KTO|CPO|PPO|GRPO|RLOO|Reward|PRM|GKD|XPO|BCO|NashMD|OnlineDPO)\w*(?:Trainer|Config)\b"
)
"""Trainers of preference and reinforcement learning, whose rates are ten times smaller."""


_NOTHING = say("the model learns nothing")
_SCHEDULE = re.compile(r"torch\.optim\.lr_scheduler\.[A-Z]|transformers\.get_\w*schedule")


class LearningRateOutOfBand(Check):
    """The learning rate is far outside the usual range of its optimizer.

    What it finds:
        In a recorded run:
        - a rate over 0.01 for Adam and AdamW
        - a rate below 1e-7 for any optimizer
        - a rate that fell below 1e-7 and stayed there for a tenth of the steps
        - a rate that ends below zero
    Why it hurts:
        Adam moves each weight by about the rate in each step. At 0.01 and more, it overwrites the learned
        weights within a few hundred steps. Below 1e-7 the rounding of float32 swallows the step.
    How it knows:
        A recording has the optimizer's class, and the greatest rate of each step, with warm-up and schedules.
        For optimizers other than Adam it compares only with the lower end.
    False alarms:
        Small networks, embeddings or images optimised directly with a large rate.

        Schedules that end at zero are below 1e-7 for about one percent of their steps. A training on
        preferences (DPO, ORPO, PPO) uses small rates on purpose: there gpudoctor reports only rates below 1e-8.
    Remedies:
        Use a rate from the middle of the range:
        - 1e-4 to 1e-3 from scratch
        - 1e-5 to 5e-5 for full fine-tuning
        - 1e-4 to 3e-4 for LoRA

        Make the schedule as long as the training.
    References:
        - https://doi.org/10.1145/3411764.3445538
    """

    code = "NUM009"
    silent_on_synthetic = "a model cannot learn random tokens"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold(
            "adam_high",
            1e-2,
            "1",
            "UMLAUT (CHI 2021): over 0.01 for Adam",
            "A rate above this with Adam or AdamW is a finding.",
        ),
        Threshold(
            "adam_far",
            0.1,
            "1",
            "ten times UMLAUT's limit: small networks still learn below it",
            "A rate of this or more is a warning; between the two it is a note.",
        ),
        Threshold(
            "low",
            1e-7,
            "1",
            "UMLAUT (CHI 2021): below 1e-7; float32 resolves 6e-8 of a weight",
            "A rate below this is a finding; a declared zero is a placeholder.",
        ),
        Threshold(
            "preference_low",
            1e-8,
            "1",
            "computed: float32 resolves 2e-9 at a weight of 0.02; recipes of DPO use 1e-6 to 5e-7",
            "On preferences or rewards a rate below this is a finding.",
        ),
        Threshold(
            "spent_share",
            0.1,
            "1",
            "computed: a cosine or a square that ends at zero is below 1e-7 for 1 % of its steps",
            "A rate that is too low for this last part of a run's steps is a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """The greatest rate that the optimizers really used; warm-up and schedules included."""
        run = demanded(patient)
        process = run.lead.process
        used = max((value for value in process.steps.column("lr") if isfinite(value)), default=None)
        made = process.of("optimizer")
        names = {str(item.get("name") or "") for item in made}
        if used is None or len(names) != 1:
            return
        where, name = of_run.place_of(made[-1]), names.pop()
        spans = [*spots(patient, where), *_schedules(patient)]
        # A training on preferences or rewards changes little of what is learned already.
        low = self.limit("preference_low" if _compares(optional(lambda: patient.source)) else "low")
        cure = self._cure(run, name, used, low) if len(made) == 1 else ""  # of several the column has one
        if not cure:
            spent = _spent(run, low)
            told = any(kind == "early" for kind, _, _ in of_run.misfits(run.recording))
            if (
                spent is not None
                and not (told and spent.rate >= 0)
                and (spent.rate < 0 or spent.steps >= max(LEAST_STEPS, self.limit("spent_share") * spent.all))
            ):
                yield self._fell(run, name, used, low, spent, spans)
            return
        # the sentence has named the optimizer
        verdict = (
            say("below {low:g}: nothing is learned", low=low)
            if cure == "low"
            else say("the usual maximum is {limit:g}", limit=self.limit("adam_high"))
        )
        far = cure != "adam" or used >= self.limit("adam_far")
        yield confirmed(
            self,
            (),
            say("{optimizer} trained with a rate of {rate:g}; {verdict}.", optimizer=name, rate=used, verdict=verdict),
            evidence=(*(spans if not used else spans[:1]), run.measured("learning_rate", used)),
            severity=Severity.WARNING if far else Severity.NOTE,
            cost=Cost(breaks=_NOTHING if cure == "low" else None),
            detail=Facts(cure=cure),
        )

    def _cure(self, run: Run, name: str, used: float, low: float) -> str:
        """What the one optimizer's rate is out of, as the finding's `cure` says it; "" for its band."""
        if ("adam" in name.lower() or name == "RMSprop") and used > self.limit("adam_high"):
            return "adam"
        return "low" if 0 < used < low or (used == 0 and run.lead.steps >= LEAST_STEPS) else ""

    def _fell(self, run: Run, name: str, first: float, low: float, spent: "_Spent", spans: list[SourceSpan]) -> Finding:
        """The finding for a rate that a schedule took below the band while the training went on."""
        climbs, breaks = spent.rate < 0, template("the model learns nothing since step {since}")
        return confirmed(
            self,
            (),
            say(
                template(
                    "The learning rate of {optimizer} fell from {first_rate:g} to {last_rate:.2g}. It is below {low:g} "
                    "since step {since}, in {steps} of {all} steps: negative rates make the loss larger."
                )
                if climbs
                else template(
                    "The learning rate of {optimizer} fell from {first_rate:g} to {last_rate:.2g}. It is below {low:g} "
                    "since step {since}, in {steps} of {all} steps: the model learns nothing."
                ),
                optimizer=name,
                first_rate=first,
                last_rate=spent.rate,
                low=low,
                since=spent.since,
                steps=spent.steps,
                all=spent.all,
            ),
            evidence=(
                *spans,
                run.measured("learning_rate", spent.rate),
                run.measured("steps_below", spent.steps, "{steps}"),
            ),
            severity=Severity.ERROR if climbs else Severity.WARNING,
            cost=Cost(breaks=say(breaks, since=spent.since)),
            detail=Facts(cure="spent"),
        )


@frozen
class _Spent:
    """The steps of a run that were made with too low a rate."""

    rate: float
    """The last one."""
    since: int
    """The first step with too low a rate after which none was high enough."""
    steps: int
    """Steps since then."""
    all: int
    """Steps of the whole run."""


def _spent(run: Run, low: float) -> _Spent | None:
    """The last steps whose rates are all below the band; None where the last one is not."""
    process = run.lead.process
    rates, indices = process.steps.column("lr"), process.steps.column("index")
    weights = of_run.counts(process)
    since, last = -1, None
    for row in range(len(rates) - 1, -1, -1):
        if not isfinite(rates[row]):
            continue
        if rates[row] >= low:
            break
        last = rates[row] if last is None else last
        since = row  # not every step's rate is read
    if last is None:
        return None
    return _Spent(rate=last, since=int(indices[since]), steps=int(sum(weights[since:])), all=int(sum(weights)))


def _schedules(patient: Patient) -> list[SourceSpan]:
    """Where the program makes its schedules of the rate."""
    source = optional(lambda: patient.source)
    scripts = source.scripts if source is not None else ()
    return [call.span for script in scripts for call in script.calls if _SCHEDULE.match(call.name)][:3]


def _compares(source: Source | None) -> bool:
    """Whether a program trains on preferences or rewards, by its trainer."""
    return any(REINFORCED.search(script.text) for script in (source.scripts if source is not None else ()))
