"""How near the estimates come to measured peaks.

    python benchmarks/estimate_accuracy.py --table ground-truth.csv [--format text|json] [--rows]

Every row is mapped to a job, estimated, and compared: allocated peaks and the static state as ratios, what
the card shows as inside or outside the interval, out-of-memory labels with the verdict. Rows whose number of
tokens is only a cap or is not stated are bounds and reported apart. Rows that cannot be mapped are counted
with their reasons.

Nothing is fitted here, so a group is kept out by leaving its rows away: for each source and each model family
the table has the figures of its rows and those of all others. docs/estimate.md names the constants that were
read off a source's rows: of those, the figures without that source are the ones that prove something.
"""

import argparse
import collections
import csv
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from estimate_rows import Row, Unmapped, metric_of, row_of

from gpudoctor.errors import UsageError
from gpudoctor.estimate import Estimate, Verdict, estimate_job

CARD_METRICS = {"reserved", "used", "unstated"}


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A mapped row with its estimate."""

    row: Row
    estimate: Estimate

    @property
    def predicted(self) -> float:
        """Our figure for the row's metric, in bytes."""
        if self.row.metric == "allocated":
            return self.estimate.peak.bytes
        if self.row.metric == "static":
            return self.estimate.static
        if self.row.metric == "reserved":
            return sum(self.estimate.card.reserved) / 2
        return self.estimate.card.expected

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        assert self.row.measured
        return self.predicted / self.row.measured

    @property
    def interval(self) -> tuple[int, int]:
        """What we say the card (or the allocator) will show."""
        return self.estimate.card.reserved if self.row.metric == "reserved" else self.estimate.card.used

    @property
    def inside(self) -> bool:
        """Whether the measured figure lies in the interval."""
        low, high = self.interval
        return low <= (self.row.measured or 0) <= high


def main(arguments: Sequence[str] | None = None) -> int:
    """Score a table; the exit code is 0, or 2 for a table that is not one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--table", required=True, type=Path)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--rows", action="store_true", help="print every mapped row too")
    options = parser.parse_args(arguments)
    try:
        with options.table.open(encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        if not table or "seq_kind" not in table[0]:
            raise ValueError("no column seq_kind")
    except (OSError, ValueError) as error:
        print(f"{options.table}: not a table of measured peaks ({error})", file=sys.stderr)
        return 2
    report, scored = score(table)
    if options.format == "json":
        print(json.dumps(report, indent=1))
    else:
        print_report(report)
    if options.rows:
        print_rows(scored)
    return 0


def score(table: Iterable[dict[str, str]]) -> tuple[dict[str, Any], list[Scored]]:
    """The report and the rows behind it."""
    scored: list[Scored] = []
    unmapped: list[dict[str, Any]] = []
    everything: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for cells in table:
        everything[(cells["source"], cells["method"], metric_of(cells))] += 1
        try:
            row = row_of(cells)
            scored.append(Scored(row=row, estimate=estimate_job(row.shape, row.job, row.card)))
        except (Unmapped, UsageError) as error:
            unmapped.append(
                {"row": cells["row"], "source": cells["source"], "method": cells["method"], "reason": str(error)}
            )
    total = sum(everything.values())
    exact = [each for each in scored if each.row.length == "exact" and each.row.measured]
    peaks = [each for each in exact if each.row.metric == "allocated"]
    report = {
        "rows": total,
        "mapped": len(scored),
        "overall": summary(peaks),
        "static": summary([each for each in scored if each.row.metric == "static" and each.row.measured]),
        "card": card_summary([each for each in exact if each.row.metric in {"reserved", "used"}]),
        "groups": groups(scored, everything),
        "kept_out": kept_out(peaks),
        "bounds": bounds(scored),
        "verdicts": verdicts(scored),
        "unmapped": unmapped,
    }
    return report, scored


def summary(rows: Sequence[Scored]) -> dict[str, Any]:
    """n, median ratio, MdAPE, p90, worst misses."""
    ratios = sorted(each.ratio for each in rows)
    if not ratios:
        return {"rows": 0, "median_ratio": None, "mdape": None, "p90": None, "worst_under": None, "worst_over": None}
    misses = sorted(abs(ratio - 1) for ratio in ratios)
    return {
        "rows": len(ratios),
        "median_ratio": round(statistics.median(ratios), 4),
        "mdape": round(statistics.median(misses), 4),
        "p90": round(misses[min(int(0.9 * len(misses)), len(misses) - 1)], 4),
        "worst_under": round(min(ratios[0] - 1, 0.0), 4),
        "worst_over": round(max(ratios[-1] - 1, 0.0), 4),
    }


def card_summary(rows: Sequence[Scored]) -> dict[str, Any]:
    """Share of readings inside the interval, and how wide it is: half its width over its middle."""
    if not rows:
        return {"rows": 0, "inside": None, "median_half_width": None, "widest_half_width": None}
    widths = [(high - low) / (high + low) for low, high in (each.interval for each in rows)]
    return {
        "rows": len(rows),
        "inside": round(sum(each.inside for each in rows) / len(rows), 4),
        "median_half_width": round(statistics.median(widths), 4),
        "widest_half_width": round(max(widths), 4),
    }


def groups(scored: Sequence[Scored], everything: collections.Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """For each source, method and metric: how many rows, how many mapped, how near; exact lengths and others
    apart."""
    found = []
    for (source, method, metric), count in sorted(everything.items()):
        if metric == "label":
            continue
        here = [
            each
            for each in scored
            if (each.row.cells["source"], each.row.cells["method"], each.row.metric) == (source, method, metric)
        ]
        by_length: dict[str, list[Scored]] = collections.defaultdict(list)
        for each in here:
            if each.row.measured:
                by_length[each.row.length].append(each)
        for length, rows in sorted(by_length.items()) or [("", [])]:
            entry = {
                "source": source,
                "method": method,
                "metric": metric,
                "length": length,
                "rows": count,
                "mapped": len(rows),
            }
            entry |= {key: value for key, value in summary(rows).items() if key != "rows"}
            if metric in CARD_METRICS:
                entry["inside"] = card_summary(rows)["inside"]
            found.append(entry)
    return found


def kept_out(peaks: Sequence[Scored]) -> list[dict[str, Any]]:
    """For each source and each model family: the figures of its rows, and those of the rows without it."""
    found = []
    for what, of in (("source", _source), ("family", _family)):
        for name in sorted({of(each) for each in peaks}):
            found.append(
                {
                    "what": what,
                    "name": name,
                    "its": summary([each for each in peaks if of(each) == name]),
                    "others": summary([each for each in peaks if of(each) != name]),
                }
            )
    return found


def _source(each: Scored) -> str:
    return each.row.cells["source"]


def _family(each: Scored) -> str:
    return each.row.shape.family


def bounds(scored: Sequence[Scored]) -> dict[str, Any]:
    """Rows whose length is only a cap: our figure at the cap should not be below the measured one."""
    rows = [
        each
        for each in scored
        if each.row.length in {"cap", "unstated", "stated"} and each.row.measured and each.row.metric == "allocated"
    ]
    found = {}
    for length in ("stated", "cap", "unstated"):
        here = [each for each in rows if each.row.length == length]
        found[length] = {
            **summary(here),
            "not_below": round(sum(each.ratio >= 0.99 for each in here) / len(here), 4) if here else None,
        }
    return found


def verdicts(scored: Sequence[Scored]) -> dict[str, Any]:
    """Labels against verdicts: each job once."""
    jobs: dict[tuple[Any, ...], tuple[bool, Estimate]] = {}
    for each in scored:
        if each.row.card is not None and each.row.length != "unstated":
            key = (each.row.shape.name, each.row.job, each.row.card.name)
            ran = each.row.cells["status"] != "OOM"
            jobs[key] = (ran and jobs.get(key, (True, each.estimate))[0], each.estimate)
    oom = [estimate.card.verdict for ran, estimate in jobs.values() if not ran]
    ran = [estimate.card.verdict for ran, estimate in jobs.values() if ran]
    return {
        "oom": {"rows": len(oom), "right": sum(verdict is not Verdict.FITS for verdict in oom),
                **{verdict.value: oom.count(verdict) for verdict in Verdict}},
        "ran": {"rows": len(ran), "right": sum(verdict is not Verdict.DOES_NOT_FIT for verdict in ran),
                **{verdict.value: ran.count(verdict) for verdict in Verdict}},
    }  # fmt: skip


def print_report(report: dict[str, Any]) -> None:
    """The same for a person."""
    print(f"{report['mapped']} of {report['rows']} rows mapped ({report['mapped'] / report['rows']:.0%})\n")
    print(f"{'':44}{'rows':>6}{'median':>9}{'MdAPE':>8}{'p90':>8}{'under':>8}{'over':>8}")
    for name, key in (("allocated peaks, exact token count", "overall"), ("static state", "static")):
        print(f"{name:44}{_figures(report[key])}")
    for length, figures in report["bounds"].items():
        print(
            f"{f'allocated peaks, length {length} (bounds)':44}{_figures(figures)}   not below: "
            f"{_share(figures['not_below'])}"
        )
    card = report["card"]
    print(
        f"\nreserved and nvidia-smi, exact rows: {card['rows']} rows, inside {_share(card['inside'])}, half "
        f"width {_share(card['median_half_width'])} (widest {_share(card['widest_half_width'])})"
    )
    for label, figures in report["verdicts"].items():
        print(
            f"verdicts, {label}: {figures['right']} of {figures['rows']} right; fits {figures['fits']}, "
            f"tight {figures['tight']}, does not fit {figures['does not fit']}"
        )
    heads = "".join(f"{name:>8}" for name in ("median", "MdAPE", "p90", "under", "over"))
    print_kept_out(report["kept_out"], heads)
    print(f"\n{'source':42}{'method':18}{'metric':11}{'length':10}{'rows':>5}{'mapped':>7}{heads}")
    for group in report["groups"]:
        named = f"{group['source'][:41]:42}{group['method'][:17]:18}{group['metric']:11}{group['length']:10}"
        print(f"{named}{group['rows']:>5}{group['mapped']:>7}{_figures(group, skip=True)}")
    reasons = collections.Counter((entry["source"], entry["reason"]) for entry in report["unmapped"])
    print(f"\nunmapped: {len(report['unmapped'])}")
    for (source, reason), count in reasons.most_common():
        print(f"{count:5}  {source}: {reason}")


def print_kept_out(entries: Sequence[dict[str, Any]], heads: str) -> None:
    """Allocated peaks with an exact token count by source and by family, each beside all others."""
    print(f"\n{'allocated peaks, exact':50}{'rows':>5}{heads}   without it: rows{heads}")
    for entry in entries:
        its, others = entry["its"], entry["others"]
        named = f"{entry['what']} {entry['name']}"[:49]
        print(
            f"{named:50}{its['rows']:>5}{_figures(its, skip=True)}"
            f"{others['rows']:>19}{_figures(others, skip=True)}".rstrip()
        )


def _figures(figures: dict[str, Any], *, skip: bool = False) -> str:
    if figures["median_ratio"] is None:
        return "" if skip else f"{figures['rows']:>6}"
    shown = "".join(f"{figures[key]:>8.1%}" for key in ("mdape", "p90", "worst_under", "worst_over"))
    return (
        f"{figures['median_ratio']:>8.3f}" if skip else f"{figures['rows']:>6}{figures['median_ratio']:>9.3f}"
    ) + shown


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def print_rows(scored: Sequence[Scored]) -> None:
    """Every mapped row, worst first."""
    for each in sorted((each for each in scored if each.row.measured), key=lambda each: each.ratio):
        cells = each.row.cells
        print(
            f"{each.ratio:7.3f} {each.row.metric:9} {each.row.length:8} {cells['row']:>5} "
            f"{cells['framework'][-36:]:36} {each.row.shape.name[:22]:22} {each.row.job.method:9}"
            f" {each.row.job.batch}x{each.row.job.seq} {each.row.job.parallel}{each.row.job.world} "
            f"{each.estimate.peak.name:8}"
            f" {each.predicted / 2**30:8.3f} of {each.row.measured / 2**30:8.3f} GiB"
        )


if __name__ == "__main__":
    sys.exit(main())
