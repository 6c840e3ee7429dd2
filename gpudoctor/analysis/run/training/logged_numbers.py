"""The card's line on what the program itself logs: loss, reward, KL and the like, whatever a library calls them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.lang import say, template, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Record, Recording
from gpudoctor.text import figure

Series: TypeAlias = Mapping[str, Sequence[tuple[int, float]]]
"""Steps and numbers, by what it is."""
WORDS = ("print", "logging")
"""Who speaks to people, and rounds."""

LOSS = template("loss")
REWARD = template("reward")
MARGIN = template("reward margin")
KL = template("KL")
CUT = template("completions cut at the limit")
SPREAD = template("spread of the rewards")
SAME = template("groups of equal rewards")
CLIPPED = template("share of clipped ratios")
NAMES: Mapping[str, str] = {
    LOSS: "loss train_loss loss/train training_loss losses/loss",
    REWARD: "reward rewards score scores objective/scores mean_reward reward_mean rollout/ep_rew_mean",
    MARGIN: "rewards/margins",
    KL: "kl objective/kl mean_kl kl_mean approx_kl policy/approxkl_avg losses/approx_kl",
    CUT: "completions/clipped_ratio",
    SPREAD: "reward_std reward/std rewards/std",
    SAME: "frac_reward_zero_std",
    CLIPPED: "clip_ratio/region_mean clip_ratio policy/clipfrac_avg losses/clipfrac clipfrac clip_frac",
}
"""What a number is: the names that libraries give it, the usual one first; a prefix `train/` counts for nothing."""
_SHOWN = 4
"""Numbers that the card names, without those that only a check asks for."""


@once
def logged(recording: Recording) -> Record | None:
    """The last record of the first rank that logs something."""
    found = (process.last("logged") for process in recording.ranks)
    return next((item for item in found if item is not None), None)


@once
def series(recording: Recording) -> Series:
    """What the program logs over its steps, by what it is."""
    item = logged(recording)
    if item is None:
        return {}
    named = {}
    for name, _, points in reversed(item.get("series")):  # the first of two of a name counts
        plain = str(name).removeprefix("train/").casefold().replace(" ", "_")
        named[plain] = points
    found = {}
    for what, names in NAMES.items():
        usual = next((name for name in names.split() if name in named), None)
        if usual is not None:
            found[what] = [(int(step), float(value)) for step, value in named[usual] if value is not None]
    return found


def said(recording: Recording) -> CardLine | None:
    """First and last number of what is known, the step until which it was read, and who logs it."""
    item = logged(recording)
    known = {what: points for what, points in series(recording).items() if points}
    if item is None or not known:
        return None
    ends = {what: (points[0][1], points[-1][1]) for what, points in known.items()}
    course: list[str] = []
    facts: dict[str, object] = {}
    for what, (first, last) in ends.items():
        name = what.replace(" ", "_")
        facts[f"{name}_first"] = first
        facts[f"{name}_last"] = last
        if what != SAME:
            text = template("{what} {first} to {last}")
            course.append(say(text, what=term(what), first=figure(first), last=figure(last)))
    facts["until"] = max(points[-1][0] for points in known.values())
    facts["by"] = str(item.get("by") or "")
    text = say("{numbers} until step {until:,}, by {by}", numbers=concatenated(", ", course[:_SHOWN]), **facts)
    return CardLine(name="logged", text=text, facts=facts) if course else None
