"""The one shape of a finding about cards: a sentence, a reading of each card, the command that shows it again."""

from collections.abc import Iterable, Sequence
from typing import Any

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Confidence, Finding, Resource, Severity
from gpudoctor.model.job_devices import CardsDetail, each_card
from gpudoctor.model.signs.gpu import Gpu, LostGpu, list_gpus, name_gpus

Value = float | int | str | bool


def on_cards(
    check: Check,
    message: str,
    rows: Sequence[tuple[Gpu | LostGpu, Value]],
    reading: str,
    unit: str,
    command: str,
    *,
    severity: Severity | None = None,
    breaks: str = "",
    scarce: Resource | None = None,
    **facts: Any,
) -> Finding:
    """A check's finding about cards here, each with its reading; `{}` in the command is the card's number.

    `facts` are what the rule reads beside the cards.
    """
    cards = [card for card, _ in rows]
    return check.finding(
        message,
        evidence=each_card(reading, rows, unit, command),
        confidence=Confidence.CONFIRMED,
        severity=severity,
        breaks=breaks,
        subject=name_gpus(cards),
        scarce=scarce,
        detail=CardsDetail(gpus=list_gpus(cards), **facts),
    )


def on_recorded_cards(
    check: Check,
    message: str,
    rows: "Sequence[tuple[of_run.SampledGpu, float | str]]",
    reading: str,
    unit: str,
    recording: "of_run.Recording",
    *,
    severity: Severity | None = None,
    **facts: Any,
) -> Finding:
    """The same about cards that were sampled in a run."""
    cards = [card for card, _ in rows]
    return check.finding(
        message,
        evidence=tuple(measured(f"gpu{card.number}_{reading}", value, unit, recording) for card, value in rows),
        confidence=Confidence.CONFIRMED,
        severity=severity,
        subject=", ".join(card.label for card in cards),
        detail=CardsDetail(gpus=",".join(str(card.number) for card in cards if card.here), **facts),
    )


def listed(cards: "Iterable[tuple[Gpu | of_run.SampledGpu, Iterable[str]]]") -> str:
    """`GPU 0: a, b; GPU 3: a`: cards with what is to be said of each."""
    return concatenated(
        "; ", [say("{card}: {words}", card=card.label, words=concatenated(", ", words)) for card, words in cards]
    )
