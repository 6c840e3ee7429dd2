"""Forks `gpudoctor` commands whose trainings are forked too, with torch loaded: six seconds of CPU a training.

A request's command is the whole one of `python -m gpudoctor`, as in zygote_command.py. It has spare children that
hold torch; where the command starts `python SCRIPT...`, also behind the door of a trial, a spare becomes that: its
real child, with the streams, the environment, the folder and the session that were asked for. Only the interpreter's
start and the import of torch are left out (test_injection.py has them). Whatever else is started is started.
What was loaded before is hidden from the garbage collector: a training's `gc.collect()` sees its own objects alone.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from types import CodeType

import zygote_probe
from zygote import Main, become, keep, leave_at_exit, main_code, serve

_MOST = 1 << 20
"""Bytes of a request for a spare: an environment and a command."""
_STREAMS = 3
_PATIENCE = 30.0
_DOOR = "from gpudoctor.trial.jail.enter import main"
"""In the code of the program that closes the door of a trial and then becomes the command."""
_OURS = ("gpudoctor.estimate.traced", "gpudoctor.estimate.synthetic.transformers_facts")
"""In the code of children of ours that load torch."""
_PARENT_DEATH = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class Opened(BaseException):
    """The door's program would now become the command."""


@dataclass
class Spare:
    """A child in waiting, seen from its parent."""

    pid: int
    line: socket.socket


def spares(count: int) -> tuple[list[Spare], dict | None]:
    """So many children; in one of them, once it is asked for, its request."""
    made: list[Spare] = []
    parent = os.getpid()
    for _ in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            for other in (ours, *(spare.line for spare in made)):
                other.close()
            return [], asked_of(theirs, parent)
        theirs.close()
        made.append(Spare(pid, ours))
    return made, None


def orphan(request: dict) -> dict:
    """What is asked of a child whose parent has gone: it is the child of the process that asks, the next subreaper."""
    if os.fork():
        os._exit(0)
    deadline = time.monotonic() + _PATIENCE
    while os.getppid() != request["parent"]:
        if time.monotonic() > deadline:
            os._exit(1)
        time.sleep(0.001)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(request["meet"])
    return asked_of(line, request["parent"])


def asked_of(line: socket.socket, parent: int) -> dict:
    """What the parent asks for, with its three streams in place; ends with the parent."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)
    text, handles, _, _ = socket.recv_fds(line, _MOST, _STREAMS)
    if not text or os.getppid() != parent:
        os._exit(0)
    for handle, name in zip(handles, range(_STREAMS), strict=True):
        os.dup2(handle, name)
        os.close(handle)
    line.close()
    return json.loads(text)


def training(words: list[str], of_ours: bool = False) -> tuple[str, list[str]] | None:
    """The config of the door before the command, if any, and the words from the script, or from `-c`, on; None for
    another one.
    """
    door = ""
    if words[1:4] == ["-I", "-S", "-c"] and _DOOR in words[4]:
        door, words = words[5], words[6:]
    if len(words) < 2 or words[0] != sys.executable:
        return None
    ours = of_ours and words[1] == "-c" and any(name in words[2] for name in _OURS)
    return (door, words[1:]) if ours or words[1].endswith(".py") else None


class Starting:
    """Stands for the function that forks and execs, in the process of a command."""

    def __init__(self, waiting: list[Spare], ours: bool = False) -> None:
        self._waiting = waiting
        self._ours = ours
        """Whether children of ours that load torch are forked, too."""
        self._real = subprocess._fork_exec

    def __call__(self, *given: object) -> int:
        """The child's process id."""
        words, _, _, _, folder, variables = given[:6]
        found = self.wanted([os.fsdecode(word) for word in words])
        if found is None or not self._waiting:
            return self._real(*given)
        spare = self._waiting.pop(0)
        pairs = dict(os.environb) if variables is None else dict(entry.split(b"=", 1) for entry in variables)
        request = {
            "door": found[0],
            "words": found[1],
            "folder": os.fsdecode(folder) if folder else os.getcwd(),
            "environment": {os.fsdecode(name): os.fsdecode(value) for name, value in pairs.items()},
            "session": bool(given[15]),
        }
        streams = [handle if handle != -1 else at for at, handle in enumerate((given[6], given[9], given[11]))]
        socket.send_fds(spare.line, [json.dumps(request).encode()], streams)
        spare.line.close()
        return spare.pid

    def wanted(self, words: list[str]) -> tuple[str, list[str]] | None:
        """What a spare becomes, as `training` has it; None where the command is started."""
        return training(words, self._ours)


def pass_the_door(config: str, words: list[str]) -> None:
    """Do what the door's program does, up to where it becomes the command."""
    from gpudoctor.trial.jail import enter

    def opened(*_: object) -> None:
        raise Opened

    kept, os.execvp = os.execvp, opened
    sys.argv[:] = ["-c", config, *words]
    try:
        enter.main()
    except Opened:
        os.execvp = kept


def forget() -> None:
    """Take our own modules away: the program that comes has none."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpudoctor"]:
        del sys.modules[name]


def turn_into(request: dict, loaded: dict) -> None:
    """Be the program that was asked for, and none of ours; `loaded` is what its parent does not have."""
    if request["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if request["door"]:
        pass_the_door(request["door"], [sys.executable, *request["words"]])
    forget()
    sys.modules.update(loaded)
    sys.argv[:] = request["words"]
    sys.orig_argv[:] = [sys.executable, *sys.argv]
    if sys.argv[0] == "-c":
        sys.path[:1] = ["", *request["environment"].get("PYTHONPATH", "").split(os.pathsep)]
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    leave_at_exit()


def code_of() -> CodeType | None:
    """What this process is to run, as `zygote.main_code` has it."""
    return compile(sys.argv.pop(1), "<string>", "exec") if sys.argv[0] == "-c" else main_code()


def load(names: list[str]) -> dict:
    """Load these modules and take them away again: name and module of all that came with them."""
    import importlib

    before = set(sys.modules)
    for name in names:
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)
    came = [name for name in sys.modules if name not in before]
    # What belongs to Python stays: it is a second object if it is imported anew.
    foreign = [name for name in came if name.partition(".")[0] not in sys.stdlib_module_names]
    return {name: sys.modules.pop(name) for name in foreign}


if __name__ == "__main__":
    import runpy

    import zygote_command

    zygote_command.load()
    import gpudoctor.trial.jail.covering
    import gpudoctor.trial.jail.landlock  # noqa: F401

    taken = load(["torch", "torch._dynamo"])
    sys.modules.update(taken)
    zygote_probe.prepare()
    for name in taken:
        sys.modules.pop(name, None)
    keep()

    def load_more(names: list[str]) -> None:
        if any(name not in taken for name in names):
            sys.modules.update(taken)
            taken.update(load(names))
            for name in taken:
                sys.modules.pop(name, None)
            keep()

    asked = serve(load_more)
    if asked is not None:
        become(asked)
        waiting, wanted = ([], orphan(asked)) if asked["meet"] else spares(asked["trainings"])
        if wanted is None:
            taken.clear()
            subprocess._fork_exec = Starting(waiting, ours=True)
            sys.path[0] = asked["folder"]  # as `python -m` has it
            with Main():
                runpy.run_module("gpudoctor", run_name="__main__", alter_sys=True)
        else:
            turn_into(wanted, taken)
            code = code_of()
            del taken, waiting, wanted, asked, zygote_command
            with Main():
                if code is None:
                    runpy._run_module_as_main("__main__", alter_argv=False)
                else:
                    exec(code, globals())
