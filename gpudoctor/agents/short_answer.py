"""Cuts a JSON document of gpudoctor to a size that fits an agent's context, and says how to get the rest."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SMALLEST, USUAL, LARGEST = 1_000, 12_000, 200_000
"""Characters of an answer; 12,000 are about 3,000 tokens."""
_BRIEF_TEXT = 240
_RUN = (
    "recording", "seconds", "exit_code", "signal", "stopped_by", "healthy", "steps", "steady_steps", "ranks",
    "step_seconds", "throughput", "phases", "memory", "gpus", "lines",
)  # fmt: skip
"""What an answer shows of a run; the rest is in its part."""
_TRIAL = ("step_seconds", "steps", "rows", "together", "seconds", "budget_seconds", "protection", "compared",
          "changed", "patch", "kept")  # fmt: skip
_ESTIMATE = ("method", "verdict", "reason", "fits", "total_bytes", "device", "peak", "room", "lines", "fit")
_ALTERNATIVE = ("method", "verdict", "fits", "total_bytes", "reason")
_FOR_TRANSLATION = frozenset({"template", "templates"})

Document = dict[str, Any]


def text_of(value: object) -> str:
    """The value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def filled(value: Any) -> Any:
    """The value without keys that are null or empty, at any depth; numbers in six digits."""
    if isinstance(value, dict):
        kept = {key: filled(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item != [] and item != {}}
    if isinstance(value, list):
        return [filled(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def plain_texts(value: Any) -> Any:
    """The value without the templates beside its texts, at any depth: an agent reads the English text alone."""
    if isinstance(value, dict):
        return {key: plain_texts(item) for key, item in value.items() if key not in _FOR_TRANSLATION}
    return [plain_texts(item) for item in value] if isinstance(value, list) else value


def brief_finding(finding: Mapping[str, Any]) -> Document:
    """A finding in a few lines: what it is, and the ids of its remedies."""
    message = str(finding["message"])
    return {
        "rank": finding["rank"],
        "code": finding["code"],
        "name": finding["name"],
        "severity": finding["severity"],
        "confidence": finding["confidence"],
        "subject": finding.get("subject"),
        "message": message if len(message) <= _BRIEF_TEXT else message[: _BRIEF_TEXT - 1] + "…",
        "remedies": [{"id": item["id"], "title": item["title"]} for item in finding["remedies"]],
    }


def full_finding(finding: Mapping[str, Any]) -> Document:
    """A finding as in the JSON report, without what an edit says twice and what a translation needs."""
    shown = dict(finding)
    shown["remedies"] = [
        {key: item for key, item in remedy.items() if key not in ("edits", "sets")} for remedy in finding["remedies"]
    ]
    found: Document = filled(plain_texts(shown))
    return found


def fit_list(
    items: Sequence[Any], room: int, full: Callable[[Any], Any], brief: Callable[[Any], Any]
) -> tuple[list[Any], int, int]:
    """As many items as fit into `room` characters: whole, then brief; with how many are brief and left out."""
    shortest = [brief(item) for item in items]
    needed = [len(text_of(item)) + 1 for item in shortest]
    shown: list[Any] = []
    briefs = 0
    for index, item in enumerate(items):
        whole = full(item)
        size = len(text_of(whole)) + 1
        if size + sum(needed[index + 1 :]) <= room:
            shown.append(whole)
            room -= size
        elif needed[index] <= room or not shown:
            shown.append(shortest[index])
            room -= needed[index]
            briefs += 1
        else:
            break
    return shown, briefs, len(items) - len(shown)


def report_answer(report: Mapping[str, Any], extra: Document, name: str, most: int, start: int = 1) -> Document:
    """A report: verdict, run, trial, then the findings from rank `start` on, as many as fit."""
    summary = report["summary"]
    head: Document = {"verdict": summary["verdict"]}
    head["counts"] = {key: value for key, value in summary.items() if isinstance(value, int)}
    head |= {key: report[key] for key in ("problems", "remarks") if report.get(key)}
    head |= {key: summary[key] for key in ("unexamined", "not_judged") if summary.get(key)}
    for key, wanted in (("run", _RUN), ("trial", _TRIAL)):
        if report.get(key):
            head[key] = filled({part: report[key][part] for part in wanted if part in report[key]})
    trial = head.get("trial", {})
    for row in (*trial.get("rows", ()), trial.get("together", {})):
        row.pop("pairs", None)  # their number is in its proof
    head |= {key: filled(report[key]) for key in ("log", "preflight") if report.get(key)} | extra
    left = _cut_parts(head, most // 2, name)
    findings = [item for item in report["findings"] if item["rank"] >= start]
    room = max(most - len(text_of(head)) - 300, 0)
    shown, briefs, beyond = fit_list(findings, room, full_finding, brief_finding)
    answer: Document = {"verdict": head.pop("verdict"), "counts": head.pop("counts"), "findings": shown, **head}
    if briefs:
        first = next(item["code"] for item in shown if "evidence" not in item)
        left.append(f'{briefs} findings are shortened; whole: more(answer="{name}", code="{first}")')
    if beyond:
        next_rank = findings[len(shown)]["rank"]
        left.append(f'{beyond} findings are left out; next: more(answer="{name}", start={next_rank})')
    left.append(f'every check and its outcome: more(answer="{name}", part="outcomes")')
    return {**answer, "left_out": left}


def _cut_parts(head: Document, most: int, name: str) -> list[str]:
    """Take the largest parts out until the rest fits; the sentences that say how to get them."""
    left = []
    while len(text_of(head)) > most:
        sizes = {key: len(text_of(value)) for key, value in head.items() if key not in ("verdict", "counts")}
        largest = max(sizes, key=lambda key: sizes[key], default="")
        if not largest or sizes[largest] < 200:
            break
        value = head.pop(largest)
        if isinstance(value, str):  # the end of an output says more than its beginning
            head[largest] = "…" + value[-max(most // 4, 100) :]
            if len(value) <= len(str(head[largest])):
                break
            continue
        left.append(f'{largest} is left out; it is: more(answer="{name}", part="{largest}")')
    return left


def estimate_answer(found: Mapping[str, Any], extra: Document, name: str, most: int) -> Document:
    """An estimate: whether it fits, its lines, and the other methods in a line each."""
    head: Document = {key: found[key] for key in _ESTIMATE if key in found}
    head["alternatives"] = [{key: item.get(key) for key in _ALTERNATIVE} for item in found.get("alternatives") or []]
    answer = plain_answer(head, extra, name, most)
    return {
        **answer,
        "left_out": [*answer.get("left_out", ()), f'memory at each instant: more(answer="{name}", part="instants")'],
    }


def plain_answer(found: Mapping[str, Any], extra: Document, name: str, most: int) -> Document:
    """Any other document: whole where it fits, else without its largest parts."""
    head: Document = {**filled(dict(found)), **extra}
    left = _cut_parts(head, most - 200, name)
    return {**head, **({"left_out": left} if left else {})}


def page(items: Sequence[Any], start: int, most: int, name: str, part: str) -> Document:
    """Items of a list from the 1-based `start` on, as many as fit, and where the next page begins."""
    shown: list[Any] = []
    room = most - 200
    for item in items[start - 1 :]:
        size = len(text_of(item)) + 1
        if shown and size > room:
            break
        shown.append(item)
        room -= size
    answer: Document = {"part": part, "start": start, "of": len(items), "items": shown}
    following = start + len(shown)
    if following <= len(items):
        answer["left_out"] = [f'next: more(answer="{name}", part="{part}", start={following})']
    return answer
