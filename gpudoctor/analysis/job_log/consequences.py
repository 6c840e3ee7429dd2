"""Messages that follow from the failure of something else, and messages that frighten without a reason."""

from gpudoctor.model.log_message import LogMessage
from gpudoctor.model.message_files import read_messages

UNHEEDED = "exiting"
"""The kind of what happens while a process ends, or in a thread or destructor: nothing ended by it."""


PEER, ABORTED = "peer", "aborted"
"""Kinds of a connection that another rank has left, and of a rank that was ended because of another."""
SERVICE = "service"
"""The kind of what services of the machine say of signals that they got or sent: it is not the job's."""
OF_A_GOOD_END = frozenset({UNHEEDED, "trackers", PEER, "closing"})
"""Kinds that a job prints while it ends well, too."""
OF_A_DEATH = frozenset({ABORTED, "launcher", "wrapped", "scheduler", "actors", "mpi"})
"""Kinds that show that some process of the job has failed."""


def consequences() -> tuple[LogMessage, ...]:
    """Messages that follow from the failure of something else."""
    return read_messages(__package__, "consequences.toml")["consequence"]


def harmless() -> tuple[LogMessage, ...]:
    """Messages that frighten without a reason."""
    return read_messages(__package__, "consequences.toml")["harmless"]
