"""The errors that end a command: a sentence for a person and an exit code for a script.

`cli.main` is the only place that turns one of them into text. Everything else raises.
"""

from gpudoctor.lang import SpokenError


class DoctorError(SpokenError):
    """A command cannot go on. The text says what was wrong, with the value, and what to do next."""

    exit_code = 3


class UsageError(DoctorError):
    """The request itself is wrong: a missing file, a bad flag, an unknown code, a broken setting of ours."""

    exit_code = 2


class IncompleteError(DoctorError):
    """The request was right and the examination could not be made."""

    exit_code = 3
