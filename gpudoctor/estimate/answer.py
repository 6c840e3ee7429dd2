"""The answer of `gpudoctor estimate`: everything that a renderer shows, decided."""

from typing import TYPE_CHECKING

from gpudoctor.estimate.fit import Cut, Room, Search
from gpudoctor.estimate.result import Device, Estimate, Verdict
from gpudoctor.estimate.shapes import ModelShape
from gpudoctor.lang import say, term
from gpudoctor.model.records import frozen

if TYPE_CHECKING:
    from gpudoctor.estimate.traced.traced_estimate import Traced

SCHEMA = "gpudoctor.estimate/1"
LABELS = {
    "full": "full", "lora": "LoRA", "qlora": "QLoRA", "int8-lora": "int8 LoRA", "gptq-lora": say("GPTQ LoRA"),
    "freeze": "freeze",
}  # fmt: skip
VERDICTS = (Verdict.FITS, Verdict.TIGHT, Verdict.DOES_NOT_FIT)


@frozen
class Answer:
    """One question answered: a model, and a job or the usual three."""

    shape: ModelShape
    estimates: tuple[Estimate, ...]
    """One for each method, in the order of what they train: full, LoRA, QLoRA."""
    device: Device | None
    """The card asked for, or the machine's own; None where neither is known."""
    own: bool
    """Whether that card is the machine's own and not the user's words."""
    common: tuple[tuple[Device, tuple[Verdict | None, ...]], ...] = ()
    """Without a card: common ones, and the verdict of each estimate there."""
    assumptions: tuple[str, ...] = ()
    cuts: tuple[Cut, ...] = ()
    """Where the shown job does not fit: single changes."""
    room: Room | None = None
    """Where it fits: how much more does."""
    found: Search | None = None
    traced: "tuple[Traced, ...]" = ()
    """With `--trace`, where each estimate comes from."""

    @property
    def shown(self) -> Estimate:
        """Whose lines are shown: the first estimate that fits, then the first that is tight, else the least."""
        for verdict in VERDICTS[:2]:
            for estimate in self.estimates:
                if estimate.card.verdict is verdict:
                    return estimate
        if self.device is None:
            return self.estimates[0]
        return min(self.estimates, key=lambda estimate: estimate.total_bytes)

    @property
    def fits(self) -> bool | None:
        """Whether anything that was asked for fits; tight counts. None without a card."""
        if self.device is None:
            return None
        if self.found is not None:
            return bool(self.found.best) or any(estimate.fits for estimate in self.estimates)
        return any(estimate.fits for estimate in self.estimates)


def label(estimate: Estimate) -> str:
    """A job's method for a person: `LoRA r16`; in inference `inference`."""
    if estimate.job.mode == "inference":
        return term("inference")
    name = LABELS[estimate.job.method]
    return f"{name} r{estimate.job.lora_rank}" if estimate.job.adapted else term(name)
