"""Metrics of a report for the textfile collector of Prometheus' node exporter."""

from collections.abc import Iterable, Iterator

from gpudoctor.model import Report, Severity
from gpudoctor.model.signs.preflight import Figure

_HELP = {
    "gpudoctor_findings": "Findings of the last examination by severity.",
    "gpudoctor_finding": "1 for each finding of the last examination.",
    "gpudoctor_preflight_seconds": "Seconds of the last preflight.",
    "gpudoctor_preflight_lost_ranks": "Ranks that did not take part to the end.",
    "gpudoctor_preflight_unit": "What a card or the CPUs of a node reached; per second, seconds, Hz, W or Cel.",
    "gpudoctor_preflight_link": "What nodes reached together; bytes a second or seconds.",
    "gpudoctor_preflight_link_failed": "1 for each test of several nodes that failed.",
}


def render_textfile(report: Report) -> str:
    """The metrics as text: gauges without time. https://prometheus.io/docs/instrumenting/exposition_formats."""
    lines: dict[str, list[str]] = {}
    for name, labels, value in _samples(report):
        lines.setdefault(name, []).append(f"{name}{_labels(labels)} {value:.10g}")
    parts: list[str] = []
    for name, samples in lines.items():
        parts += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge", *samples]
    return "\n".join(parts) + "\n"


def _samples(report: Report) -> Iterator[tuple[str, dict[str, str], float]]:
    summary = report.summary
    counts = {Severity.ERROR: summary.error, Severity.WARNING: summary.warning, Severity.NOTE: summary.note}
    for severity, number in counts.items():
        yield "gpudoctor_findings", {"severity": severity.value}, number
    for item in report.findings:
        found = item.finding
        labels = {
            "code": found.code, "name": found.name, "severity": found.severity.value, "subject": found.subject,
        }  # fmt: skip
        yield "gpudoctor_finding", labels, 1
    if report.preflight is not None:
        yield "gpudoctor_preflight_seconds", {"mode": report.preflight.mode}, report.preflight.seconds
        yield "gpudoctor_preflight_lost_ranks", {}, len(report.preflight.losses)
        for unit in report.preflight.units:
            place = {"node": report.preflight.name(unit.node), "unit": str(unit.local), "name": unit.name}
            yield from _figures("gpudoctor_preflight_unit", place, unit.figures)
        for test in report.preflight.tests:
            nodes = ",".join(report.preflight.name(node) for node in test.nodes)
            place = {"stage": test.stage.value, "round": str(test.round), "nodes": nodes}
            yield from _figures("gpudoctor_preflight_link", place, test.figures)
            if test.failure:
                yield "gpudoctor_preflight_link_failed", place, 1


def _figures(
    name: str, place: dict[str, str], figures: Iterable[Figure]
) -> Iterator[tuple[str, dict[str, str], float]]:
    for figure in figures:
        labels = {
            **place, "quantity": figure.quantity.value, "dtype": figure.dtype, "payload": str(figure.payload),
            "algorithm": figure.algorithm, "when": figure.when,
            "direction": figure.direction,
        }  # fmt: skip
        yield name, labels, figure.value


def _labels(labels: dict[str, str]) -> str:
    escaped = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    given = ",".join(f'{name}="{value.translate(escaped)}"' for name, value in labels.items() if value)
    return f"{{{given}}}" if given else ""
