"""Where the ranks of a job stood: main threads of stack dumps that somebody or a timeout left behind."""

from dataclasses import dataclass

from gpudoctor.model.signs.process import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedThread:
    """One thread of a dump."""

    path: str
    """The file that holds the dump, as the user named it."""
    line: int
    """1-based, of the thread's heading."""
    rank: int | None
    """None where neither a prefix, nor the file's name, nor the command line says it."""
    process: str
    """Who it belongs to: a rank, a process, a file; threads of one process share it."""
    thread: str
    """Its name or number, as it stands."""
    main: bool
    frames: tuple[Frame, ...]
    """Innermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStack:
    """The main thread of a process, judged."""

    thread: DumpedThread
    phase: str
    """What it does: `collective`, `sync`, `data_wait`, `backward`; `other` for no known phase."""
    via: str
    """The library's function that decided the phase; "" for a line of the user's own."""
    user: Frame | None
    """The innermost frame of the user's."""

    @property
    def title(self) -> str:
        """`rank 3`, or the process where no rank is known."""
        return f"rank {self.thread.rank}" if self.thread.rank is not None else self.thread.process
