"""What configs and scripts say of a job, under the names of `TrainingJob`'s fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpudoctor.model import Setting, SourceSpan


@dataclass(slots=True)
class DeclaredJob:
    """What configs and scripts say of a job."""

    model: str | None = None
    """The model's name, path or hub id."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the job."""
    assumptions: list[str] = field(default_factory=list)
    """What they left open, and how it was taken."""
    places: "dict[str, Setting | SourceSpan]" = field(default_factory=dict)
    """Field (and `model`) to where it is written."""
    guessed: set[str] = field(default_factory=set)
    """Fields whose value nobody wrote and no tool's default settles."""

    def tell(self, name: str, value: Any, place: "Setting | SourceSpan | None") -> None:
        """One field as somebody wrote it."""
        self.fields[name] = value
        self.guessed.discard(name)
        if place is not None:
            self.places[name] = place


def settle(fields: Mapping[str, Any], told: DeclaredJob) -> dict[str, Any]:
    """Fields of configs with those of the command line over them, made to agree where configs leave gaps."""
    settled = {**told.fields, **fields}
    world = settled.get("gpus", 1) * settled.get("nodes", 1)
    if world == 1 and "parallel" in told.fields and "parallel" not in fields and "gpus" not in settled:
        told.assumptions.append(
            f"{settled['parallel']} without a number of GPUs in any config: counted on 1 (set --gpus)"
        )
    split = settled.get("tp", 1) * settled.get("pp", 1) * settled.get("cp", 1)
    if world > 1 and split == 1 and told.fields and settled.get("parallel", "none") == "none":
        settled["parallel"] = fields.get("parallel", "ddp")
        told.assumptions.append(f"{world} GPUs and no sharding in the configs: ddp")
    return settled
