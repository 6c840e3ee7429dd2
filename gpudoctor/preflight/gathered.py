"""What the coordinator has gathered so far, event by event."""

import time
from dataclasses import replace
from typing import Any

from gpudoctor.model.plain_data import from_plain
from gpudoctor.model.signs.preflight import (
    Figure,
    LinkTest,
    Loss,
    Preflight,
    PreflightNode,
    Stage,
    StageRun,
    StorageTest,
    Unit,
)
from gpudoctor.preflight.messages import Message

Figures = tuple[Figure, ...]


class Gathered:
    """An examination as far as it went."""

    def __init__(self) -> None:
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
        getattr(self, f"_add_{event['what']}")({key: event[key] for key in event if key != "what"})

    def _add_head(self, event: Message) -> None:
        self._head |= event

    def _add_node(self, event: Message) -> None:
        self.nodes.setdefault(event["index"], {}).update(event)

    def _add_unit(self, event: Message) -> None:
        """A unit, or more of one that is known."""
        known = self._units.setdefault((event["node"], event["local"]), {"figures": (), "digests": {}})
        figures = (*known["figures"], *from_plain(Figures, event.get("figures", [])))
        digests = dict(known["digests"])
        for name, values in event.get("digests", {}).items():
            digests[name] = [*digests.get(name, []), *values]
        known |= event | {"figures": figures, "digests": digests}

    def _add_test(self, event: Message) -> None:
        self.tests.append(from_plain(LinkTest, event))

    def _add_storage(self, event: Message) -> None:
        self.storage.append(from_plain(StorageTest, event))

    def _add_loss(self, event: Message) -> None:
        self.losses.append(from_plain(Loss, event))

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
        return tuple(from_plain(PreflightNode, self.nodes[index]) for index in sorted(self.nodes))

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


def _unit(known: dict[str, Any]) -> Unit:
    """A unit as far as it is known: its figures are read already."""
    return replace(from_plain(Unit, {"device": "cpu", "name": "", **known, "figures": []}), figures=known["figures"])
