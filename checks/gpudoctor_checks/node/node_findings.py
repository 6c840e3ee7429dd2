"""The shapes of a finding about nodes: on some of them, or on who the tests between nodes accuse."""

from collections.abc import Iterable

from gpudoctor.analysis.preflight.accusation import Accusation, Accused
from gpudoctor.analysis.preflight.named_nodes import NodesDetail, hosts, measurements_of, node_names
from gpudoctor.model import Check, Confidence, Evidence, Finding, Severity
from gpudoctor.model.signs.preflight import Preflight


def on_nodes(
    check: Check,
    preflight: Preflight,
    message: str,
    nodes: Iterable[int],
    *evidence: Evidence,
    subject: str = "",
    confidence: Confidence = Confidence.CONFIRMED,
    severity: Severity | None = None,
    breaks: str = "",
    cause: str = "",
    command: str = "",
) -> Finding:
    """A check's finding whose cure is to leave the nodes out, or none of them; its subject is their names."""
    nodes = tuple(nodes)
    return check.finding(
        message,
        evidence=evidence,
        confidence=confidence,
        severity=severity,
        breaks=breaks,
        subject=subject or node_names(preflight, nodes),
        detail=NodesDetail(hosts=hosts(preflight, nodes), cause=cause, command=command),
    )


def on_accused(
    check: Check,
    preflight: Preflight,
    message: str,
    item: Accusation,
    *evidence: Evidence,
    severity: Severity | None = None,
    breaks: str = "",
    cause: str = "",
) -> Finding:
    """The finding about whom tests accuse: a node can be left out, a path or a domain cannot."""
    return on_nodes(
        check,
        preflight,
        message,
        item.nodes if item.accused is Accused.NODE else (),
        *evidence,
        *measurements_of(preflight, item.tests),
        subject=node_names(preflight, item.nodes),
        confidence=item.confidence,
        severity=severity,
        breaks=breaks,
        cause=cause or item.accused.value,
    )
