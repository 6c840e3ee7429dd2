"""TRAIN012: what a preference or reinforcement training logs shows that it cannot learn."""

import math
from collections.abc import Iterator
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import measured, spots
from gpudoctor.analysis.run.training import logged_numbers as logged
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import figure, percent

_CHANCE = math.log(2)
"""Loss of DPO and of every choice between two, as long as nothing is learnt."""
_NEAR, _NOTHING = 0.002, 1e-6
"""How near to it a loss stays that does not move; a reward or spread below which there is none."""


@frozen
class PreferenceStuckDetail(Detail):
    """What the rule reads."""

    how: str
    """One of `reference`, `pairs`, `slow`, `spread`, `drift`, `cut`, `clipped`."""


class PreferenceStuck(Check):
    """A preference or reinforcement training logs numbers that show no learning.

    What it finds:
        In what the program logs:
        - DPO: rewards that stay 0 with the loss at ln 2 = 0.693, or equal rewards of both answers
        - GRPO: groups whose rewards are all equal, so that no advantage is left
        - a KL to the reference that runs away
        - completions that are all cut at the length limit
        - ratios that are nearly all clipped
    Why it hurts:
        The loss looks usual and nothing raises. The policy gets no signal, or leaves the reference and speaks
        nonsense that the reward likes.
    How it knows:
        From a recording: the numbers by name that TRL, a tracker or TensorBoard is given. Each must be so in
        every log, or at the end.
    False alarms:
        A tiny learning rate or a warm-up keeps a DPO loss near 0.693 for many steps; that is a note. A task
        that is solved has equal rewards in the end; only rewards that are equal from the first log on count.
    Remedies:
        Give the trainer a reference of its own, check pairs and rewards, allow longer completions, or lower the
        learning rate.
    References:
        - https://huggingface.co/docs/trl/dpo_trainer#logged-metrics
        - https://huggingface.co/docs/trl/grpo_trainer#logged-metrics
    """

    code = Code("TRAIN012")
    name = "preference-stuck"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="logs",
            default=5,
            unit="{times}",
            source="convention: a first log and a warm-up make three",
            meaning="Fewer logs of a number are not judged.",
        ),
        Threshold(
            name="full_share",
            default=0.99,
            unit="1",
            source="convention: all but rounding",
            meaning="Completions cut, or ratios clipped, in at least this share of every log are a warning.",
        ),
        Threshold(
            name="drift",
            default=10.0,
            unit="1",
            source="TRL's usual KL is below 1 a token; 10 is another language",
            meaning="A KL of this at the end, and this many times that at the beginning, has run away.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        known = logged.series(patient.recording)
        if not known:
            raise Unavailable(say("the program logs no number that gpudoctor knows"))
        yield from self._pairs(patient, known)
        values = {what: [value for _, value in points] for what, points in known.items()}
        enough = {what: found for what, found in values.items() if len(found) >= self.limit("logs")}
        least = self.limit("full_share")
        same = min(enough.get(logged.SAME) or [0.0])
        if same >= least or max(enough.get(logged.SPREAD) or [1.0]) < _NOTHING:
            steps = known[logged.SAME if same >= least else logged.SPREAD]
            message = say(
                "All rewards are equal in each of {logs} logs (from step {first:,} to {last:,}), so no answer is "
                "better than another: the rewards train nothing.",
                logs=len(steps),
                first=steps[0][0],
                last=steps[-1][0],
            )
            yield self._found(patient, "spread", message, max(same, 0.0), Severity.ERROR)
        drift = enough.get(logged.KL) or [0.0]
        part = max(1, len(drift) // 4)
        begin, end = median(drift[:part]), median(drift[-part:])
        if end >= self.limit("drift") * max(1.0, begin):
            message = say(
                "The KL to the reference went from {first} to {last}: the policy runs away from it.",
                first=figure(begin),
                last=figure(end),
            )
            yield self._found(patient, "drift", message, end, Severity.WARNING)
        cut = min(enough.get(logged.CUT) or [0.0])
        if cut >= least:
            message = say(
                "{share} of the completions are cut at the length limit in each of {logs} logs: the rewards judge "
                "answers without an end.",
                share=percent(cut),
                logs=len(enough[logged.CUT]),
            )
            yield self._found(patient, "cut", message, cut, Severity.WARNING)
        clipped = median(enough.get(logged.CLIPPED) or [0.0])
        if clipped >= least:
            message = say(
                "{share} of the ratios are clipped: the policy gets next to no gradient.", share=percent(clipped)
            )
            yield self._found(patient, "clipped", message, clipped, Severity.WARNING)

    def _pairs(self, patient: Patient, known: "logged.Series") -> Iterator[Finding]:
        """DPO and its kin: the margin between both answers, the chosen one's reward, the loss."""
        margins = known.get(logged.MARGIN, ())
        if len(margins) < self.limit("logs"):
            return
        span = {"first": margins[0][0], "last": margins[-1][0], "logs": len(margins)}
        chosen = max((abs(value) for _, value in known.get(logged.CHOSEN, ())), default=0.0)
        widest = max(abs(value) for _, value in margins)
        if widest < _NOTHING and chosen < _NOTHING:
            message = say(
                "The rewards of both answers are 0 in each of {logs} logs, from step {first:,} to {last:,}: the policy "
                "never differs from the reference, and the loss stays at ln 2 = 0.693.",
                **span,
            )
            yield self._found(patient, "reference", message, widest, Severity.ERROR)
        elif widest < _NOTHING:
            message = say(
                "Chosen and rejected answers have the same reward in each of {logs} logs, from step {first:,} to "
                "{last:,}: the pairs are equal, and the loss stays at ln 2 = 0.693.",
                **span,
            )
            yield self._found(patient, "pairs", message, widest, Severity.ERROR)
        elif len(margins) >= 2 * self.limit("logs") and all(
            abs(value - _CHANCE) < _NEAR for _, value in known.get(logged.LOSS, ((0, 0.0),))
        ):
            message = say(
                "The loss stays at ln 2 = 0.693 in all {logs} logs, to step {last:,}: so far nothing is learnt.", **span
            )
            yield self._found(patient, "slow", message, _CHANCE, Severity.NOTE)

    def _found(self, patient: Patient, how: str, message: str, value: float, severity: Severity) -> Finding:
        item = logged.logged(patient.recording)
        place = of_run.place_of(item) if item is not None else None
        return confirmed(
            self,
            (),
            message,
            evidence=(*spots(patient, place), measured(f"logged_{how}", value, "1", patient.recording)),
            severity=severity,
            cost=Cost(breaks=say("the policy does not learn") if severity is Severity.ERROR else None),
            subject=how,
            detail=PreferenceStuckDetail(how=how),
        )
