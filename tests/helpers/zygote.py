"""Forks children that have torch already, each to run one script under the probe: seconds a test are saved.

Only the way in is another than under `gpudoctor run` (test_injection.py has the real one); the script is a main
program, its end and its death are an interpreter's. Reads requests from standard input, a JSON object a line
(`script`, `words`, `environment`, `folder`), answers with the exit code, a line each.
"""

import json
import os
import signal
import sys
import time

LIMIT = 60.0
"""Seconds that a script may take."""


def serve() -> dict | None:
    """Answer requests; returns in a child, with its request, and in the parent at the end, with None."""
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            return request
        print(os.waitstatus_to_exitcode(wait(pid)), flush=True)
    return None


def wait(pid: int) -> int:
    """The status of a child, which is killed with its own children when it takes too long."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(pid, signal.SIGABRT)  # for the stack
    time.sleep(0.5)
    os.killpg(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def become(request: dict) -> None:
    """Make this process look as if it had been started for the script."""
    for name, handle in (("stdout", 1), ("stderr", 2)):
        opened = os.open(os.path.join(request["folder"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, handle)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv[:] = [request["script"], *request["words"]]
    sys.orig_argv[:] = [sys.executable, *sys.argv]
    sys.path[0] = os.path.dirname(request["script"])


if __name__ == "__main__":
    import torch
    import torch._dynamo  # what the first optimizer imports

    torch.set_num_threads(1)
    asked = serve()
    if asked is not None:
        become(asked)
        names = {"__name__": "_gpudoctor_boot"}
        boot = os.path.join(os.environ.get("GPUDOCTOR_PROBE", ""), "boot.py")
        if os.path.exists(boot):  # else the script is to run without us
            with open(boot, encoding="utf-8") as stream:
                exec(compile(stream.read(), boot, "exec"), names)
            names["boot"](os.environ["GPUDOCTOR_PROBE"])
            if sys.meta_path[0].__class__.__name__ == "Waiting":
                sys.meta_path[0].imported("torch")
        with open(asked["script"], encoding="utf-8") as stream:
            code = compile(stream.read(), asked["script"], "exec")
        sys.modules["__main__"].__file__ = asked["script"]
        del names, boot, stream
        exec(code, globals())
