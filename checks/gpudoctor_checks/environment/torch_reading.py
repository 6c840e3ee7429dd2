"""A fact about the installed torch as evidence, and what the rules read of a build that does not fit its cards."""

from gpudoctor.model import Measurement, Patient, Provenance


def of_torch(patient: Patient, name: str, value: str, expression: str) -> Measurement:
    """What torch's files declare, with the line of Python that prints it."""
    command = f"{patient.packages.executable} -c 'import torch; print({expression})'"
    return Measurement(name, value, "", provenance=Provenance.DECLARED, reproduce=command)
