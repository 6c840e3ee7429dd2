"""How schedulers name the reason of what happens to a job, in each form in which their words reach a log."""

BEGAN = (
    r"\bNormal\s.{0,60}\b(?:Pulling|Pulled|Created|Started)\s|[Ss]tarted container\b|"
    r"[Rr]eason[\"']?[:=] {0,20}[\"']?(?:Pulled|Created|Started)\b"
)
"""Of a later line: the pod came farther than its volumes and its network."""
STARTED = (
    r"\bNormal\s.{0,60}\bStarted\s|[Ss]tarted container\b|[Rr]eason[\"']?[:=] {0,20}[\"']?Started\b|"
    r"\b(\d{1,3})/\1 {1,20}Running\b"
)
"""Of a later line: its container runs."""

HELD = (
    "AccountNotAllowed", "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS",
    "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue", "PartitionNodeLimit", "PartitionTimeLimit",
    "QOSNotAllowed", "ReservationDeleted", "ReservationInvalid", "launch_failed_requeued_held",
)  # fmt: skip
"""Slurm's reasons of a job that waits, which do not pass by themselves."""


def says(*reasons: str) -> str:
    """A regular expression for these reasons of Kubernetes, in tables, JSON and the logs of its parts."""
    return (
        r"(?:^(?=\w{1,40}Error: \\{0,3}\")|\b(?:Normal|Warning)\s{1,20}|\b[Rr]eason[\"']?[:=] {0,20}[\"']?|"
        r"\b\d{1,3}/\d{1,3} {1,20}(?:Init:)?|"
        rf"\" with |waiting to start: |\bError: )(?:{'|'.join(reasons)})\b"
    )


def cues(*reasons: str) -> tuple[str, ...]:
    """The cues of these reasons."""
    return tuple(reason.lower() for reason in reasons)
