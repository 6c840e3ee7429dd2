"""The one shape of a finding about cards: a sentence, a reading of each card, the command that shows it again."""

from collections.abc import Iterable, Sequence
from typing import Any

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Finding, Resource, Severity
from gpudoctor.model.job_devices import CardsDetail, each_card
from gpudoctor.model.signs.gpu import Gpu, list_gpus, name_gpus

Value = float | int | str | bool


def on_cards(
    check: Check,
    message: str,
    rows: Sequence[tuple[Any, Value]],
    reading: str,
    unit: str,
    shown: "str | of_run.Recording",
    *,
    severity: Severity | None = None,
    breaks: str = "",
    scarce: Resource | None = None,
    **facts: Any,
) -> Finding:
    """A check's finding about cards here, or about those that a run sampled, each with its reading.

    `shown` is the command that shows it again, with `{}` for the card's number, or the recording that has it.
    `facts` are what the rule reads beside the cards.
    """
    cards = [card for card, _ in rows]
    if isinstance(shown, str):
        evidence, subject, gpus = each_card(reading, rows, unit, shown), name_gpus(cards), list_gpus(cards)
    else:
        evidence = tuple(measured(f"gpu{card.number}_{reading}", value, unit, shown) for card, value in rows)
        subject = ", ".join(card.label for card in cards)
        gpus = ",".join(str(card.number) for card in cards if card.here)
    return check.finding(
        message,
        evidence=evidence,
        severity=severity,
        breaks=breaks,
        subject=subject,
        scarce=scarce,
        detail=CardsDetail(gpus=gpus, **facts),
    )


def listed(cards: "Iterable[tuple[Gpu | of_run.SampledGpu, Iterable[str]]]") -> str:
    """`GPU 0: a, b; GPU 3: a`: cards with what is to be said of each."""
    return concatenated(
        "; ", [say("{card}: {words}", card=card.label, words=concatenated(", ", words)) for card, words in cards]
    )
