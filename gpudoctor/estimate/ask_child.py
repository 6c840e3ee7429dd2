"""Asks a process of our own what torch or transformers know: both may hang, crash or take memory.

The request is JSON on its standard input, the answer JSON on its standard output. What libraries print is kept for
the sentence that says why there is no answer.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpudoctor.errors import DoctorError, IncompleteError, UsageError
from gpudoctor.lang import say
from gpudoctor.model.child_process import child_code
from gpudoctor.text import duration

LARGEST = 16 << 30
"""Resident bytes beyond which a child is stopped: what it builds is without memory, so something real is being made."""


def answered(find: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """The child: reads the request and writes what `find` says of it; 0 unless torch brings the process down."""
    own = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(own, "w", encoding="utf-8") as stream:
        try:
            answer = find(json.load(sys.stdin))
        except DoctorError as error:
            answer = {"error": str(error), "exit_code": error.exit_code}
        json.dump(answer, stream)
    return 0


def ask_child(
    module: str, request: Mapping[str, Any], what: str, seconds: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What `main` of a module says of a request; `what` names it in a sentence.

    Raises `IncompleteError` where there is no answer, `UsageError` where the answer is that the request is wrong.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            [sys.executable, "-c", child_code(module)], stdin=subprocess.PIPE, stdout=out, stderr=said,
            env={**os.environ, **(environment or {})}, start_new_session=True,
        )  # fmt: skip
        try:
            _wait(child, json.dumps(request).encode(), what, seconds)
        finally:
            _stop(child)
        out.seek(0)
        said.seek(0)
        lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
        try:
            answer = dict(json.load(out))
        except ValueError:
            code = child.returncode
            ending = say("signal {code}", code=-code) if code < 0 else say("exit code {code}", code=code)
            last = f": {lines[-1][:300]}" if lines else ""
            raise IncompleteError(
                "{what} ended without an answer ({ending}){last}", what=what, ending=ending, last=last
            ) from None
    if "error" in answer:
        kind: type[DoctorError] = UsageError if answer["exit_code"] == 2 else IncompleteError
        raise kind(str(answer["error"]))
    return answer


def _wait(child: "subprocess.Popen[bytes]", request: bytes, what: str, seconds: float) -> None:
    """Hand the request over and wait for the end; raises `IncompleteError` beyond its time or memory."""
    import psutil

    end = time.monotonic() + seconds
    assert child.stdin is not None
    try:
        with child.stdin:
            child.stdin.write(request)
        process = psutil.Process(child.pid)
        while child.poll() is None:
            if time.monotonic() > end:
                raise IncompleteError(
                    "{what} took longer than {seconds} and was stopped", what=what, seconds=duration(seconds)
                )
            if process.memory_info().rss > LARGEST:
                raise IncompleteError(
                    "{what} took more than {largest} GiB of memory and was stopped", what=what, largest=LARGEST >> 30
                )
            time.sleep(0.05)
    except (BrokenPipeError, psutil.Error):
        child.wait(max(0.0, end - time.monotonic()))  # it ends by itself


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """End it and whatever it started: they are a session of their own."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, 9)
        except OSError:
            child.kill()
    child.wait()
