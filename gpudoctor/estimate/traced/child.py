"""Starts the child that traces, and turns its crash, hang or hunger for memory into a sentence."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpudoctor.errors import DoctorError, IncompleteError, UsageError
from gpudoctor.lang import say
from gpudoctor.model.child_process import child_code
from gpudoctor.text import duration

SECONDS = 600.0
"""How long a trace of a model may take."""
LARGEST = 16 << 30
"""Resident bytes beyond which the child is stopped: fake tensors need none, so something real is being made."""
COMMAND = (sys.executable, "-c", child_code("gpudoctor.estimate.traced.__main__"))
"""What is run, followed by the file for the answer."""
NEEDED = ("torch", "transformers", "peft")
NEEDS = "--trace needs torch, transformers and peft: pip install torch transformers peft"


def ask_child(request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The child's answer. Raises `IncompleteError` where there is none, `UsageError` for a wrong request
    and where a library is missing."""
    missing = [name for name in NEEDED if not _installed(name)]
    if missing:
        raise UsageError(
            "{needs} ({missing} cannot be found by {executable})",
            needs=NEEDS,
            missing=", ".join(missing),
            executable=sys.executable,
        )
    with tempfile.TemporaryDirectory(prefix="gpudoctor-trace-") as folder:
        path = Path(folder) / "answer.json"
        with open(Path(folder) / "said", "w+b") as said:
            code = _run(json.dumps(request).encode(), path, said, seconds)
            said.seek(0)
            last = _last_line(said.read()[-4000:])
        if not path.is_file():
            ending = say("signal {code}", code=-code) if code < 0 else say("exit code {code}", code=code)
            raise IncompleteError("the trace ended without an answer ({ending}){last}", ending=ending, last=last)
        answer: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if "error" in answer:
        kind: type[DoctorError] = UsageError if answer["exit_code"] == 2 else IncompleteError
        raise kind(f"--trace: {answer['error']}")
    return answer


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _run(request: bytes, path: Path, said: Any, seconds: float) -> int:
    """The child's exit code; stopped beyond its time or memory."""
    import psutil

    command = [*COMMAND, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=said, stderr=said, env=environment, start_new_session=True
    )
    end = time.monotonic() + seconds
    try:
        assert child.stdin is not None
        child.stdin.write(request)
        child.stdin.close()
        process = psutil.Process(child.pid)
        while child.poll() is None:
            if time.monotonic() > end:
                raise IncompleteError("the trace took longer than {seconds} and was stopped", seconds=duration(seconds))
            if _resident(process) > LARGEST:
                raise IncompleteError(
                    "the trace took more than {largest} GiB of memory and was stopped", largest=LARGEST >> 30
                )
            time.sleep(0.05)
    except BrokenPipeError:
        pass
    finally:
        _stop(child)
    return child.returncode


def _resident(process: Any) -> int:
    import psutil

    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """End it and whatever it started: they are a session of their own."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, 9)
        except OSError:
            child.kill()
    child.wait()


def _last_line(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""
