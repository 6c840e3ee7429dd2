"""What the coordinator has gathered so far, as events: its deputy keeps a copy and can report in its place."""

import time
from collections.abc import Iterable
from typing import Any

from gpudoctor.model.signs.preflight import (
    Figure,
    LinkTest,
    Loss,
    LossKind,
    MachineFinding,
    Preflight,
    PreflightNode,
    Quantity,
    Stage,
    StageRun,
    StorageTest,
    Unit,
)
from gpudoctor.preflight.messages import Message


class Gathered:
    """An examination as far as it went. An event is plain data, so that it can be sent."""

    def __init__(self) -> None:
        self.events: list[Message] = []
        self.nodes: dict[int, dict[str, Any]] = {}
        self._units: dict[tuple[int, int], dict[str, Any]] = {}
        self._stages: dict[str, dict[str, Any]] = {}
        self._head: dict[str, Any] = {"mode": "standard", "backend": "", "world": 1}
        self._begun = time.monotonic()
        self.tests: list[LinkTest] = []
        self.storage: list[StorageTest] = []
        self.losses: list[Loss] = []
        self.untested: list[str] = []

    def add(self, event: Message) -> None:
        """Take an event in; `what` names its kind."""
        self.events.append(event)
        getattr(self, f"_add_{event['what']}")({key: event[key] for key in event if key != "what"})

    def _add_head(self, event: Message) -> None:
        self._head |= event

    def _add_node(self, event: Message) -> None:
        self.nodes.setdefault(event["index"], {}).update(event)

    def _add_unit(self, event: Message) -> None:
        """A unit, or more of one that is known."""
        known = self._units.setdefault((event["node"], event["local"]), {"figures": [], "digests": {}})
        figures = [*known["figures"], *event.get("figures", [])]
        digests = dict(known["digests"])
        for name, values in event.get("digests", {}).items():
            digests[name] = [*digests.get(name, []), *values]
        known |= event | {"figures": figures, "digests": digests}

    def _add_test(self, event: Message) -> None:
        self.tests.append(
            LinkTest(
                stage=Stage(event["stage"]),
                round=event["round"],
                nodes=tuple(event["nodes"]),
                units=tuple((node, local) for node, local in event["units"]),
                figures=figures(event["figures"]),
                failure=event["failure"],
                blamed=tuple(event["blamed"]),
            )
        )

    def _add_storage(self, event: Message) -> None:
        self.storage.append(StorageTest(**event | {"figures": figures(event["figures"])}))

    def _add_loss(self, event: Message) -> None:
        kinds = {
            "stage": Stage(event["stage"]),
            "kind": LossKind(event["kind"]),
            "stack": tuple(event["stack"]),
        }
        self.losses.append(Loss(**event | kinds))

    def _add_stage(self, event: Message) -> None:
        known = self._stages.setdefault(event["stage"], {"seconds": 0.0, "ended": True})
        known["limit"] = event["limit"]
        known["seconds"] += event["seconds"]
        known["ended"] = event["ended"]

    def _add_untested(self, event: Message) -> None:
        if event["words"] not in self.untested:
            self.untested.append(event["words"])

    @property
    def backend(self) -> str:
        """The backend of the groups so far; "" before the first one."""
        return str(self._head["backend"])

    def preflight_nodes(self) -> tuple[PreflightNode, ...]:
        """The nodes, as they are known now."""
        return tuple(_node(self.nodes[index]) for index in sorted(self.nodes))

    def preflight(self) -> Preflight:
        """The examination as far as it went."""
        return Preflight(
            mode=self._head["mode"],
            backend=self._head["backend"],
            world=self._head["world"],
            nodes=self.preflight_nodes(),
            units=tuple(_unit(self._units[key]) for key in sorted(self._units)),
            tests=tuple(self.tests),
            storage=tuple(self.storage),
            losses=tuple(self.losses),
            stages=tuple(
                StageRun(stage=Stage(name), seconds=run["seconds"], limit=run["limit"], ended=run["ended"])
                for name, run in self._stages.items()
            ),
            untested=tuple(self.untested),
            seconds=time.monotonic() - self._begun,
        )


def figures(plain: Iterable[Message]) -> tuple[Figure, ...]:
    """Figures from plain data; keys that a figure does not have are left out."""
    return tuple(
        Figure(
            quantity=Quantity(item["quantity"]),
            value=float(item["value"]),
            spread=float(item.get("spread", 0.0)),
            repetitions=int(item.get("repetitions", 1)),
            dtype=item.get("dtype", ""),
            payload=int(item.get("payload", 0)),
            algorithm=item.get("algorithm", ""),
            when=item.get("when", ""),
            direction=item.get("direction", ""),
        )
        for item in plain
    )


def _node(known: dict[str, Any]) -> PreflightNode:
    return PreflightNode(
        index=known["index"],
        name=known["name"],
        ranks=tuple(known["ranks"]),
        address=known.get("address", ""),
        facts=dict(known.get("facts", {})),
        free_bytes=dict(known.get("free_bytes", {})),
        clock_offset=known.get("clock_offset"),
        clock_error=known.get("clock_error", 0.0),
        findings=tuple(MachineFinding(**item) for item in known.get("findings", ())),
        unexamined=tuple(known.get("unexamined", ())),
    )


def _unit(known: dict[str, Any]) -> Unit:
    return Unit(
        node=known["node"],
        local=known["local"],
        device=known.get("device", "cpu"),
        name=known.get("name", ""),
        bus_id=known.get("bus_id", ""),
        uuid=known.get("uuid", ""),
        figures=figures(known["figures"]),
        digests={name: tuple(values) for name, values in known["digests"].items()},
        failure=known.get("failure", ""),
    )
