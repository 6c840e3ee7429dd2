"""NODE012 storage-unfit."""

from collections import defaultdict
from collections.abc import Iterator

from gpudoctor.analysis.preflight.named_nodes import node_names
from gpudoctor.analysis.preflight.peers import outliers
from gpudoctor.analysis.preflight.slow_units import peer_thresholds
from gpudoctor.lang import say
from gpudoctor.model import OWN_CHOICE, Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.signs.preflight import Preflight, Quantity, StorageTest
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent, rate, size
from gpudoctor_checks.node.node_findings import on_nodes


class StorageUnfit(Check):
    """A folder of the job is not visible, not writable, not the same, full or slow on a node.

    What it finds:
        A folder of `--storage` that a node does not see or cannot write, or that has other content there. A
        node whose reads or writes are slower than those of the others at the same time. Too little space.
    Why it hurts:
        The job dies at its first checkpoint. Or it trains on old data on one node, or all ranks wait for
        one reader.
    How it knows:
        Every node writes and reads a file there at once, and reads what the first node wrote. The files are
        removed.
    False alarms:
        A folder that is local to each node on purpose shows other content: do not name it with `--storage`.
        Reads may come from the page cache of the node that wrote.
    Remedies:
        Mount the folder, set its rights, free space, look at the storage client.
    References:
        - https://man7.org/linux/man-pages/man5/nfs.5.html (close-to-open consistency)
    """

    code = "NODE012"
    reads = frozenset({Reads.PREFLIGHT})
    severity = Severity.ERROR
    thresholds = (
        *peer_thresholds(slower=0.5, against_reference=None),
        Threshold("free", float(1 << 30), "B", f"{OWN_CHOICE}; a checkpoint of a small model",
                  "Less free space than this is reported."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if not found.storage and not any(node.free_bytes for node in found.nodes):
            raise Unavailable(say("no folder was named (--storage DIR)"))
        folders: dict[str, list[StorageTest]] = defaultdict(list)
        for test in found.storage:
            folders[test.folder].append(test)
        for folder, tests in folders.items():
            yield from self._access(found, folder, tests)
            yield from self._speed(found, folder, tests)
        yield from self._space(found)

    def _access(self, preflight: Preflight, folder: str, tests: list[StorageTest]) -> Iterator[Finding]:
        unseen = [test for test in tests if not test.visible]
        unwritable = [test for test in tests if test.visible and not test.writable]
        different = [test for test in tests if test.visible and test.same is False]
        for cause, bad, words in (
            ("invisible", unseen, say("does not exist")),
            ("unwritable", unwritable, say("cannot be written")),
            ("different", different, say("holds other files than on the first node")),
        ):
            if not bad:
                continue
            why = next((say(" ({failure})", failure=test.failure) for test in bad if test.failure), "")
            nodes = [test.node for test in bad]
            names = node_names(preflight, nodes)
            full = cause == "unwritable" and any("space" in test.failure.lower() for test in bad)
            yield on_nodes(
                self,
                preflight,
                say("{folder} {words} on {node_names}{why}.", folder=folder, words=words, node_names=names, why=why),
                nodes if len(bad) < len(tests) else (),
                *(
                    Measurement(f"{cause} on {preflight.name(item.node)}", item.failure or words, "")
                    for item in bad[:8]
                ),
                subject=f"{folder} on {names}",
                breaks=say("the job cannot read its data or save there"),
                cause="full" if full else cause,
                command=folder,
            )

    def _speed(self, preflight: Preflight, folder: str, tests: list[StorageTest]) -> Iterator[Finding]:
        for quantity, words in ((Quantity.WRITE_BANDWIDTH, "writes"), (Quantity.READ_BANDWIDTH, "reads")):
            values = {
                test.node: figure.value for test in tests for figure in test.figures if figure.quantity is quantity
            }
            for item in outliers(values, share=1 - self.limit("peers"), deviations=self.limit("deviations")):
                node = preflight.name(item.key)
                yield on_nodes(
                    self,
                    preflight,
                    say(
                        "{node} {words} {folder} at {value}, the median of {count} nodes is {peers}: {share} slower.",
                        node=node,
                        words=words,
                        folder=folder,
                        value=rate(item.value, "B/s"),
                        count=item.count,
                        peers=rate(item.peers, "B/s"),
                        share=percent(1 - item.share),
                    ),
                    [item.key],
                    Measurement(f"own_rate_of_{words}", item.value, "B/s"),
                    Measurement("median_of_nodes", item.peers, "B/s"),
                    subject=f"{folder} on {node}",
                    confidence=item.confidence,
                    severity=Severity.WARNING,
                    cause="slow",
                    command=folder,
                )

    def _space(self, preflight: Preflight) -> Iterator[Finding]:
        low: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for node in preflight.nodes:
            for folder, free in node.free_bytes.items():
                if free < self.limit("free"):
                    low[folder].append((node.index, free))
        for folder, items in low.items():
            names = node_names(preflight, [index for index, _ in items])
            least = size(min(free for _, free in items))
            yield on_nodes(
                self,
                preflight,
                say("{folder} has {least} free on {node_names}.", folder=folder, least=least, node_names=names),
                (),
                *(
                    Measurement(f"free on {preflight.name(index)}", free, "B", reproduce=f"df -h {folder}")
                    for index, free in items[:8]
                ),
                subject=f"{folder} on {names}",
                severity=Severity.WARNING,
                cause="full",
                command=folder,
            )
