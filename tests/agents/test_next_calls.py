"""The call that an answer proposes next: by what the report says, without a run."""

import pytest

from gpudoctor.agents import next_calls
from gpudoctor.agents.tool_table import BY_NAME

EDITABLE = {"id": "A-x", "applicability": "safe", "patch": "--- a"}
OTHER = {**EDITABLE, "id": "C-x"}
BY_HAND = {"id": "B-x", "applicability": "display-only", "patch": None}
GIVEN = {"command": ["python", "t.py"], "seconds": 10, "budget_seconds": 100, "folder": "p", "max_chars": 12_000}


def report(run=None, trial=None, remedies=(EDITABLE, BY_HAND), verdict=""):
    findings = [{"code": f"DATA00{n}", "remedies": [item]} for n, item in enumerate(remedies, 1)]
    return {"findings": findings, "run": run, "trial": trial, "summary": {"verdict": verdict}}


def row(conclusion, reason=""):
    return {"name": "A-x", "conclusion": conclusion, "reason": reason}


SLOW = {"steps": 100, "stopped_by": "seconds", "exit_code": 130, "start_seconds": 2.0}
RUN, VERIFY = next_calls.after_run, next_calls.after_verify


@pytest.mark.parametrize(
    ("after", "found", "tool", "arguments"),
    [
        (RUN, report(SLOW), "verify", {"remedies": ["A-x"], "budget_seconds": 120}),
        (RUN, report({**SLOW, "steps": 0}), "run", {"seconds": 40.0}),
        (RUN, report({"steps": 9, "stopped_by": None, "exit_code": 1}), "apply", {"dry_run": True, "answer": "n"}),
        (RUN, report(SLOW, remedies=[BY_HAND]), "explain", {"code": "DATA001"}),
        (VERIFY, report(trial={"patch": "--- a", "rows": [row("proven")]}), "apply", {"answer": "n"}),
        (VERIFY, report(trial={"patch": "--- a", "kept": ["t.py"], "rows": []}), "run", {"command": ["python", "t.py"]}),
        (VERIFY, report(trial={"rows": [row("not tried", "the time ran out")]}), "verify", {"budget_seconds": 300.0}),
        (VERIFY, report(trial={"rows": []}, verdict="none was started; use --budget 14m"), "verify", {"folder": "p"}),
        (VERIFY, report(trial={"rows": [row("slower")]}), "explain", {"code": "DATA001"}),
        (VERIFY, report(trial={"rows": [row("slower")]}, remedies=[EDITABLE, OTHER]), "verify", {"remedies": ["C-x"], "budget_seconds": 100}),
        (VERIFY, report(trial={"patch": "--- a", "rows": [row("proven")]}, remedies=[EDITABLE, OTHER]), "apply", {"answer": "n"}),
    ],
)  # fmt: skip
def test_the_next_call_fits_the_answer_and_its_tool(after, found, tool, arguments):
    first = after(GIVEN, found, "n")[0]
    assert first["tool"] == tool
    assert arguments.items() <= first["arguments"].items()
    assert set(first["arguments"]) <= set(BY_NAME[tool].properties)


def test_after_apply_the_program_is_measured_and_compared():
    run, compare = next_calls.after_apply(GIVEN, "rec")
    assert (run["tool"], run["arguments"]) == ("run", {"command": ["python", "t.py"], "folder": "p"})
    assert compare["arguments"]["before"] == "rec"
