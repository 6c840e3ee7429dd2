"""What CUDA_VISIBLE_DEVICES leaves to a job, by the rules of CUDA and of torch.cuda._parse_visible_devices.

Standard library only: the sampler's child reads it too.
"""

import re
from collections.abc import Sequence

from gpudoctor.lang import SpokenError, say
from gpudoctor.model.records import frozen

_NUMBER = re.compile(r"\+?\d+")
_NONE = frozenset({"-1", "NoDevFiles", "none"})
BY_BUS = "PCI_BUS_ID"
"""The value of CUDA_DEVICE_ORDER with which CUDA counts as NVML does."""


class UnknownCards(SpokenError):
    """The driver does not say what the variable asks for, with the reason as its text."""


@frozen
class ListedGpu:
    """A GPU as NVML lists it."""

    index: int
    name: str | None = None
    """None for one that does not answer."""
    uuid: str | None = None
    mig: tuple[str, ...] = ()


@frozen
class Visible:
    """What CUDA makes of the value."""

    count: int
    fault: str = ""
    """What is wrong with the value, as a clause; "" when nothing is."""
    indices: tuple[int, ...] | None = ()
    """NVML's numbers of their cards, in the order of the list.

    None where CUDA may count otherwise: by default it puts the fastest card first, and leaves the order of the
    others open (CUDA C++ Programming Guide, "Environment Variables").
    """
    mig: str = ""
    """UUID of the one MIG device that a process uses."""


def entries(value: str) -> int:
    """GPUs that a list names, where no GPU is at hand to ask."""
    text = value.strip()
    return 0 if not text or text in _NONE else len(text.split(","))


def visible(value: str | None, order: str | None, cards: Sequence[ListedGpu]) -> Visible:
    """What a value of CUDA_VISIBLE_DEVICES (None: not set) leaves of these cards.

    `order` is the value of CUDA_DEVICE_ORDER. Raises `UnknownCards` where UUIDs are named and not told.
    """
    every = tuple(card.index for card in cards)
    if value is None:
        return Visible(count=len(every), indices=every)
    text = value.strip()
    if not text:
        return Visible(count=0, fault=say("is set and empty"))
    listed = [entry.strip() for entry in text.split(",")]
    if text in _NONE:
        return Visible(count=0, fault=say("hides every GPU"))
    if listed[0].startswith("MIG-"):
        return _mig(listed, cards)
    by_uuid = listed[0].startswith("GPU-")
    if by_uuid and any(card.name is not None and card.uuid is None for card in cards):
        raise UnknownCards("the GPUs do not tell their UUIDs")
    chosen: list[int] = []
    for entry in listed:
        index, fault = _by_uuid(entry, cards) if by_uuid else _by_number(entry, len(cards))
        if fault:
            told = _as_nvml(chosen, by_uuid, order, cards)
            return Visible(count=len(chosen), fault=fault, indices=told)
        if index in chosen:
            return Visible(count=0, fault=say("names {entry} twice", entry=entry))
        chosen.append(index)
    return Visible(count=len(chosen), indices=_as_nvml(chosen, by_uuid, order, cards))


def _as_nvml(chosen: list[int], by_uuid: bool, order: str | None, cards: Sequence[ListedGpu]) -> tuple[int, ...] | None:
    """NVML's numbers of what CUDA counts by place; None where the two orders may differ."""
    alike = len({card.name for card in cards if card.name is not None}) <= 1
    same = by_uuid or alike or order == BY_BUS or len(chosen) == len(cards)
    return tuple(cards[place].index for place in chosen) if same else None


def _by_number(entry: str, total: int) -> tuple[int, str]:
    match = _NUMBER.match(entry)  # "1x" is 1: strtoul
    if match is None:
        fault = say("has the entry {entry!r}, which is not a GPU", entry=entry)
        return -1, fault if entry else say("has an empty entry")
    index = int(match.group())
    return (index, "") if index < total else (-1, say("names GPU {index}", index=index))


def _by_uuid(entry: str, cards: Sequence[ListedGpu]) -> tuple[int, str]:
    named = [place for place, card in enumerate(cards) if entry and (card.uuid or "").lower().startswith(entry.lower())]
    if len(named) == 1:
        return named[0], ""
    who = say("fits several GPUs") if named else say("no GPU has")
    return -1, say("names {entry}, which {named}", entry=entry or say("an empty entry"), named=who)


def _mig(listed: list[str], cards: Sequence[ListedGpu]) -> Visible:
    """A process uses one MIG device, the first that is listed."""
    first = listed[0]
    for card in cards:
        if first in card.mig:
            return Visible(count=1, indices=(card.index,), mig=first)
    return Visible(count=0, fault=say("names {first}, which is not a MIG device here", first=first))
