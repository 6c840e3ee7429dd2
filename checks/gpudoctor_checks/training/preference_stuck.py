"""TRAIN012: what a preference or reinforcement training logs shows that it cannot learn."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.curves import loss_curve
from gpudoctor.analysis.run.training import logged_numbers as logged
from gpudoctor.analysis.run.training import told
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import figure, percent

_CHANCE = math.log(2)
"""Loss of DPO and of every choice between two, as long as nothing is learnt."""
_LOSS = "distance from chance"
_NOTHING = 1e-6
"""A margin, a spread, a distance of the loss from it below which there is none."""
_LOGS, _LOSSES = 5, 20
"""Logs of a number, losses of single steps at least: a first log and a warm-up make three."""
_ALL = 0.99
"""Share of completions or ratios that is all of them but rounding."""
_FAR, _MORE = 10.0, 1.2
"""A KL of the first, and so many times that at the beginning, has run away if it still grows by the second."""
_SAID = {
    "chance": template(
        "The loss is ln 2 = 0.693 in each of {times:,} readings. The policy never differs from the reference, or both "
        "answers of a pair are equal."
    ),
    "spread": template(
        "All rewards are equal in each of {times:,} logs, so no answer is better than another: they train nothing."
    ),
    "drift": template("The KL to the reference went from {first} to {last}: the policy runs away from it."),
    "cut": template(
        "{share} of the completions are cut at the length limit: the rewards judge answers without an end."
    ),
    "ratio": template(
        "The ratio of new to old probabilities is exactly 1 in all of {times:,} losses looked at. "
        "Clipping does nothing."
    ),
    "clipped": template("{share} of the ratios are clipped: the policy gets next to no gradient."),
}


class PreferenceStuck(Check):
    """A preference or reinforcement training logs numbers that show no learning.

    What it finds:
        In what the program logs:
        - DPO: a loss that stays at ln 2 = 0.693: the policy is its own reference, or the pairs are equal
        - GRPO: groups whose rewards are all equal, so that no advantage is left
        - a KL to the reference that runs away
        - as a note, ratios of new to old probabilities that are always 1
        - completions that are all cut at the length limit; ratios that are nearly all clipped
    Why it hurts:
        The loss looks usual and nothing raises. The policy gets no signal, or leaves the reference and speaks
        nonsense that the reward likes.
    How it knows:
        From a recording: the loss of each step, and what a tracker is given, else what is printed.
    False alarms:
        A tiny learning rate keeps a DPO loss near 0.693, but not at it. A task that is solved has equal rewards in
        the end, but not from the first log on. The KL of a model without rewards is not judged.
    Remedies:
        Give the trainer a reference of its own, check pairs and rewards, allow longer completions, or lower the
        learning rate.
    References:
        - https://huggingface.co/docs/trl/grpo_trainer#logged-metrics
    """

    code = Code("TRAIN012")
    name = "preference-stuck"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    judges = "logged"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recording
        known = logged.series(recording)
        losses = max((loss_curve(process).values for process in recording.ranks), key=len, default=())
        if not known and not losses:
            raise Unavailable(say("the program logs no number that gpudoctor knows"))
        values = {what: [value for _, value in points] for what, points in known.items()}
        enough = {what: found for what, found in values.items() if len(found) >= _LOGS}
        if len(losses) >= _LOSSES:
            enough[_LOSS] = [value - _CHANCE for value in losses]
        item = logged.logged(recording)
        if item is not None and item.get("by") in logged.WORDS:  # 0.000 may be any small number
            enough.pop(logged.SPREAD, None)
        place = of_run.place_of(item) if item is not None else None
        for ratio in of_run.of_first_rank(recording, "ratio")[-1:]:
            looks, ones = int(ratio.get("of") or 0), int(ratio.get("found") or 0)
            if ones == looks >= _LOSSES:
                message = say(_SAID["ratio"], times=looks)
                yield told(
                    self, patient, "ratio", message, ones, *of_run.loss_lines(patient)[:1], severity=Severity.NOTE
                )
        for how, found in _signs(enough):
            first, last = figure(found[0]), figure(found[-1])
            message = say(_SAID[how], times=len(found), first=first, last=last, share=percent(found[-1]))
            breaks = say("the policy does not learn") if how in ("chance", "spread") else ""
            yield told(self, patient, how, message, found[-1], place, breaks=breaks)


def _signs(known: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, Sequence[float]]]:
    """What is wrong, and the numbers that show it."""
    for what in (_LOSS, logged.MARGIN):
        values = known.get(what)
        if values and max(map(abs, values)) < _NOTHING:
            yield "chance", values
            break
    same = known.get(logged.SAME) or [0.0]
    spread = known.get(logged.SPREAD) or [1.0]
    if min(same) >= _ALL:
        yield "spread", same
    elif max(spread) < _NOTHING:
        yield "spread", spread
    kl = known.get(logged.KL) or [0.0]
    part = max(1, len(kl) // 4)
    begin = median(kl[:part])
    before = median(kl[-2 * part : -part] or kl)
    end = median(kl[-part:])
    if logged.REWARD in known and end >= _FAR * max(1.0, begin) and end >= _MORE * before:
        yield "drift", [begin, end]
    cut = min(known.get(logged.CUT) or [0.0])
    if cut >= _ALL:
        yield "cut", [cut]
    clipped = median(known.get(logged.CLIPPED) or [0.0])
    if clipped >= _ALL:
        yield "clipped", [clipped]
