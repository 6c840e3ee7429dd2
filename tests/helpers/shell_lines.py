"""Shell lines in which `gpudoctor` is a forked process, with the streams that the shell gives it.

The shell starts this file in its place: a bare interpreter that hands its streams over and waits for the exit code.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

_MOST = 1 << 16
_STREAMS = 3


def run_line(line: str, folder: Path, *, timeout: float = 120) -> int:
    """The exit code of a shell line; in it, `gpudoctor` is this checkout's, started once."""
    from forks import Request, zygote

    with TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{place}/door")
        door.listen()
        door.settimeout(timeout)
        words = [sys.executable, "-I", "-S", __file__, f"{place}/door"]
        stub = f'gpudoctor() {{ {shlex.join(words)} "$@"; }}; '
        with subprocess.Popen(["bash", "-c", stub + line], cwd=folder) as shell:
            asking, _ = door.accept()
            text, handles, _, _ = socket.recv_fds(asking, _MOST, _STREAMS)
            request = Request(
                words=["-m", *json.loads(text)], folder=folder, environment={**os.environ, "PYTHONUTF8": "1"},
                said=Path(place), limit=timeout, streams=f"{place}/door",
            )  # fmt: skip
            forks = zygote("zygote_command.py")
            forks.ask([request])
            with door.accept()[0] as child:
                socket.send_fds(child, [b"."], handles)
            for handle in handles:
                os.close(handle)
            [code] = forks.answer()
            asking.sendall(str(code).encode())
            asking.close()
            return shell.wait(timeout)


def main() -> None:
    """In the shell: ask for the command at a socket, with our streams."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(sys.argv[1])
        socket.send_fds(asking, [json.dumps(sys.argv[2:]).encode()], list(range(_STREAMS)))
        for handle in range(_STREAMS):
            os.close(handle)
        code = int(asking.recv(64))
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
