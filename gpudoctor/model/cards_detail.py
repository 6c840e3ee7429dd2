"""The detail of findings about graphics cards."""

from dataclasses import dataclass

from gpudoctor.model.detail import Detail


@dataclass(frozen=True, slots=True, kw_only=True)
class CardsDetail(Detail):
    """Which cards a finding is about."""

    gpus: str
    """Their numbers, with commas; "" where none of this machine is meant."""
