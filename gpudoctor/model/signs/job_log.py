"""What the logs of a job say of its end: messages that matter, with rank, time and step."""

from collections.abc import Hashable
from typing import Any

from gpudoctor.model.log_message import Bearing
from gpudoctor.model.records import dataclass, field, frozen


@frozen
class LogFrame:
    """A line of the user's program in a traceback."""

    path: str
    line: int
    function: str
    text: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class LogEvent:
    """One message, with how often it came again on the same rank. Its reader fills in what follows behind it."""

    order: int = 0
    """Its place among all events of all files: by time where the files have times, else by position."""
    path: str
    """The log, as the user named it."""
    line: int
    """1-based."""
    text: str
    """The message without its prefixes, secrets masked."""
    bearing: Bearing
    code: str
    """Code of the check whose message it is; "" for a consequence and for a harmless one."""
    kind: str
    values: tuple[tuple[str, str], ...] = ()
    exception: str = ""
    """The type of the exception; "" for a line that is none."""
    fatal: bool = False
    """Whether it ended its process: an exception that nobody caught, a fault of C++, a record of a kill."""
    rank: int | None = None
    node: str = ""
    stamp: str = ""
    """The time as it stands in the log."""
    seconds: float | None = None
    """The same as seconds since an arbitrary day, to compare; None without a time."""
    step: int | None = None
    """The last step that was printed before."""
    moment: float | None = None
    seen: set[float] = field(default_factory=set, repr=False)
    """Steps that were printed after it on its rank, the first ones: an exception before them was handled."""
    earlier: bool = False
    """Whether the program began again behind it, in the same file."""
    doubtful: bool = False
    """Whether it may not have ended the program: a new run may begin behind it, or it ended a thread."""
    frame: LogFrame | None = None
    """The innermost line of the user's."""
    waits: bool = False
    unstarted: bool = False
    of_script: bool = False
    """Whether its traceback begins at the module level of a script: what comes later is of another process."""
    linked: tuple[int, str] | None = None
    """Another exception of its traceback, its reason or what came of it: how many lines behind, its text."""
    lasting: bool = False
    """Whether it counts although the training goes on."""
    at_end: bool = False
    """Whether it came often, and up to the end of the file."""
    closing: bool = False
    """Whether it counts only if almost nothing follows it."""
    last: bool = False
    """Whether it counts only as the last line of its file."""
    quoted: bool = False
    """Whether a message of the program quotes the exception: who printed it had caught it."""
    warned: bool = False
    """Whether a logger printed it as a warning or less: the program goes on after such a line."""
    logged: bool = False
    """Whether a logger printed its traceback as an error: the program had caught it, and may end by itself."""
    goes_on: bool = False
    """Whether the program says that it goes on without what failed: skipping, falling back, retrying."""
    outside: bool = False
    """Whether only what runs round the program prints it: steps behind it do not show that it was overcome."""
    low_behind: int = 0
    """Lines that a logger printed behind it as warnings or less."""
    served: int = 0
    """Requests that a server answered behind it, and lines of Jupyter's server: an exception ends neither."""
    succeeded: bool = False
    """Whether the launcher said behind it that the program ended well."""
    followed: int = 0
    """Ordinary lines that were read behind it: neither errors nor parts of a traceback."""
    mentioned: bool = False
    """Whether a line before a death only mentions it: it counts where nothing else explains the death."""
    undone: str = ""
    """A regular expression for a later line which shows that it was overcome."""
    explains: str = ""
    """Of a hint: a regular expression for the failure that it explains."""
    by_exit_code: bool = False
    """Whether it counts because the command's exit code is known, and bears it out."""
    count: int = 1
    last_line: int = 0

    @property
    def progress(self) -> int:
        """How many steps were printed after it."""
        return len(self.seen)


@frozen
class LogFile:
    """One file, or the standard input."""

    path: str
    lines: int
    bytes: int
    ends_in_progress: bool = False
    """Whether its last words are steps: it ended in the middle of the training."""
    done_line: int = 0
    """The line near its end at which the program says that its training is complete, if no step follows."""
    behind_steps: str = ""
    """Its last line, if that stands behind the last step and is no step."""


@frozen
class RankWords:
    """What a rank printed last."""

    rank: int
    path: str
    line: int
    """1-based."""
    text: str
    """Without prefixes, secrets masked."""
    step: float | None
    """The last step or epoch in its last lines."""
    stamp: str


@frozen(kw_only=False)
class RankExit:
    """How the process of a rank ended by what its launcher printed."""

    rank: int
    code: int
    """The exit code; of a signal its number, negative."""
    launcher: str
    """`torchrun`, `srun`, `mpirun`, `spawn`."""
    path: str
    line: int
    """1-based."""
    first: bool
    """Whether the launcher says that it saw this end first."""
    node: str = ""


@frozen
class UnknownError:
    """A line at the end of a file that says that it is an error, and that no check knows."""

    path: str
    line: int
    """1-based."""
    text: str
    """With its level, without other prefixes, secrets masked."""
    rank: int | None
    stamp: str
    node: str = ""
    at_death: bool = False
    """Whether lines of a death follow it, and not the end of the file."""
    cut: bool = False
    """Whether it is the innermost frame of a traceback whose exception the log no longer has."""


@frozen
class JobLog:
    """All logs of one job."""

    files: tuple[LogFile, ...]
    events: tuple[LogEvent, ...]
    """In their order, harmless ones included."""
    ranks: tuple[int, ...] = ()
    """Every rank that printed something under its number."""
    world: int | None = None
    """Number of ranks, where the text says it."""
    last_step: int | None = None
    finished: bool = False
    """Whether the program said that its training was complete."""
    last_words: tuple[RankWords, ...] = ()
    """What each rank printed last, by rank; read only if something failed."""
    exits: tuple[RankExit, ...] = ()
    """How ranks ended by their launcher, in the order of its lines."""
    unknown_errors: tuple[UnknownError, ...] = ()
    """The first such line of each file that names no failure and does not say that all went well."""
    problems: tuple[str, ...] = ()
    """What could not be read, a sentence each."""
    memory: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    """Answers about it that were worked out once (`gpudoctor.analysis.memo`)."""
