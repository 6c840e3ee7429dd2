"""The ranks of an examination and their connections, in the agent of rank 0: greeted, asked, watched, lost.

Every event goes to `Gathered`. A rank that died, is silent or stuck is a `Loss`; the others go on without its node.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpudoctor import __version__
from gpudoctor.errors import IncompleteError
from gpudoctor.lang import say
from gpudoctor.model.signs.preflight import LossKind, Stage
from gpudoctor.preflight.budget import Budget
from gpudoctor.preflight.gathered import Gathered
from gpudoctor.preflight.messages import LINE_LIMIT, BrokenProtocol, Message, receive, send
from gpudoctor.preflight.place import RankPlace

BEAT_SECONDS = 1.0
GREETING_SECONDS = 10.0


@dataclass(slots=True, eq=False)
class ArrivedRank:
    """One rank that has come, and its connection."""

    rank: int
    identity: str
    host: str
    address: str
    writer: asyncio.StreamWriter
    heard: float
    node: int = -1
    pending: dict[int, "asyncio.Future[Message | None]"] = field(default_factory=dict)
    """Its answers that are waited for, by the number of the question; None where it was lost."""
    gone: bool = False
    goodbye: str = ""
    about: Message = field(default_factory=dict)


class RankConnections:
    """The ranks that have come, and what they are told and asked."""

    def __init__(self, place: RankPlace, budget: Budget) -> None:
        self._place = place
        self._budget = budget
        self.gathered = Gathered()
        self._members: dict[int, ArrivedRank] = {}
        self._refused: set[int] = set()
        self._strangers: list[str] = []
        self._names: dict[int, str] = {}
        """Of each node, as a report names it."""
        self._out: set[int] = set()
        """Nodes that take part no longer."""
        self._lost_early: list[tuple[ArrivedRank, LossKind, str]] = []
        """Ranks that were lost before their nodes had numbers."""
        self._stage = Stage.ARRIVE
        self._late = False
        """Whether something did not end within the limit of its stage."""
        self._questions = 0
        self._begun = False
        """Whether the examination goes on without ranks that come later."""
        self._over = False
        """Whether the report is out: ranks leave from then on, and none is lost."""
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None
        self.port = place.port
        self.own_address = "127.0.0.1"

    async def listen(self) -> None:
        """Open the port; raises `IncompleteError` where that cannot be done."""
        try:
            if self._place.world == 1:
                self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._place.port, limit=LINE_LIMIT)
            else:
                self._server = await asyncio.start_server(
                    self._accept, None, self._place.port, limit=LINE_LIMIT, backlog=4096
                )
        except OSError as error:
            raise IncompleteError(
                "rank 0 cannot listen at port {port}: {reason}; another program uses it, or the last "
                "examination has not ended: give every rank another --port",
                port=self._place.port,
                reason=error.strerror or error,
            ) from None
        listening = self._server.sockets[0]
        self.port = listening.getsockname()[1]
        if listening.family == socket.AF_INET6 and len(self._server.sockets) == 1:
            self.own_address = "::1"

    async def close(self) -> None:
        """Close every connection."""
        if self._watch is not None:
            self._watch.cancel()
        if self._server is not None:
            self._server.close()
        for member in self._members.values():
            member.writer.close()

    async def finish(self, code: int) -> None:
        """Tell every rank the exit code, and wait a moment until they have it."""
        self._over = True
        for member in self._present():
            send(member.writer, {"type": "done", "code": code})
        end = time.monotonic() + 2.0
        while time.monotonic() < end and any(member.rank for member in self._present()):
            await asyncio.sleep(0.02)

    # Events.

    def _note(self, **event: Any) -> None:
        try:
            self.gathered.add(event)
        except (TypeError, ValueError) as error:  # one worker that sends nonsense must not end the examination
            self._untested(
                say(
                    "gpudoctor could not read a measurement of the stage {stage}: {error}.",
                    stage=self._stage.value,
                    error=error,
                )
            )

    def _untested(self, words: str) -> None:
        self._note(what="untested", words=words)

    # Ranks come, and are lost.

    def _present(self) -> list[ArrivedRank]:
        return [member for member in self._members.values() if not member.gone]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the examination is over
            await self._greet(reader, writer)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str(writer.get_extra_info("peername")[0]).partition("%")[0].removeprefix("::ffff:")
        with contextlib.suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            hello = await asyncio.wait_for(receive(reader), GREETING_SECONDS)
        except (BrokenProtocol, asyncio.TimeoutError) as error:
            self._strangers.append(
                say("{address} connected and sent {error}", address=address, error=error or say("nothing"))
            )
            writer.close()
            return
        if hello is None:
            writer.close()
            return
        refusal = self._refusal(hello, address)
        if refusal:
            send(writer, {"type": "refused", "words": refusal})
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.close()
            self._news.set()
            return
        member = ArrivedRank(
            rank=hello["rank"],
            identity=str(hello["node"]),
            host=str(hello["host"]),
            address=address,
            writer=writer,
            heard=time.monotonic(),
        )
        if member.rank:  # as the others see it: rank 0 itself came over another address
            seen = str(writer.get_extra_info("sockname")[0]).partition("%")[0].removeprefix("::ffff:")
            self.own_address = seen
        self._members[member.rank] = member
        send(writer, {"type": "welcome"})
        self._news.set()
        await self._hear(member, reader)

    def _refusal(self, hello: Message, address: str) -> str:
        """Why a rank is not taken in, with what to do; "" where it is."""
        rank, world = hello.get("rank"), hello.get("world")
        if hello["type"] != "hello" or not isinstance(rank, int) or not isinstance(world, int):
            self._strangers.append(say("{address} connected and did not say who it is", address=address))
            return say("this port belongs to gpudoctor preflight")
        words, theirs = "", hello.get("gpudoctor")
        if hello.get("token") != self._place.token:
            words = say("it belongs to another job; give the two jobs different ports by --port")
        elif theirs != __version__:
            words = say(
                "it runs gpudoctor {theirs}, and rank 0 runs {version}; install one version on every node",
                theirs=theirs,
                version=__version__,
            )
        elif world != self._place.world or not 0 <= rank < world:
            words = say(
                "it is rank {rank} of {world}, and rank 0 has a world size of {own_world}; give every rank the same",
                rank=rank,
                world=world,
                own_world=self._place.world,
            )
        elif rank in self._members:
            words = say(
                "{first} has come as rank {rank} before; give each rank a number of its own",
                first=self._members[rank].host,
                rank=rank,
            )
        elif self._begun:
            words = say("it came after the examination had begun; start all ranks together, or give a longer --wait")
        if words:
            stranger = hello.get("token") != self._place.token
            self._refused.add(-1 if stranger else rank)
            who = address if stranger else hello.get("host")
            self._loss(-1 if stranger else rank, None, LossKind.REFUSED, f"{who}: {words}")
        return words

    def _loss(self, rank: int, node: int | None, kind: LossKind, words: str, stack: Iterable[str] = ()) -> None:
        event = {"rank": rank, "node": node, "stage": self._stage.value, "kind": kind.value}
        self._note(what="loss", words=words, stack=list(stack), **event)

    async def _hear(self, member: ArrivedRank, reader: asyncio.StreamReader) -> None:
        """Read what a rank sends until its connection ends."""
        words = say("its process ended: the connection closed")
        while True:
            try:
                message = await receive(reader)
            except BrokenProtocol as error:
                words = say("it sent {error}", error=error)
                break
            if message is None:
                break
            member.heard = time.monotonic()
            if message["type"] == "result":
                waiting = member.pending.pop(message.get("id", -1), None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            elif message["type"] == "bye":
                member.goodbye = str(message.get("words", ""))
        self._lose(member, LossKind.DIED, member.goodbye or words)

    def _lose(self, member: ArrivedRank, kind: LossKind, words: str) -> None:
        """Go on without a rank and its node."""
        if member.gone:
            return
        member.gone = True
        for waiting in member.pending.values():
            if not waiting.done():
                waiting.set_result(None)
        member.pending.clear()
        send(member.writer, {"type": "lost", "words": words})  # it may be alive
        member.writer.close()
        if self._over or self._server is None or not self._server.is_serving():
            return
        if member.node < 0:
            self._lost_early.append((member, kind, words))
        else:
            self._loss(member.rank, member.node, kind, words)
            self._leave_out(member.node)
        self._news.set()

    def _leave_out(self, node: int) -> None:
        if node < 0 or node in self._out:
            return
        self._out.add(node)
        name = self._names[node]
        self._untested(
            say(
                "{name} took no part in what followed its loss in the stage {stage}.",
                name=name,
                stage=self._stage.value,
            )
        )

    async def _watching(self) -> None:
        """Beats to every rank, and a look at who is silent."""
        last = time.monotonic()
        while True:
            now = time.monotonic()
            stood_still, last = now - last > 2 * BEAT_SECONDS, now
            for member in self._present():
                send(member.writer, {"type": "beat"})
                if stood_still:
                    member.heard = max(member.heard, now - BEAT_SECONDS)  # it was we who did not listen
                elif now - member.heard > self._budget.silence:
                    self._lose(
                        member,
                        LossKind.SILENT,
                        say("it answered nothing for {silence:g} s", silence=self._budget.silence),
                    )
            await asyncio.sleep(BEAT_SECONDS)

    # Questions.

    async def _ask(self, member: ArrivedRank, question: Message, limit: float) -> Message | None:
        """A rank's answer; None where it was lost meanwhile."""
        if member.gone:
            return None
        self._questions += 1
        number = self._questions
        waiting: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        member.pending[number] = waiting
        send(member.writer, {**question, "id": number, "limit": limit, "stage": self._stage.value})
        try:
            answer = await asyncio.wait_for(asyncio.shield(waiting), limit + self._budget.grace)
        except asyncio.TimeoutError:
            quiet = time.monotonic() - member.heard
            if quiet > 2 * BEAT_SECONDS:
                self._lose(member, LossKind.SILENT, say("it answered nothing for {quiet:.0f} s", quiet=quiet))
            else:
                words = say("it gave no answer within {limit:g} s and still sent signs of life", limit=round(limit, 1))
                self._lose(member, LossKind.STUCK, words)
            return None
        except asyncio.CancelledError:
            send(member.writer, {"type": "cancel", "id": number})
            member.pending.pop(number, None)
            raise
        if answer is not None and answer.get("kind") in ("late", "stuck"):
            self._late = True
        return answer
