"""A fact about the installed torch as evidence, and what the rules read of a build that does not fit its cards."""

from gpudoctor.model import Detail, Measurement, Patient, Provenance
from gpudoctor.model.records import frozen


@frozen
class TorchBuildDetail(Detail):
    """What the rules of ENV002 and ENV004 read."""

    torch: str
    driver: str
    """\"\" where not known."""
    capabilities: str
    """Of the cards, with spaces."""


def of_torch(patient: Patient, name: str, value: str, expression: str) -> Measurement:
    """What torch's files declare, with the line of Python that prints it."""
    command = f"{patient.packages.executable} -c 'import torch; print({expression})'"
    return Measurement(name, value, "", provenance=Provenance.DECLARED, reproduce=command)
