"""What a check hands to its rule beside the evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Detail:
    """Base of a check's detail: a frozen dataclass with slots in the check's module, its name ends in `Detail`.

    It is the one thing that a rule imports from a check. It is not part of a report. None in a field means that
    nobody looked: what the source knows of it stays when a run confirms a suspicion (`over`).
    """

    def over(self, other: "Detail | None") -> "Detail":
        """This detail, with the other's values where it has None; an other kind of detail is left out."""
        if other is None or type(other) is not type(self):
            return self
        known = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(other, **{name: value for name, value in known.items() if value is not None})

    def placeholders(self) -> Mapping[str, object]:
        """The values that a row of advice may name in braces: the fields."""
        return {item.name: getattr(self, item.name) for item in fields(self)}
