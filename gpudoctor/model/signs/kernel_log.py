"""Messages of the kernel."""

from gpudoctor.model.records import frozen


@frozen
class KernelMessage:
    """One line of the kernel log."""

    text: str
    age: float | None
    """Seconds before the examination; None where the log has no times."""
    time: str | None = None
    stamp: str = ""
    """When, as a saved log writes it: it may lack its year or its zone."""
    uptime: float | None = None
    """Seconds after the boot of the machine that wrote it, where a saved log says that alone."""
    line: int | None = None


@frozen
class KernelLog:
    """What could be read of the kernel log."""

    origin: str
    """The command or file that was read."""
    messages: tuple[KernelMessage, ...]
    """Oldest first; of a saved log only those of the GPU driver, for it may have gigabytes."""
    read: int | None = None
    """Kernel messages that were read of a saved log, also those that are not kept; None for this machine's."""
    printed_by: str = "journalctl -k --no-pager"
    problems: tuple[str, ...] = ()
    """What could not be read of it, a sentence each."""

    @property
    def saved(self) -> bool:
        """Whether it is a file that was named, of this machine or another."""
        return self.read is not None

    def searched(self, pattern: str) -> str:
        """A command that prints its lines of a pattern."""
        return f'{self.printed_by} | grep -E "{pattern}"'
