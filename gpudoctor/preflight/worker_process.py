"""A worker as its agent sees it: started, given work with a limit, asked for its stack, ended."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gpudoctor.model.child_process import child_code
from gpudoctor.model.external_files import read_head
from gpudoctor.preflight.messages import LINE_LIMIT, Message
from gpudoctor.recorder.start_command import die_with_parent
from gpudoctor.vitals.process.procfs import signal_name, usage

STACK_SECONDS = 2.0
"""The most that a worker gets to write its stack before it is ended."""
_LOOK_AGAIN = 0.05
_ASK_AGAIN = 10
"""Looks after which a worker without a stack is asked again."""
CLOSE_SECONDS = 2.0
"""Longest wait for the end of killed workers."""
_FRAME = re.compile(r'^\s+File "(.+?)", line (\d+|\?\?\?) in (.+)$')
_TAIL = 1 << 16


class WorkerProcess:
    """One worker; a new process after a failure."""

    def __init__(self, python: str, environment: Mapping[str, str], module: str) -> None:
        self._python = python
        self._environment = environment
        self._module = module
        self._process: asyncio.subprocess.Process | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._turn = asyncio.Lock()
        self._ended: list[asyncio.subprocess.Process] = []

    async def ask(self, work: Message, limit: float) -> Message:
        """The answer to a piece of work, or `failure` with the reason and `kind`: `error`, `died`, `stuck`.

        Work comes one piece after the other. A worker that died or stood still is gone afterwards.
        """
        async with self._turn:
            return await self._ask(work, limit)

    async def _ask(self, work: Message, limit: float) -> Message:
        try:
            if self._process is None:
                await self._start()
            answer = await asyncio.wait_for(self._exchange({**work, "limit": limit}), limit)
        except asyncio.TimeoutError:
            return await self._stuck(limit)
        except asyncio.CancelledError:
            self.end()
            raise
        except OSError as error:
            self.end()
            why = f"the interpreter {self._python} cannot be started: {error.strerror or error}"
            return {"failure": why, "kind": "error"}
        if answer is None:
            return await self._died()
        return {**answer, "kind": "error"} if answer.get("failure") else answer

    async def _exchange(self, work: Message) -> Message | None:
        self._writer.write(json.dumps(work).encode() + b"\n")
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            return None
        try:
            answer = json.loads(line) if line else None
        except ValueError:
            return None
        return answer if isinstance(answer, dict) else None

    async def _start(self) -> None:
        own, its = socket.socketpair()
        self._folder = tempfile.TemporaryDirectory(prefix="gpudoctor-preflight-")
        try:
            with open(Path(self._folder.name, "output"), "wb") as output:
                self._process = await asyncio.create_subprocess_exec(
                    self._python,
                    "-c",
                    child_code(self._module),
                    str(its.fileno()),
                    str(Path(self._folder.name, "stack")),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=dict(self._environment),
                    pass_fds=(its.fileno(),),
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
        except BaseException:
            own.close()
            raise
        finally:
            its.close()
        self._reader, self._writer = await asyncio.open_connection(sock=own, limit=LINE_LIMIT)

    async def _died(self) -> Message:
        """Why a worker ended in the middle of its work."""
        process = self._process
        assert process is not None
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), 2.0)
        code = process.returncode
        if code is not None and code < 0:
            why = f"its worker was killed by signal {-code} ({signal_name(-code) or 'unknown'})"
        else:
            why = f"its worker ended with exit code {code}"
        if last := self._last_words():
            why += f": {last}"
        stack = self._stack()
        self.end()
        return {"failure": why, "kind": "died", "stack": stack}

    async def _stuck(self, limit: float) -> Message:
        """Where a worker stood when its time was over; it is ended."""
        words, kind = f"timed out after {round(limit, 1):g} s", "late"
        process = self._process
        stack: list[str] = []
        if process is not None:
            found = usage(process.pid)
            if found is not None and found.state in "Tt":
                words, kind = "its worker was stopped by a signal", "stuck"
            elif found is not None and found.state == "D":
                words, kind = f"its worker waited for a device for {round(limit, 1):g} s", "stuck"
            with contextlib.suppress(OSError):
                for number in range(round(STACK_SECONDS / _LOOK_AGAIN)):
                    if number % _ASK_AGAIN == 0:  # a thread without Python may have taken the first signal
                        os.kill(process.pid, signal.SIGUSR1)
                        os.kill(process.pid, signal.SIGCONT)
                    await asyncio.sleep(_LOOK_AGAIN)
                    if self._stack():  # it has begun: a moment for the rest
                        await asyncio.sleep(_LOOK_AGAIN)
                        break
            stack = self._stack()
        self.end()
        return {"failure": words, "kind": kind, "stack": stack}

    def _stack(self) -> list[str]:
        """`file:line function`, innermost last, of the last stack that the worker wrote."""
        if self._folder is None:
            return []
        try:
            text = read_head(Path(self._folder.name, "stack"), _TAIL).decode("utf-8", "replace")
        except OSError:
            return []
        for dump in text.split("(most recent call first):")[:0:-1]:
            frames = [
                f"{found[1]}:{found[2]} {found[3]}" for line in dump.splitlines() if (found := _FRAME.match(line))
            ]
            if frames:
                return frames[::-1][-20:]
        return []

    def _last_words(self) -> str:
        """The last line that a worker wrote to standard error."""
        if self._folder is None:
            return ""
        try:
            text = read_head(Path(self._folder.name, "output"), _TAIL).decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""

    def end(self) -> None:
        """End the worker and all that it started; safe to call at any time."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            self._ended.append(process)
            self._writer.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            with contextlib.suppress(OSError):
                folder.cleanup()

    async def close(self) -> None:
        """End the worker and wait until it is gone."""
        self.end()
        if waiting := [asyncio.ensure_future(process.wait()) for process in self._ended]:
            await asyncio.wait(waiting, timeout=CLOSE_SECONDS)
        self._ended.clear()
