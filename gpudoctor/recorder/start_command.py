"""Starts the command as the shell would have: same streams, same process group, same signal handling."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpudoctor.errors import DoctorError
from gpudoctor.lang import say
from gpudoctor.recorder.signal_forwarder import held

SITE = Path(__file__).resolve().parents[1] / "probe" / "site"
"""The folder that goes first on PYTHONPATH; it holds nothing but a sitecustomize."""
_PARENT_DEATH = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class CommandError(DoctorError):
    """The command cannot be started; the exit code is a shell's."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def probed(variables: Mapping[str, str], folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The command's environment: the user's, with the probe where Python looks first."""
    path = variables.get("PYTHONPATH", "")
    probe = SITE.parent
    return {
        **variables,
        # An empty PYTHONPATH means none, and an empty part of one means the working folder.
        "PYTHONPATH": f"{SITE}{os.pathsep}{path}" if path else str(SITE),
        "GPUDOCTOR_PROBE": str(probe),
        "GPUDOCTOR_RECORDING": str(folder),
        **extra,
    }


def start(command: Sequence[str], environment: Mapping[str, str], numbers: list[int]) -> "subprocess.Popen[bytes]":
    """Start the command; `numbers` are the signals that have handlers here. Raises `CommandError`."""
    with held(numbers) as mask:
        try:
            return subprocess.Popen(
                list(command),
                env=dict(environment),
                close_fds=False,  # what the user passes on goes on; nothing that Python opened does
                preexec_fn=_as_a_shell_would(numbers, mask),
            )
        except FileNotFoundError:
            raise CommandError(
                say("{command}: command not found{hint}", command=command[0], hint=_hint(command)), 127
            ) from None
        except PermissionError:
            raise CommandError(
                say("{command}: cannot be executed{hint}", command=command[0], hint=_hint(command)), 126
            ) from None
        except (OSError, ValueError) as error:
            raise CommandError(
                say("{command}: cannot be started: {error}", command=command[0], error=error), 126
            ) from None


def _hint(command: Sequence[str]) -> str:
    if command[0].endswith(".py") and os.path.isfile(command[0]):
        return say("; to run a script: gpudoctor run -- python {command}", command=" ".join(command))
    return ""


def _as_a_shell_would(numbers: list[int], mask: set[int]) -> Callable[[], None]:
    """What the child does between fork and exec: no handler of ours, the mask that we were given.

    A signal that arrives meanwhile waits for exec: it must not be lost in a handler of ours. And `kill -9` on
    us ends the command, as it would have without us: whoever does it means the training.
    """
    dies = die_with_us()

    def prepare() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        dies()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare


def die_with_parent() -> None:
    """End with the process that forked this one."""
    die_with_us(os.getppid())()


def die_with_us(parent: int | None = None) -> Callable[[], None]:
    """What a child does before exec, so that `kill -9` on us ends it too; nothing elsewhere than on Linux."""
    if sys.platform != "linux":
        return lambda: None
    prctl, parent = ctypes.CDLL(None).prctl, parent or os.getpid()  # looked up before the fork

    def prepare() -> None:
        prctl(_PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it happened before the call
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare
