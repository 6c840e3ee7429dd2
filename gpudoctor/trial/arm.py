"""An arm of a trial: the user's command with one change, or with none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What differs from the command as the user gave it."""

    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """For the probe: name and value."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to set."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Real path of a Python file to its new text."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Real path of a config file to its new text."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Flags of the user's script: `--batch-size` to `16`."""
    command: tuple[str, ...] | None = None
    """Another command altogether."""

    @property
    def empty(self) -> bool:
        """Whether it changes nothing."""
        return self == Arm(name=self.name)

    def words(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command with this arm's arguments: replaced where they stand, else added at the end."""
        words = list(self.command or command)
        for flag, value in self.arguments.items():
            words = _with_argument(words, flag, value)
        return tuple(words)


BASELINE = Arm(name="baseline")


def _with_argument(words: list[str], flag: str, value: str) -> list[str]:
    """`--flag value` and `--flag=value` (and Hydra's `key=value`) with another value."""
    for at, word in enumerate(words):
        if word == flag and at + 1 < len(words):
            return [*words[: at + 1], value, *words[at + 2 :]]
        if word.startswith(flag + "="):
            return [*words[:at], f"{flag}={value}", *words[at + 1 :]]
    return [*words, flag, value] if flag.startswith("-") else [*words, f"{flag}={value}"]
