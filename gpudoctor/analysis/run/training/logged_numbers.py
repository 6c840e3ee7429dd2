"""The card's line on what the program itself logs: loss, reward, KL and the like, whatever a library calls them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.lang import say, template, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Record, Recording
from gpudoctor.text import count, figure

Points: TypeAlias = Sequence[tuple[int, float]]
"""Step and number."""
Series: TypeAlias = Mapping[str, Points]
"""By what it is."""

LOSS, REWARD, MARGIN, KL, CUT = (
    template("loss"),
    template("reward"),
    template("reward margin"),
    template("KL"),
    template("completions cut at the limit"),
)
SPREAD, SAME, CHOSEN, CLIPPED = (
    template("spread of the rewards"),
    template("groups of equal rewards"),
    template("reward of the chosen"),
    template("share of clipped ratios"),
)
NAMES: Mapping[str, str] = {
    LOSS: "loss train_loss loss/train training_loss losses/loss",
    REWARD: "reward rewards score scores objective/scores mean_reward rollout/ep_rew_mean",
    MARGIN: "rewards/margins",
    KL: "kl objective/kl approx_kl policy/approxkl_avg losses/approx_kl",
    CUT: "completions/clipped_ratio",
    SPREAD: "reward_std reward/std rewards/std",
    SAME: "frac_reward_zero_std",
    CHOSEN: "rewards/chosen",
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
    named = {str(name).removeprefix("train/").casefold(): points for name, _, points in reversed(item.get("series"))}
    return {
        what: [(int(step), float(value)) for step, value in named[name] if value is not None]
        for what, names in NAMES.items()
        for name in [next((name for name in names.split() if name in named), "")]
        if name
    }


def said(recording: Recording) -> CardLine | None:
    """First and last number of what is known, how many names there are, and who logs them."""
    item = logged(recording)
    if item is None or not item.get("series"):
        return None
    known = {what: points for what, points in series(recording).items() if points}
    course = [_course(what, points) for what, points in known.items() if what not in (SAME, CHOSEN)][:_SHOWN]
    names, by = len(item.get("series")), str(item.get("by") or "")
    text = say("{names} by {logger}", names=count(names, "name"), logger=by)
    ends = {"first": 0, "last": -1}
    return CardLine(
        name="logged",
        text=concatenated("; ", [*filter(None, [concatenated(", ", course)]), text]),
        facts={
            **{f"{what.replace(' ', '_')}_{end}": known[what][at][1] for what in known for end, at in ends.items()},
            "names": names,
            "by": by,
        },
    )


def _course(what: str, points: Points) -> str:
    first, last = figure(points[0][1]), figure(points[-1][1])
    if first == last:
        return say("{what} {value}", what=term(what), value=first)
    return say("{what} {first} to {last}", what=term(what), first=first, last=last)
