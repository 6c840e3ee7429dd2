"""The coordinator, in the agent of rank 0: it has the ranks measure, stage after stage, each with a limit."""

import asyncio
import contextlib
import re
import secrets
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gpudoctor.analysis.preflight.search import next_round
from gpudoctor.analysis.preflight.search_plan import NodeGroup, plan_for
from gpudoctor.lang import say
from gpudoctor.model.signs.preflight import LossKind, Preflight, Quantity, Stage
from gpudoctor.preflight.budget import Budget, Wishes
from gpudoctor.preflight.measured_units import MeasuredUnit, units_of
from gpudoctor.preflight.messages import Message, send
from gpudoctor.preflight.place import RankPlace
from gpudoctor.preflight.rank_connections import ArrivedRank, RankConnections
from gpudoctor.text import capitalised, joined, ranks

PINGS = 8
"""Round trips of which the shortest one tells a clock's offset."""
PINGED_AT_ONCE = 32
AFTER_FAILURE = 1.5
"""Seconds that the others of a group get after one of it has failed: a partner's death shows at once."""

_ECHO = re.compile(
    r"closed by peer|closed the connection|reset by peer|broken pipe|timed out|remote process exited", re.I
)
"""What a worker says that waited for another one: the other one's words come first."""
_APART = (Stage.STORAGE, Stage.BURN)
"""Stages that a user asks for apart, with time of their own."""
_OUR_WORKER = "/preflight/worker.py:"


class Stopped(Exception):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(say("stopped by {name}", name=signal.Signals(number).name))


class Coordinator(RankConnections):
    """One examination."""

    def __init__(self, place: RankPlace, budget: Budget, wishes: Wishes) -> None:
        super().__init__(place, budget)
        self._wishes = wishes
        self._units: dict[int, list[MeasuredUnit]] = {}
        """Of each node."""
        self._end = 0.0
        """When the time of the present stage is over."""
        self._apart = 0.0
        """Seconds that count to no budget: waiting beyond the mode's time, storage, burn."""
        self._began = time.monotonic()
        self._stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._token = secrets.token_hex(6)

    def stop(self, reason: Exception) -> None:
        """End the examination early, with what there is."""
        if not self._stopping.done():
            self._stopping.set_exception(reason)

    async def close(self) -> None:
        """Close every connection."""
        await super().close()
        if self._stopping.done():
            self._stopping.exception()
        else:
            self._stopping.cancel()

    async def examine(self) -> Preflight:
        """All stages; what was measured, however it ended."""
        self._began = time.monotonic()
        self._note(what="head", mode=self._budget.mode, world=self._place.world, backend="")
        self._watch = asyncio.create_task(self._watching())
        stages: list[tuple[Stage, Callable[[], Awaitable[None]], bool]] = [
            (Stage.ARRIVE, self._arrive, True),
            (Stage.MACHINE, self._machine, True),
            (Stage.CARD, self._card, True),
            (Stage.NODE, self._node, True),
            (Stage.PAIRS, lambda: self._search(Stage.PAIRS), True),
            (Stage.GROUP, lambda: self._search(Stage.GROUP), True),
            (Stage.STORAGE, self._storage, bool(self._wishes.storage)),
            (Stage.BURN, self._burn, self._wishes.burn > 0),
        ]
        for index, (stage, body, wanted) in enumerate(stages):
            if not wanted:
                continue
            try:
                await self._run(stage, body)
            except Stopped as reason:
                left = [later.value for later, _, due in stages[index + 1 :] if due]
                words = say("The examination was {reason} in the stage {stage}", reason=reason, stage=stage.value)
                self._untested(
                    say("{words}. It did not measure: {left}.", words=words, left=joined(left)) if left else f"{words}."
                )
                break
        return self.gathered.preflight()

    async def _run(self, stage: Stage, body: Callable[[], Awaitable[None]]) -> None:
        begin = time.monotonic()
        limit = self._limit(stage)
        if limit <= 0:
            self._untested(
                say(
                    "No time was left for the stage {stage}: {whole:g} s are over.",
                    stage=stage.value,
                    whole=self._budget.whole,
                )
            )
            return
        self._stage, self._late, self._end = stage, False, begin + limit
        for member in self._present():
            send(member.writer, {"type": "stage", "stage": stage.value})
        task = asyncio.ensure_future(body())
        try:
            await asyncio.wait(
                {task, self._stopping},
                timeout=limit + 2 * self._budget.grace + self._budget.silence,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if task.done():
                task.result()
            elif self._stopping.done():
                self._late = True
                self._stopping.result()
            else:
                self._late = True
                self._untested(say("The stage {stage} did not end within {limit:g} s.", stage=stage.value, limit=limit))
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            seconds = time.monotonic() - begin
            if stage in _APART or (stage is Stage.ARRIVE and self._wishes.arrive):
                self._apart += seconds
            self._note(what="stage", stage=stage.value, seconds=seconds, limit=limit, ended=not self._late)

    def _limit(self, stage: Stage) -> float:
        if stage is Stage.ARRIVE and self._wishes.arrive:
            return self._wishes.arrive
        if stage is Stage.BURN:
            return self._wishes.burn * 1.2 + self._budget.limits[Stage.BURN]
        if stage in _APART:
            return self._budget.limits[stage]
        left = self._began + self._apart + self._budget.whole - time.monotonic()
        return min(self._budget.limits[stage], left)

    def _left(self) -> float:
        """Seconds left of this stage."""
        return max(0.5, self._end - time.monotonic())

    async def _ask_unit(self, unit: MeasuredUnit, work: Message, limit: float) -> Message | None:
        question = {"type": "task", "do": "work", "unit": unit.worker, "work": work}
        return await self._ask(self._members[unit.rank], question, limit)

    # The stages.

    async def _arrive(self) -> None:
        world = self._place.world
        while len(set(self._members) | self._refused - {-1}) < world:
            self._news.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._left())
            if time.monotonic() >= self._end:
                break
        self._begun = True
        missing = sorted(set(range(world)) - set(self._members) - self._refused)
        if missing:
            self._late = True
            limit = self._limit(Stage.ARRIVE)
            beside = f"; {'; '.join(self._strangers[:3])}" if self._strangers else ""
            for rank in missing:
                words = say("nothing came within {limit:g} s{beside}", limit=limit, beside=beside)
                self._loss(rank, None, LossKind.NEVER_CAME, words)
            who = capitalised(ranks(missing))
            self._untested(
                say("{who} of {world} did not come. gpudoctor did not measure what is there.", who=who, world=world)
            )
        self._number_nodes()
        for member, kind, words in self._lost_early:
            self._loss(member.rank, member.node, kind, words)
            self._leave_out(member.node)

    def _number_nodes(self) -> None:
        found: dict[str, list[ArrivedRank]] = {}
        for rank in sorted(self._members):
            found.setdefault(self._members[rank].identity, []).append(self._members[rank])
        hosts = Counter(members[0].host for members in found.values())
        for index, members in enumerate(found.values()):
            first = members[0]
            self._names[index] = first.host if hosts[first.host] == 1 else f"{first.host}#{index}"
            if first.rank == 0:
                first.address = self.own_address
            for member in members:
                member.node = index
            self._note(
                what="node",
                index=index,
                name=first.host,
                ranks=[member.rank for member in members],
                address=first.address,
            )

    async def _machine(self) -> None:
        members = self._present()
        first = {member.node: member for member in sorted(members, key=lambda item: item.rank, reverse=True)}
        several = len(self.gathered.nodes) > 1
        limit = self._left()
        about = [self._about(member, limit) for member in first.values()]
        checks = [self._check(member, limit) for member in first.values()] if several else []
        await asyncio.gather(*about, *checks, self._clocks(list(first.values())))
        others = [
            self._about(member, self._left())
            for member in members
            if member is not first[member.node] and first[member.node].about.get("cards")
        ]
        await asyncio.gather(*others)
        self._find_units()

    async def _about(self, member: ArrivedRank, limit: float) -> None:
        answer = await self._ask(member, {"type": "task", "do": "about"}, limit)
        if answer is None:
            return
        member.about = answer
        if member.rank != min(self.gathered.nodes[member.node]["ranks"]):
            return
        self._note(
            what="node", index=member.node, facts=answer.get("facts", {}), free_bytes=answer.get("free_bytes", {})
        )
        why = answer.get("failure") or answer.get("cards_failure")
        if why and answer.get("kind") in ("late", "stuck"):
            why = say(
                "torch could not be imported within {limit:g} s{where}", limit=round(limit, 1), where=_where(answer)
            )
        if why:
            hint = say(" Name the training's interpreter with --python.") if "not installed" in why else ""
            name = self._names[member.node]
            self._untested(
                say(
                    "The units of {name} were not measured with torch: {why}.{hint}",
                    name=name,
                    why=why.rstrip("."),
                    hint=hint,
                )
            )
        if answer.get("kind") == "stuck":
            self._loss(member.rank, member.node, LossKind.STUCK, str(why), answer.get("stack", ()))
            self._out.add(member.node)

    async def _check(self, member: ArrivedRank, limit: float) -> None:
        answer = await self._ask(member, {"type": "task", "do": "check"}, limit)
        if answer is None:
            return
        if answer.get("failure"):
            self._untested(say("On {names}, {failure}.", names=self._names[member.node], failure=answer["failure"]))
            return
        self._note(what="node", index=member.node, findings=answer["findings"], unexamined=answer["unexamined"])

    async def _clocks(self, members: Sequence[ArrivedRank]) -> None:
        if len(members) < 2:
            return
        turn = asyncio.Semaphore(PINGED_AT_ONCE)

        async def measure(member: ArrivedRank) -> None:
            best: tuple[float, float] | None = None
            async with turn:
                for _ in range(PINGS):
                    begin, wall = time.perf_counter(), time.time()
                    answer = await self._ask(member, {"type": "ping"}, self._left())
                    trip = time.perf_counter() - begin
                    if answer is None:
                        return
                    if best is None or trip < best[0]:
                        best = trip, answer["time"] - (wall + trip / 2)
            assert best is not None
            self._note(what="node", index=member.node, clock_offset=best[1], clock_error=best[0] / 2)

        await asyncio.gather(*(measure(member) for member in members))

    def _find_units(self) -> None:
        """One unit a card, or one for the CPUs of a node. Where each card has a rank, that one works it."""
        for node, known in self.gathered.nodes.items():
            members = [self._members[rank] for rank in known["ranks"] if not self._members[rank].gone]
            if members:
                self._units[node] = list(units_of(node, members))

    def _usable(self, node: int | None = None) -> list[MeasuredUnit]:
        """Units of the nodes that still take part, or of one of them."""
        nodes = self._units if node is None else (node,)
        return [unit for each in nodes if each not in self._out for unit in self._units.get(each, ())]

    def _with_torch(self, node: int | None = None) -> list[MeasuredUnit]:
        """Those of them that torch can measure."""
        return [unit for unit in self._usable(node) if self._members[unit.rank].about.get("torch")]

    async def _card(self) -> None:
        limit = self._left()
        await asyncio.gather(*(self._measure_unit(unit, limit) for unit in self._with_torch()))

    async def _measure_unit(self, unit: MeasuredUnit, limit: float) -> None:
        work = {"do": "card.examine", "device": unit.device, "local": unit.card, "seconds": self._budget.card_seconds}
        self._take_unit(unit, await self._ask_unit(unit, work, limit))

    def _take_unit(self, unit: MeasuredUnit, answer: Message | None) -> None:
        """Note what a unit measured alone, or why it did not."""
        if answer is None:
            self._note(
                what="unit", node=unit.node, local=unit.local, device=unit.device, failure=say("its rank was lost")
            )
            return
        name = answer.get("name") or self.gathered.nodes[unit.node].get("facts", {}).get("processor", "")
        keys = ("bus_id", "uuid", "figures", "digests")
        known = {key: answer[key] for key in keys if key in answer}
        failure = answer.get("failure", "")
        more = {"failure": failure + _where(answer)} if failure else {}
        self._note(what="unit", node=unit.node, local=unit.local, device=unit.device, **known, **more)
        if name:
            self._note(what="unit", node=unit.node, local=unit.local, name=name)
        if answer.get("kind") in ("late", "stuck", "died"):
            kind = LossKind.DIED if answer["kind"] == "died" else LossKind.STUCK
            self._loss(unit.rank, unit.node, kind, failure, answer.get("stack", ()))
            self._leave_out(unit.node)

    async def _node(self) -> None:
        """Inside each node with several cards: each two of them, and all of them together."""
        await asyncio.gather(*(self._inside(node) for node in self.gathered.nodes if node not in self._out))

    async def _inside(self, node: int) -> None:
        units = [unit for unit in self._with_torch(node) if unit.device == "cuda"]
        if len(units) < 2:
            return
        first = units[0]
        seen = int(self._members[first.rank].about.get("cards", 0))
        if seen >= len(units):
            # so many pairs of cards share a third of the stage's time
            pairs = len(units) * (len(units) - 1)
            seconds = min(self._budget.group_seconds / 4, self._left() / 3 / pairs)
            payload = self._budget.payload["nccl"]
            work = {"do": "group.peers", "cards": [unit.local for unit in units], "payload": payload}
            answer = await self._ask_unit(first, {**work, "seconds": seconds}, self._left())
            for item in (answer or {}).get("figures", ()):
                pair = [[node, local] for local in item["pair"]]
                self._note(**_test(Stage.NODE, 0, [node], pair, figures=[item]))
            if answer is None or answer.get("failure"):
                words = say("its rank was lost") if answer is None else answer["failure"] + _where(answer)
                places = [[node, unit.local] for unit in units]
                failure = say("copies between cards: {words}", words=words)
                self._note(**_test(Stage.NODE, 0, [node], places, failure=failure))
        if self._end - time.monotonic() < 2.0:
            self._untested(say("All-reduce inside {names}: no time left.", names=self._names[node]))
            return
        found = await self._together(Stage.NODE, 0, units)
        if found["failure"] and self._end <= time.monotonic():
            self._untested(
                say("The time of node was over in the middle of a test inside {names}.", names=self._names[node])
            )
        else:
            self._note(**found)

    async def _search(self, stage: Stage) -> None:
        """Rounds of tests as the search asks for them, until it asks for another stage or the time is over."""
        plan = plan_for(self._budget.mode, self.gathered.preflight().units)
        longest = 1.0
        while True:
            idle = {node for node in self.gathered.nodes if not self._with_torch(node)}
            groups = next_round(plan, self.gathered.preflight_nodes(), self.gathered.tests, self._out | idle)
            if not groups or (stage is Stage.PAIRS and groups[0].stage is Stage.GROUP):
                return
            # A round that the stage's end cuts short says nothing of its nodes.
            if self._end - time.monotonic() < min(longest, self._budget.test_limit):
                self._late = True
                self._untested(
                    say("The search had more tests to make when the time of {stage} was over.", stage=stage.value)
                )
                return
            before, begin = len(self.gathered.tests), time.monotonic()
            await asyncio.gather(*(self._test(group) for group in groups))
            longest = max(longest, time.monotonic() - begin)
            if len(self.gathered.tests) == before:
                return

    async def _test(self, group: NodeGroup) -> None:
        units = [unit for node in group.nodes for unit in self._with_torch(node)]
        if {unit.node for unit in units} != set(group.nodes):
            return  # one was lost since
        whole = self._left() >= self._budget.test_limit
        event = await self._together(group.stage, group.round, units)
        if event["failure"] and not whole and self._end <= time.monotonic():
            self._late = True
            self._untested(say("The time of {stage} was over in the middle of a test.", stage=group.stage.value))
        else:
            self._note(**event)

    async def _together(self, stage: Stage, turn: int, units: list[MeasuredUnit]) -> Message:
        """One test of several units, as an event; whoever failed is asked to make a new worker."""
        nodes = list(dict.fromkeys(unit.node for unit in units))
        backend = "nccl" if all(unit.device == "cuda" for unit in units) else "gloo"
        event = _test(stage, turn, nodes, [[unit.node, unit.local] for unit in units])
        if self.gathered.backend != backend:
            self._note(what="head", backend=backend)
        first = self._members[units[0].rank]
        common = {"backend": backend, "address": first.address}
        limit = min(self._budget.test_limit, self._left())
        opened = await self._ask_unit(units[0], {"do": "group.open_port", **common}, limit)
        if opened is None or opened.get("failure"):
            return event | self._failed(units[:1], [opened])
        work = {
            "do": "group.examine",
            **common,
            "port": opened["port"],
            "size": len(units),
            "payload": self._budget.payload[backend],
            "seconds": self._budget.group_seconds,
        }
        asked = [
            asyncio.ensure_future(self._ask_unit(unit, {**work, "index": index, "local": unit.card}, limit))
            for index, unit in enumerate(units)
        ]
        try:
            answers = await self._all_or_failure(asked)
        finally:
            for task in asked:
                task.cancel()
        if any(answer is None or answer.get("failure") for answer in answers):
            outcome = self._failed(units, answers)
            await self._renew([unit for unit, answer in zip(units, answers, strict=True) if answer is not None])
            return event | outcome
        figures = list((answers[0] or {})["figures"])
        if stage is Stage.PAIRS:
            figures += _retransmitted(units, answers)
        return event | {"figures": figures}

    async def _all_or_failure(self, asked: Sequence["asyncio.Future[Message | None]"]) -> list[Message | None]:
        """All answers; after the first failure the others get a moment, and then are broken off."""
        pending = set(asked)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending and any(task.result() is None or task.result().get("failure") for task in done):  # type: ignore[union-attr]
                _, pending = await asyncio.wait(pending, timeout=AFTER_FAILURE)
                break
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return [
            {"failure": say("was broken off"), "kind": "cancelled"} if task in pending else task.result()
            for task in asked
        ]

    def _failed(self, units: Sequence[MeasuredUnit], answers: Sequence[Message | None]) -> Message:
        """Words and blame of a failed test: who was lost, killed or stopped comes before who waited for it."""
        order = {"lost": 0, "stuck": 1, "died": 2, "wrong": 3, "error": 4, "late": 5, "echo": 6, "cancelled": 7}
        failures = []
        for unit, answer in zip(units, answers, strict=True):
            if answer is None:
                failures.append(("lost", unit, say("its rank was lost")))
            elif answer.get("failure"):
                kind = "wrong" if answer.get("wrong") else answer.get("kind", "error")
                if kind == "error" and _ECHO.search(answer["failure"]):
                    kind = "echo"
                failures.append((kind, unit, answer["failure"] + _where(answer)))
                if kind == "stuck":
                    self._loss(unit.rank, unit.node, LossKind.STUCK, answer["failure"], answer.get("stack", ()))
                    self._leave_out(unit.node)
        failures.sort(key=lambda item: order.get(item[0], 4))
        worst = failures[0][0]
        blamed = sorted({unit.node for kind, unit, _ in failures if kind in ("lost", "stuck", "died")})
        where = {unit.node for _, unit, _ in failures if worst in ("lost", "stuck", "died", "wrong")}
        names = f"{self._names[failures[0][1].node]}: " if where or len(failures) < len(units) else ""
        return {"failure": f"{names}{failures[0][2]}", "blamed": blamed if worst != "wrong" else []}

    async def _renew(self, units: Sequence[MeasuredUnit]) -> None:
        """Have new workers import torch before the next test: that takes seconds, and is nobody's fault."""
        again = [unit for unit in units if unit.node not in self._out]
        limit = max(self._budget.test_limit, self._left())
        await asyncio.gather(*(self._ask_unit(unit, {"do": "about"}, limit) for unit in again))

    async def _storage(self) -> None:
        folder = self._wishes.storage
        nodes = [node for node in self.gathered.nodes if node not in self._out]
        workers = {node: self._usable(node)[0] for node in nodes if self._usable(node)}
        if not workers:
            self._untested(say("{folder} was not measured: no node is left.", folder=folder))
            return
        content = secrets.token_hex(16)
        common = {"folder": folder, "name": f".gpudoctor-preflight-{self._token}"}
        first = next(iter(workers.values()))
        marked = await self._ask_unit(first, {"do": "storage.mark", **common, "content": content}, self._left())
        if marked is None or marked.get("failure"):
            content = ""
        limit = max(1.0, self._left() - 2.0)

        async def use(node: int, unit: MeasuredUnit) -> None:
            work = {"do": "storage.examine", **common, "content": content, "index": node}
            answer = await self._ask_unit(unit, {**work, "bytes": self._budget.storage_bytes}, limit)
            event = {"what": "storage", "node": node, "folder": folder, "visible": False, "writable": False}
            event |= {"same": None, "figures": [], "failure": say("its rank was lost")}
            if answer is not None:
                known = ("visible", "writable", "same", "figures")
                event |= {key: answer[key] for key in known if key in answer}
                event["failure"] = answer.get("failure", "") + (_where(answer) if answer.get("stack") else "")
                if len(nodes) < 2:
                    event["same"] = None
            self._note(**event)

        await asyncio.gather(*(use(node, unit) for node, unit in workers.items()))
        if content:
            await self._ask_unit(first, {"do": "storage.mark", **common, "remove": True}, 5.0)

    async def _burn(self) -> None:
        async def load(unit: MeasuredUnit) -> None:
            work = {"do": "card.burn", "device": unit.device, "local": unit.card, "seconds": self._wishes.burn}
            self._take_unit(unit, await self._ask_unit(unit, work, self._left()))

        await asyncio.gather(*(load(unit) for unit in self._with_torch()))


def _test(stage: Stage, turn: int, nodes: list[int], units: list[list[int]], **more: Any) -> Message:
    """The event of a test; `more` are its figures or its failure."""
    event = {"what": "test", "stage": stage.value, "round": turn, "nodes": nodes, "units": units}
    return {**event, "figures": [], "failure": "", "blamed": [], **more}


def _retransmitted(units: Sequence[MeasuredUnit], answers: Sequence[Message | None]) -> list[Message]:
    """What TCP sent again, of each direction between two nodes; nothing where RDMA carried the data."""
    found: list[Message] = []
    for direction, node in zip(("forward", "backward"), dict.fromkeys(unit.node for unit in units), strict=True):
        counts = [
            (answer or {}).get("segments", (0, 0))
            for unit, answer in zip(units, answers, strict=True)
            if unit.node == node
        ]
        again, sent = (sum(count) for count in zip(*counts, strict=True))
        if sent:
            found.append(
                {
                    "quantity": Quantity.RETRANSMITTED.value,
                    "value": again / sent,
                    "repetitions": sent,
                    "direction": direction,
                }
            )
    return found


def _where(answer: Mapping[str, Any]) -> str:
    """Where a worker stood, for the end of a sentence; "" where that is not known."""
    stack = [line for line in answer.get("stack", ()) if not line.startswith("<") and _OUR_WORKER not in line]
    if not stack:
        return ""
    place, _, function = stack[-1].rpartition(" ")
    return say(" in {function} ({folder})", function=function, folder=place.rpartition("/")[2])
