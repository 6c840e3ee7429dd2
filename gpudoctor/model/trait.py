"""What an ailment means to verdicts and trials beyond its topic."""

from enum import Enum


class Trait(Enum):
    """A property of an ailment that a check declares, so that no other part has to know its code."""

    STANDSTILL = "standstill"
    """The run makes no more steps: that is its verdict."""
    UNEXPLAINED = "unexplained"
    """It adds up the time that no other finding explains."""
    INSIDE_PASSES = "inside passes"
    """Its time may be part of the forward and backward passes."""
    FIRST_BAD_STEP = "first bad step"
    """Its detail is a `BadStepDetail`: `verify` replays that step."""
    DEVICE_MEMORY_GROWS = "device memory grows"
    """The allocated memory of the device grows with each step: `verify` searches what holds it, and completes
    the `LeakDetail`."""
    HOST_MEMORY_GROWS = "host memory grows"
    """The memory of the host grows with each step. With the device's, the device's counts where it was read."""


GROWTH = frozenset({Trait.DEVICE_MEMORY_GROWS, Trait.HOST_MEMORY_GROWS})
"""Traits of a leak."""
