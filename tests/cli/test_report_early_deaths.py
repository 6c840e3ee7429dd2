"""`gpudoctor report` of a recording whose processes died before they imported torch: their tracebacks count."""

import json
from dataclasses import replace

import pytest
from recordings import make_process, make_recording, make_steps, record, write_recording

from gpudoctor.cli import main
from gpudoctor.model.signs.recording import RunEnd

MISSING = "ModuleNotFoundError: No module named 'flash_attn_of_nobody'"
DIED = RunEnd(exit_code=1, seconds=0.4)


def traceback(error, prefix=""):
    lines = ("Traceback (most recent call last):", '  File "/home/ann/train.py", line 3, in <module>', error)
    return "".join(f"{prefix}{line}\n" for line in lines)


def folder_of(path, *processes, end=DIED, **files):
    run = make_recording(*processes, end=end, command=("python", "train.py"))
    write_recording(run if processes else replace(run, ranks=()), path)
    for name, text in files.items():
        (path / f"{name.replace('_', '-')}.txt").write_text(text)
    return path


def reported(capsys, *words):
    code = main(["report", *map(str, words), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    return code, report, [item["code"] for item in report["findings"] if item["severity"] == "error"]


def test_the_traceback_in_the_recording_is_the_cause(tmp_path, capsys):
    folder = folder_of(tmp_path / "rec", early_x_7_12=traceback(MISSING))
    code, report, codes = reported(capsys, folder)
    verdict = report["summary"]["verdict"]
    assert (code, codes, report["log"]["files"]) == (1, ["ENV005"], [str(folder / "early-x-7-12.txt")])
    assert verdict.startswith(f"{report['patient']['title']} failed: ModuleNotFoundError: No module named ")
    assert str(folder) not in verdict
    assert "No rank reported; gpudoctor read this in the traceback that the recording has." in verdict


@pytest.mark.parametrize("end", [RunEnd(exit_code=0, seconds=9.0), RunEnd(exit_code=1, stopped_by="steps")])
def test_a_command_that_did_not_fail_met_them_and_went_on(tmp_path, capsys, end):
    folder = folder_of(tmp_path / "rec", end=end, early_x_7_12=traceback(MISSING))
    _, report, codes = reported(capsys, folder)
    assert (codes, report.get("log")) == ([], None)


WAITS = record("exception", 9.0, exception="DistStoreError", message="Timed out after 61 seconds waiting for clients.",
               frames=[], user=None, step=40)  # fmt: skip
OWN = record("exception", 9.0, exception="KeyError", message="'labels'", frames=[], user=None, step=40)


@pytest.mark.parametrize(
    ("name", "said", "found"),
    [
        ("early_1_7_12", [], ["ENV005"]),
        ("early_1_7_12", [WAITS], ["ENV005"]),
        ("early_1_7_12", [OWN], ["FAIL001"]),  # what a rank that reported says of itself came first
        ("early_0_7_12", [], ["FAIL001"]),  # a child of the rank that reported, which went on
    ],
)
def test_a_rank_that_died_before_torch_while_another_one_waited_for_it(tmp_path, capsys, name, said, found):
    process = make_process(make_steps(40), records=said, world=2, clean=False)
    folder = folder_of(tmp_path / "rec", process, **{name: traceback(MISSING, "[rank1]: ")})
    _, report, codes = reported(capsys, folder)
    assert codes == found
    assert ("Rank 1 failed first" in report["summary"]["verdict"]) == (found == ["ENV005"])
    assert "No rank reported" not in report["summary"]["verdict"]
