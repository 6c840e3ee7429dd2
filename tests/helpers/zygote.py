"""Forks children that have torch already, each to run one script under the probe: seconds a test are saved.

Only the way in is another than under `gpudoctor run` (test_injection.py has the real one); the script is a main
program, its end and its death are an interpreter's. Reads from standard input, a line each, JSON lists of what is
to run at a time (`words`: the script and its arguments, `environment`, `folder`, `said`: the folder for what it says,
`limit` in seconds, `name`: the kernel's name for the process, `loaded`: modules that it finds loaded, `door`: the
config of a trial's door, if it goes through one), and answers each with the list of process ids and,
once all have ended, with that of exit codes.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import CodeType

import zygote_probe


def serve(load: Callable[[list[str]], None]) -> dict | None:
    """Answer requests; returns in a child, with its request, and in the parent at the end, with None."""
    for line in sys.stdin:
        children, requests = [], json.loads(line)
        load([name for request in requests for name in request["loaded"]])
        for request in requests:
            pid = os.fork()
            if pid == 0:
                os.setpgid(0, 0)
                return request
            children.append((pid, request["limit"]))
        print(json.dumps([pid for pid, _ in children]), flush=True)
        print(json.dumps([os.waitstatus_to_exitcode(wait(pid, limit)) for pid, limit in children]), flush=True)
    return None


def load(names: list[str]) -> None:
    """Load these modules, for this child and all later ones."""
    if any(name not in sys.modules for name in names):
        for name in names:
            importlib.import_module(name)
        keep()


def keep() -> None:
    """What was loaded is hidden from the garbage collector of the children.

    To go through it takes 0.2 s a collection with torch, and copies the pages that are shared with the parent.
    """
    gc.collect()
    gc.freeze()


def wait(pid: int, limit: float) -> int:
    """The status of a child, which is killed with its own children when it takes too long."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(pid, signal.SIGABRT)  # for the stack
    time.sleep(0.5)
    os.killpg(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


_NAME = 15
"""PR_SET_NAME of prctl(2): what is forked has the name, too; /proc has the variables of the zygote for all of them."""
LEFT: list[int] = []
"""The exit code of a child, once it is known."""


def leave() -> None:
    """The last thing at the exit of a child, after everybody's handlers: go, without an interpreter's tidying up.

    Taking torch apart object by object copies the pages that are shared with the parent: 1.1 s a child.
    """
    if LEFT:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(LEFT[0])


class Main:
    """A child's program runs inside: how it ended becomes its exit code, and goes on to the interpreter."""

    def __enter__(self) -> None:
        """Nothing is known yet."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, SystemExit):
            number = error.code is None or isinstance(error.code, int)
            LEFT.append((error.code or 0) & 0xFF if number else 1)
        elif not isinstance(error, KeyboardInterrupt):  # then the interpreter ends by the signal
            LEFT.append(0 if error is None else 1)


def become(request: dict) -> None:
    """Make this process look as if it had been started for the words."""
    if request["streams"]:
        with socket.socket(socket.AF_UNIX) as given:
            given.connect(request["streams"])
            _, handles, _, _ = socket.recv_fds(given, 1, 3)
        for handle, number in enumerate(handles):
            os.dup2(number, handle)
            os.close(number)
    else:
        for name, handle in (("stdout", 1), ("stderr", 2)):
            opened = os.open(os.path.join(request["said"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, handle)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if request["name"]:
        ctypes.CDLL(None).prctl(_NAME, request["name"].encode(), 0, 0, 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv[:] = request["words"]
    sys.orig_argv[:] = [sys.executable, *sys.argv]
    sys.path[0] = os.path.dirname(sys.argv[0])
    leave_at_exit()


def leave_at_exit() -> None:
    """Have `leave` done: before the program's own handlers are known, so that it runs after them."""
    atexit.unregister(leave)
    atexit.register(leave)


def main_code() -> CodeType | None:
    """The code of the script that this process is to be; the probe has begun where the environment wants it.

    None: as the interpreter does, runpy is to get it from a hook that takes the script for a place that holds
    `__main__` (a mended script has one), and to run it in the names of `__main__`.
    """
    boot = os.path.join(os.environ.get("GPUDOCTOR_PROBE", ""), "boot.py")
    if os.path.exists(boot):  # else the script is to run without us
        zygote_probe.hand_over()
        names = {"__name__": "_gpudoctor_boot"}
        with open(boot, encoding="utf-8") as stream:
            exec(compile(stream.read(), boot, "exec"), names)
        names["boot"](os.environ["GPUDOCTOR_PROBE"])
        if sys.meta_path[0].__class__.__name__ == "Waiting":
            sys.meta_path[0].imported("torch")
    if pkgutil.get_importer(sys.argv[0]) is not None:
        sys.path[0] = sys.argv[0]
        return None
    with open(sys.argv[0], encoding="utf-8") as stream:
        code = compile(stream.read(), sys.argv[0], "exec")
    sys.modules["__main__"].__file__ = sys.argv[0]
    return code


if __name__ == "__main__":
    import runpy

    import torch
    import torch._dynamo  # what the first optimizer imports
    from zygote_training import forget, pass_the_door

    torch.set_num_threads(1)
    zygote_probe.prepare()
    keep()
    asked = serve(load)
    if asked is not None:
        become(asked)
        if asked["door"]:
            pass_the_door(asked["door"], [sys.executable, *sys.argv])
            forget()
            sys.argv[:] = asked["words"]
        code = main_code()
        with Main():
            if code is None:
                runpy._run_module_as_main("__main__", alter_argv=False)
            else:
                exec(code, globals())
