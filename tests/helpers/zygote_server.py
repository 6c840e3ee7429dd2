"""A server of agents whose commands are forked, with gpudoctor loaded: 1.5 s of CPU a command.

Where the server starts a command of gpudoctor, a spare child becomes that, with the streams, the environment, the
folder and the session that were asked for. Whatever else is started is started.
"""

import os
import runpy
import subprocess
import sys

import zygote_command
from zygote import Main, keep, leave_at_exit
from zygote_training import Starting, spares

_COMMAND = "gpudoctor.cli"
"""In the code of a command that the server starts."""
_SPARES = 48


class Commands(Starting):
    """Stands for the function that forks and execs, in the process of the server."""

    def wanted(self, words: list[str]) -> tuple[str, list[str]] | None:
        """No door, and the words from `-c` on."""
        ours = words[:2] == [sys.executable, "-c"] and _COMMAND in words[2]
        return ("", words[1:]) if ours else None


def turn_into(request: dict) -> None:
    """Be the command that was asked for."""
    if request["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv[:] = request["words"]
    sys.orig_argv[:] = [sys.executable, *sys.argv]
    sys.path[0] = ""
    leave_at_exit()


if __name__ == "__main__":
    zygote_command.load()
    keep()
    waiting, wanted = spares(_SPARES)
    if wanted is None:
        subprocess._fork_exec = Commands(waiting)
        runpy.run_module("gpudoctor", run_name="__main__", alter_sys=True)
    else:
        turn_into(wanted)
        with Main():
            exec(compile(sys.argv.pop(1), "<string>", "exec"), globals())
