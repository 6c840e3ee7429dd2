"""Environment variables of the job."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpudoctor.model.evidence import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The variables that the training process has or will have."""

    variables: Mapping[str, str]
    """Name to value. Values of secret-looking names have been replaced by the reader."""
    origin: str = "environment"
    """`environment` for this shell, `environment of pid N`, or the job script's `path:line` exports."""
    exports: Mapping[str, tuple[str, int]] = None  # type: ignore[assignment]
    """Variables set by a job script: name to (path, 1-based line)."""

    shadowing: tuple[tuple[str, str], ...] = ()
    """Library (`libnccl.so`) and path of what LD_PRELOAD or LD_LIBRARY_PATH puts before torch's own."""

    def __post_init__(self) -> None:
        """Give `exports` its empty default."""
        if self.exports is None:
            object.__setattr__(self, "exports", {})

    def get(self, name: str) -> str | None:
        """The value, or None when the variable is unset."""
        return self.variables.get(name)

    def is_on(self, name: str) -> bool:
        """Whether a switch is set to something other than empty, 0, false, off or no."""
        return self.variables.get(name, "").strip().lower() not in {"", "0", "false", "off", "no"}

    def evidence(self, name: str) -> Setting:
        """The variable as evidence."""
        path, line = self.exports.get(name, (None, None))
        return Setting(
            key=name,
            value=self.variables.get(name, ""),
            origin=self.origin if path is None else path,
            path=path,
            line=line,
            reproduce=None if path else f'echo "${name}"',
        )
