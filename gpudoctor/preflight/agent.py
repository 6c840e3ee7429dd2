"""An agent: it takes its place, starts workers, does what the coordinator asks, and outlives none of it.

It imports no torch. If the coordinator is lost, every other agent says so and ends.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gpudoctor import __version__
from gpudoctor.errors import IncompleteError
from gpudoctor.lang import say
from gpudoctor.model import Unavailable
from gpudoctor.model.child_process import child_code
from gpudoctor.model.signs.preflight import Preflight, Stage
from gpudoctor.preflight.budget import Budget, Wishes
from gpudoctor.preflight.coordinator import Coordinator, Stopped
from gpudoctor.preflight.facts import free_bytes, identity, interface_of, node_facts
from gpudoctor.preflight.messages import LINE_LIMIT, BrokenProtocol, Message, receive, send
from gpudoctor.preflight.place import RankPlace
from gpudoctor.preflight.worker_process import WorkerProcess
from gpudoctor.vitals.interpreter import find_interpreter

BEAT_SECONDS = 1.0
RETRY_SECONDS = 0.3
ANSWER_SECONDS = 10.0
"""Longest wait for the coordinator's answer to a greeting."""
LEAVE_SECONDS = 3.0
"""Longest wait for the end of this rank's own work."""
WORKER = "gpudoctor.preflight.worker"
ReportMaker = Callable[[Preflight], int]
"""Prints the report of an examination; its exit code."""


def take_part(place: RankPlace, budget: Budget, wishes: Wishes, report: ReportMaker, worker: str = WORKER) -> int:
    """Take part in an examination to its end; the exit code is the same for all ranks.

    `report` is called on rank 0. Raises `IncompleteError` where this rank could not take part, or lost rank 0.
    """
    return asyncio.run(_take_part(place, budget, wishes, report, worker))


async def _take_part(place: RankPlace, budget: Budget, wishes: Wishes, report: ReportMaker, worker: str) -> int:
    coordinator = None
    if place.rank == 0:
        coordinator = Coordinator(place, budget, wishes)
        await coordinator.listen()
    agent = Agent(place, budget, wishes, worker)
    _on_signals(agent, coordinator)
    try:
        if coordinator is None:
            return await agent.run(place.head, place.port)
        own = asyncio.create_task(agent.run(coordinator.own_address, coordinator.port))
        try:
            code = await asyncio.to_thread(report, await coordinator.examine())
            await coordinator.finish(code)
            await asyncio.wait({own}, timeout=LEAVE_SECONDS)
        finally:
            own.cancel()
            with contextlib.suppress(asyncio.CancelledError, IncompleteError):
                await own
            await coordinator.close()
        return code
    finally:
        await agent.end()


def _on_signals(agent: "Agent", coordinator: Coordinator | None) -> None:
    """A launcher's SIGTERM, Ctrl-C: rank 0 reports what there is, another rank says goodbye."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):

        def stop(number: int = number) -> None:
            if coordinator is not None:
                coordinator.stop(Stopped(number))
            else:
                agent.stop(number)

        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread
            loop.add_signal_handler(number, stop)


class Agent:
    """One rank."""

    def __init__(self, place: RankPlace, budget: Budget, wishes: Wishes, worker: str = WORKER) -> None:
        self._place = place
        self._budget = budget
        self._wishes = wishes
        self._module = worker
        self._workers: dict[int, WorkerProcess] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._stage = Stage.ARRIVE.value
        self._address = ""
        self._stopped = 0

    async def run(self, host: str, port: int) -> int:
        """Reach the coordinator, do its work, and return the exit code that it says."""
        reader, writer = await self._reach(host, port)
        self._writer = writer
        self._address = writer.get_extra_info("sockname")[0].partition("%")[0]
        beats = asyncio.create_task(self._beat())
        try:
            return await self._obey(reader)
        finally:
            beats.cancel()
            for task in self._tasks.values():
                task.cancel()
            await self.end()
            writer.close()

    def stop(self, number: int) -> None:
        """React to a signal: say goodbye, and leave in a moment."""
        if self._stopped:
            return
        self._stopped = number
        if hasattr(self, "_writer"):
            send(self._writer, {"type": "bye", "words": say("ended by {name}", name=signal.Signals(number).name)})
        asyncio.get_running_loop().call_later(0.2, self._leave)

    def _leave(self) -> None:
        if not self._code.done():
            self._code.set_result(128 + self._stopped)

    async def end(self) -> None:
        """End every worker."""
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))
        self._workers.clear()

    async def _reach(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which the coordinator has bid this agent welcome."""
        limit = self._wishes.arrive or self._budget.limits[Stage.ARRIVE]
        end = time.monotonic() + limit
        why = ""
        while True:
            try:
                connecting = asyncio.open_connection(host, port, limit=LINE_LIMIT)
                reader, writer = await asyncio.wait_for(connecting, max(0.5, min(5.0, end - time.monotonic())))
                break
            except (OSError, asyncio.TimeoutError) as error:
                why = _why_unreached(error, f"{host}:{port}")
            if self._stopped or time.monotonic() > end:
                raise IncompleteError(
                    "rank {rank} did not reach rank 0 within {limit:g} s: {why}",
                    rank=self._place.rank,
                    limit=limit,
                    why=why,
                )
            await asyncio.sleep(RETRY_SECONDS)
        send(writer, self._greeting())
        try:
            answer = await asyncio.wait_for(receive(reader), ANSWER_SECONDS)
        except (BrokenProtocol, asyncio.TimeoutError):
            answer = None
        if answer is None:
            writer.close()
            raise IncompleteError(
                "{host}:{port} does not answer as gpudoctor; see whether rank 0 has ended already, start all ranks "
                "together, or give every rank another --port if a program has this one",
                host=host,
                port=port,
            )
        if answer["type"] == "refused":
            writer.close()
            raise IncompleteError(
                "rank 0 refused rank {rank}: {answer}", rank=self._place.rank, answer=answer.get("words", "")
            )
        return reader, writer

    def _greeting(self) -> Message:
        return {
            "type": "hello",
            "gpudoctor": __version__,
            "token": self._place.token,
            "rank": self._place.rank,
            "world": self._place.world,
            "node": identity(),
            "host": socket.gethostname(),
        }

    async def _beat(self) -> None:
        while True:
            send(self._writer, {"type": "beat"})
            await asyncio.sleep(BEAT_SECONDS)

    def _lost(self, words: str) -> IncompleteError:
        return IncompleteError(
            "rank 0 was lost in the stage {stage}: {words}; start the examination again, without its "
            "node if that happens twice",
            stage=self._stage,
            words=words,
        )

    async def _obey(self, reader: asyncio.StreamReader) -> int:
        """Do what is asked until the end; the exit code. Raises `IncompleteError` where rank 0 is lost."""
        while True:
            listening = asyncio.create_task(receive(reader))
            waiting: set[asyncio.Future[Any]] = {listening, self._code}
            done, _ = await asyncio.wait(waiting, timeout=self._budget.silence, return_when=asyncio.FIRST_COMPLETED)
            if self._code.done():
                listening.cancel()
                return self._code.result()
            if not done:
                # Perhaps it was this process that stood still: what came meanwhile is read in a moment.
                done, _ = await asyncio.wait({listening}, timeout=BEAT_SECONDS)
            if not done:
                listening.cancel()
                raise self._lost(say("said nothing for {silence:g} s", silence=self._budget.silence))
            try:
                message = listening.result()
            except BrokenProtocol as error:
                raise self._lost(f"sent {error}") from None
            if message is None:
                raise self._lost(say("its process ended: the connection closed"))
            if message["type"] == "done":
                return int(message["code"])
            if message["type"] == "lost":
                raise IncompleteError(
                    "rank 0 went on without rank {rank}: {words}; its report names this rank",
                    rank=self._place.rank,
                    words=message["words"],
                )
            self._take(message)

    def _take(self, message: Message) -> None:
        kind = message["type"]
        if kind == "ping":
            send(self._writer, {"type": "result", "id": message["id"], "time": time.time()})
        elif kind == "task":
            self._stage = message.get("stage", self._stage)
            task = asyncio.create_task(self._work(message))
            self._tasks[message["id"]] = task
            task.add_done_callback(partial(self._forget, message["id"]))
        elif kind == "cancel":
            if (running := self._tasks.get(message["id"])) is not None:
                running.cancel()
        elif kind == "stage":
            self._stage = message["stage"]

    def _forget(self, number: int, _: "asyncio.Task[None]") -> None:
        self._tasks.pop(number, None)

    async def _work(self, message: Message) -> None:
        try:
            answer = await self._carry_out(message)
        except asyncio.CancelledError:
            answer = {"failure": say("was broken off"), "kind": "cancelled"}
        except Exception as error:  # noqa: BLE001  # one bad piece of work must not end the rank
            answer = {"failure": f"{type(error).__name__}: {error}", "kind": "error"}
        send(self._writer, {**answer, "type": "result", "id": message["id"]})

    async def _carry_out(self, message: Message) -> Message:
        limit = float(message["limit"])
        if message["do"] == "about":
            return await self._about(limit)
        if message["do"] == "check":
            return await self._check(limit)
        return await self._worker(message["unit"]).ask(message["work"], limit)

    async def _about(self, limit: float) -> Message:
        folders = (self._wishes.storage,) if self._wishes.storage else ()
        facts = node_facts(os.environ)
        answer = await self._worker(0).ask({"do": "about"}, limit)
        return {**answer, "facts": facts | answer.get("facts", {}), "free_bytes": free_bytes(folders)}

    def _worker(self, unit: int) -> WorkerProcess:
        if unit not in self._workers:
            self._workers[unit] = WorkerProcess(self._python(), self._worker_environment(), self._module)
        return self._workers[unit]

    def _python(self) -> str:
        """The training's interpreter: the named one; ours if it has torch; else that of `gpudoctor check`."""
        if self._wishes.python:
            with contextlib.suppress(Unavailable):
                return str(find_interpreter(self._wishes.python, os.environ).executable)
            return self._wishes.python
        if importlib.util.find_spec("torch") is not None:
            return sys.executable
        return str(find_interpreter(None, os.environ).executable)

    def _worker_environment(self) -> Mapping[str, str]:
        """The job's own environment. Gloo alone is told an interface: it would look its own host name up."""
        environment = dict(os.environ)
        if interface := interface_of(self._address):
            environment.setdefault("GLOO_SOCKET_IFNAME", interface)
        return environment

    async def _check(self, limit: float) -> Message:
        """What the machine's own checks find, in a child process: a driver can hang."""
        from gpudoctor.recorder.start_command import die_with_parent

        python = ("--python", self._wishes.python) if self._wishes.python else ()
        command = ("check", "--format", "json", "--quiet", "--fail-on", "never", *python)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            child_code("gpudoctor.cli"),
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), limit)
            report = json.loads(out)
        except asyncio.TimeoutError:
            return {
                "failure": say("the machine's checks took more than {limit:g} s", limit=round(limit, 1)),
                "kind": "late",
            }
        except ValueError:
            return {
                "failure": say("the machine's checks ended with exit code {exit_code}", exit_code=process.returncode),
                "kind": "error",
            }
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        return {
            "findings": [
                {
                    "code": item["code"],
                    "name": item["name"],
                    "severity": item["severity"],
                    "message": item["message"],
                    "fix": item["remedies"][0]["title"] if item["remedies"] else "",
                }
                for item in report["findings"]
            ],
            "unexamined": [*report["summary"]["unexamined"], *report["problems"]],
        }


def _why_unreached(error: Exception, place: str) -> str:
    """What was seen at the coordinator's address, and what to do."""
    words = getattr(error, "strerror", None) or str(error) or say("no answer")
    return say(
        "{place} cannot be reached ({words}); see whether rank 0 has started there, and give each rank the same "
        "--head, with an address that it has a route to, and the same --port",
        place=place,
        words=words,
    )
