"""The next sensible call after an answer, with its arguments: data for an agent, no judgement of a job."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpudoctor.agents.tool_table import LONGEST_RUN, LONGEST_TRIALS

Call = dict[str, Any]

_KEPT = ("command", "environment", "python", "folder")
"""Arguments that a following run or trial has as well."""


def call(tool: str, why: str, **arguments: Any) -> Call:
    """One call; arguments without a value are left out."""
    given = {key: value for key, value in arguments.items() if value not in (None, [], "", {})}
    return {"tool": tool, "arguments": given, "why": why}


def _kept(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: arguments[key] for key in _KEPT if key in arguments}


def _editable(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of safe remedies that carry an edit, one of each finding, in rank order."""
    chosen = []
    for finding in findings:
        ids = [item["id"] for item in finding["remedies"] if item.get("patch") and item["applicability"] == "safe"]
        chosen += ids[:1]
    return chosen


def after_check(arguments: Mapping[str, Any], report: Mapping[str, Any]) -> list[Call]:
    """Measure what the source makes suspect."""
    scripts = [name for name in arguments.get("targets", ()) if str(name).endswith(".py")]
    calls = []
    if scripts:
        command = ["python", scripts[0], *arguments.get("script_arguments", ())]
        calls.append(call("run", "measure it: name what starts it", command=command, **_place(arguments)))
    elif not arguments.get("targets"):
        calls.append(call("check", "examine a training script: name it", targets=["train.py"], **_place(arguments)))
    return [*calls, *explain_first(report)]


def _place(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: arguments[key] for key in ("python", "folder") if key in arguments}


def explain_first(report: Mapping[str, Any]) -> list[Call]:
    """Understand the first finding."""
    first = next(iter(report["findings"]), None)
    return [call("explain", "what the first finding means", code=first["code"])] if first else []


def after_run(arguments: Mapping[str, Any], report: Mapping[str, Any], name: str) -> list[Call]:
    """Allow more time, try the remedies, or find out why it died."""
    remedies = _editable(report["findings"])
    run = report.get("run") or {}
    died = run.get("exit_code") not in (0, None) and run.get("stopped_by") is None
    calls = []
    if not run.get("steps") and run.get("stopped_by") is not None:
        more = min(LONGEST_RUN, 4 * float(arguments["seconds"]))
        calls.append(call("run", "no training step was seen: allow more time", **_kept(arguments), seconds=more))
    elif died and remedies:
        edit = {"answer": name, "remedies": remedies[:1], "dry_run": True}
        calls.append(call("apply", "see the edit of the first remedy", **edit))
    elif run.get("steps") and remedies:
        calls.append(
            call(
                "verify",
                "prove the remedies in pairs of bounded runs; let the command train long enough",
                **_kept(arguments),
                remedies=remedies,
                budget_seconds=_budget(report, len(remedies)),
            )
        )
    return [*calls, *explain_first(report)]


def _budget(report: Mapping[str, Any], remedies: int) -> int:
    """Seconds that let every remedy have some pairs: start-up and a few steps of each run, six pairs each."""
    run = report.get("run") or {}
    start = float(run.get("start_seconds") or 5.0) + float(run.get("warm_up_seconds") or 0.0)
    return int(min(LONGEST_TRIALS, max(120, 2 * 6 * remedies * (start + 4.0))))


def after_verify(arguments: Mapping[str, Any], report: Mapping[str, Any], name: str) -> list[Call]:
    """Write what is proven, allow more time, or try the remedies that were not among those tried."""
    trial = report.get("trial") or {}
    rows = trial.get("rows") or []
    calls = []
    if trial.get("patch") and not trial.get("kept"):
        calls.append(call("apply", "write the proven edits", answer=name))
    elif trial.get("kept"):
        calls.append(call("run", "measure the changed program", **_kept(arguments)))
    waiting = [row["name"] for row in rows if "time ran out" in str(row.get("reason"))]
    early = not rows and "--budget" in str(report["summary"]["verdict"])  # not one comparison was possible
    if waiting or early:
        more = min(LONGEST_TRIALS, 3 * float(arguments.get("budget_seconds", 180)))
        calls.append(
            call(
                "verify",
                "the budget was too small for these",
                **_kept(arguments),
                remedies=waiting or arguments.get("remedies"),
                budget_seconds=more,
            )
        )
    tried = {str(row["name"]) for row in rows} | set(arguments.get("remedies", ()))
    others = [name for name in _editable(report["findings"]) if name not in tried]
    if others and not calls:
        calls.append(
            call(
                "verify",
                "nothing of these is proven: try the other remedies",
                **_kept(arguments),
                remedies=others,
                budget_seconds=arguments.get("budget_seconds"),
            )
        )
    return calls or explain_first(report)


def after_apply(before: Mapping[str, Any], recording: str | None) -> list[Call]:
    """Measure the changed program and compare."""
    calls = []
    if "command" in before:
        calls.append(call("run", "measure the changed program", **_kept(before)))
        if recording:
            calls.append(
                call("compare", "the run before with the new run", before=recording, after="recording of the new run")
            )
    return calls


def after_autopsy(arguments: Mapping[str, Any], report: Mapping[str, Any]) -> list[Call]:
    """Understand the cause, then look at the script."""
    scripts = [name for name in arguments["files"] if str(name).endswith(".py")]
    more = [call("check", "the script's other ailments", targets=scripts, **_place(arguments))] if scripts else []
    return [*explain_first(report), *more]


def after_estimate(arguments: Mapping[str, Any], found: Mapping[str, Any]) -> list[Call]:
    """Find what fits."""
    if found.get("fits") is False and not arguments.get("fit"):
        kept = {key: value for key, value in arguments.items() if key not in ("fit", "method", "max_chars")}
        return [call("estimate", "list the settings that fit the card", **kept, fit=True)]
    return []
