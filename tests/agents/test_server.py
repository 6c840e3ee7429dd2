"""The MCP server with the official client, over real pipes: what an agent asks, and what it gets."""

import json
import os
import sys
import time

import pytest
from agent_client import agent, marked
from command import gpudoctor

from gpudoctor.agents.target_environment import target_environment

SICK = """\
import torch
from torch import nn

model, optimizer = nn.Linear(4, 1), None
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.autograd.set_detect_anomaly(True)
for step in range(1000):
    loss = model(torch.randn(8, 4)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("a project")
    (place / "train.py").write_text(SICK)
    (place / "dies.py").write_text("def load(path):\n    return open(path)\n\n\nload('no such shard')\n")
    (place / "job.out").write_text(
        "Traceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n'
        "    loss.backward()\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "23.65 GiB of which 1.20 GiB is free.\n"
    )
    return place


@pytest.fixture(scope="module")
def client(folder, tmp_path_factory):
    state = tmp_path_factory.mktemp("state")
    with agent(folder, forks=True, XDG_STATE_HOME=str(state)) as opened:
        yield opened


def test_each_tool_says_what_it_answers_when_and_what_comes_next(client):
    tools = {tool.name: tool for tool in client.tools()}
    assert set(tools) == {
        "check", "estimate", "run", "verify", "apply", "watch", "autopsy", "preflight", "report", "compare", "explain",
        "list", "more",
    }  # fmt: skip
    for tool in tools.values():
        dumped = tool.model_dump(by_alias=True)
        assert "Use it" in tool.description or tool.name == "more", tool.name
        assert all(rule["description"] for rule in dumped["inputSchema"]["properties"].values())
    read = sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools.values())
    assert read < 20_000  # at the start of every session
    changing = [
        name for name, tool in tools.items() if not tool.model_dump(by_alias=True)["annotations"]["readOnlyHint"]
    ]
    assert changing == ["run", "verify", "apply"]


def test_check_finds_and_apply_writes_the_named_edit_only_when_told(client, folder):
    found = client.call("check", targets=["train.py"], python=sys.executable, select=["OBS"])
    assert not found.wrong
    codes = [item["code"] for item in found.found["findings"]]
    assert "OBS005" in codes
    assert '"template' not in json.dumps(found.found)  # an agent has no use for a translation's parts
    name = found.found["answer"]
    unproven = client.call("apply", answer=name)
    assert unproven.wrong and "has no trial" in unproven.found["error"]
    shown = client.call("apply", answer=name, remedies=["OBS005-off"], dry_run=True)
    assert "+torch.autograd.set_detect_anomaly(False)" in shown.found["diff"]
    assert (folder / "train.py").read_text() == SICK
    written = client.call("apply", answer=name, remedies=["OBS005-off"])
    assert written.found["written"] and (folder / "train.py").read_text() == SICK.replace("y(True)", "y(False)")
    again = client.call("apply", answer=name, remedies=["OBS005-off"])
    assert again.wrong and "changed since" in again.found["error"]
    (folder / "train.py").write_text(SICK)


def test_an_answer_keeps_to_its_size_and_more_gives_the_rest(client):
    found = client.call("check", targets=["train.py"], max_chars=1500)
    assert found.size <= 1500 * 1.2
    name = found.found["answer"]
    assert any(f'more(answer="{name}"' in line for line in found.found["left_out"])
    whole = client.call("more", answer=name, code="OBS005").found["findings"][0]
    assert whole["evidence"][0]["line"] == 6
    outcomes = client.call("more", answer=name, part="outcomes", max_chars=2000)
    assert outcomes.size < 2500 and outcomes.found["of"] > 100
    seen = outcomes.found["items"]
    following = client.call("more", answer=name, part="outcomes", start=len(seen) + 1, max_chars=2000).found
    assert following["start"] == len(seen) + 1 and following["items"][0] not in seen


def test_the_answer_of_check_is_that_of_the_command(client, folder):
    found = client.call("check", targets=["train.py"], python=sys.executable, select=["OBS"], max_chars=100_000).found
    done = gpudoctor("check", "train.py", "--python", sys.prefix, "--select", "OBS", "--format", "json", cwd=folder)
    report = json.loads(done.stdout)
    assert [(item["code"], item["message"]) for item in found["findings"]] == [
        (item["code"], item["message"]) for item in report["findings"]
    ]
    assert found["verdict"] == report["summary"]["verdict"]
    assert found["exit_code"] == done.returncode


def test_list_finds_the_check_of_a_symptom_as_the_command_does(client):
    for words, code in (("oom", "MEM009"), ("loss is nan", "NUM002"), ("data", "DATA001")):
        found = client.call("list", search=words).found
        assert found["items"][0]["code"] == code
    assert client.call("list", search="zzzyq").found["of"] == 0


def test_autopsy_names_the_cause(client):
    found = client.call("autopsy", files=["job.out"]).found
    assert found["findings"][0]["code"] == "MEM009"
    assert found["exit_code"] == 1


def test_a_job_that_dies_is_told_with_its_line_and_its_output(client):
    found = client.call("run", command=[sys.executable, "dies.py"], seconds=30).found
    assert found["exit_code"] == 1
    assert found["run"]["exit_code"] == 1
    assert "FileNotFoundError" in found["output"]
    assert "dies.py" in json.dumps(found["findings"])
    assert found["recording"]


def test_a_slow_job_is_stopped_in_time_with_progress_notes(client):
    notes = []
    started = time.monotonic()
    words = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]
    found = client.call("run", lambda passed, text: notes.append((passed, text)), command=words, seconds=2).found
    assert time.monotonic() - started < 60
    assert found["run"]["stopped_by"] == "seconds" and "begun" in found["output"]
    assert notes and [passed for passed, _ in notes] == sorted(passed for passed, _ in notes)


TREE = """\
import os, subprocess, sys, time
if len(sys.argv) < 3:
    for how in ({}, {"start_new_session": True}):
        subprocess.Popen([sys.executable, __file__, sys.argv[1], "child"], **how)
    open(f"begun-{sys.argv[1]}", "w").close()
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nothing_is_left_of_a_call_that_is_cancelled_or_whose_agent_goes(folder):
    """The server starts its commands here, as everywhere but in these tests."""
    (folder / "tree.py").write_text(TREE)
    words = [sys.executable, "tree.py"]
    with agent(folder) as other:
        call = other.start("run", command=[*words, "cancelled-tree"], seconds=500)
        begun = folder / "begun-cancelled-tree"
        assert _within(30, lambda: begun.exists() and len(marked("cancelled-tree")) >= 4)  # gpudoctor's, too
        busy = other.call("run", command=[sys.executable, "-c", ""])
        assert busy.wrong and "is measuring" in busy.found["error"]
        call.cancel()
        assert _within(20, lambda: not marked("cancelled-tree"))
        other.start("run", command=[*words, "left-tree"], seconds=500)
        begun = folder / "begun-left-tree"
        assert _within(30, lambda: begun.exists() and len(marked("left-tree")) >= 4)
    assert _within(20, lambda: not marked("left-tree"))


def _within(seconds, true):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


HOSTILE = [
    ("check", {"targets": ["--fix", "train.py"]}, "begins with a hyphen"),
    ("check", {"targets": "train.py"}, "is not of type 'array'"),
    ("check", {"targets": ["train.py\0"]}, "NUL byte"),
    ("check", {"targets": [""]}, "is empty"),
    ("check", {"targets": ["nowhere.py"]}, "nowhere.py"),
    ("check", {"target": ["train.py"]}, "there is no argument 'target'"),
    ("check", {"folder": "/no/such/place"}, "does not exist"),
    ("check", {"targets": ["train.py"], "python": "/no/python"}, "there is no interpreter"),
    ("check", {"gpu": "--fix"}, "--fix"),
    ("check", {"targets": ["x"] * 5000}, "the most is 1,000"),
    ("run", {}, "command is missing"),
    ("run", {"command": []}, "command is empty"),
    ("run", {"command": ["--fail-on", "never"]}, "begin with the program"),
    ("run", {"command": "python 'train.py"}, "cannot be split"),
    ("run", {"command": ["no-such-program"]}, "command not found"),
    ("run", {"command": ["python"], "seconds": 1e9}, "the maximum of 3600"),
    ("run", {"command": ["python"], "seconds": True}, "is not of type 'number'"),
    ("run", {"command": ["python"], "environment": {"A=B": "1"}}, "not a name"),
    ("verify", {"command": ["python"], "remedies": ["NO-such"], "budget_seconds": 5}, "the minimum of 10"),
    ("apply", {"answer": "check-99"}, "no answer 'check-99'"),
    ("more", {"answer": "x" * 40_000}, "the most is 32,768"),
    ("report", {"recordings": ["/etc"]}, "/etc"),
    ("compare", {"before": "-", "after": "b"}, "begins with a hyphen"),
    ("explain", {"code": "LOADER-BOUNT"}, "did you mean"),
    ("watch", {"pids": [2**40]}, "the maximum of"),
    ("autopsy", {"files": []}, "no log was named"),
    ("estimate", {}, "name a model"),
    ("nothing", {}, "there is no tool"),
]  # fmt: skip


def test_hostile_arguments_give_a_sentence_and_the_session_goes_on(client, folder):
    for tool, arguments, said in HOSTILE:
        answer = client.call(tool, **arguments)
        assert answer.wrong, answer.found
        assert said in answer.found["error"]
        assert "Traceback" not in answer.found["error"] and "internal error" not in answer.found["error"]
    assert (folder / "train.py").read_text() == SICK


def test_the_targets_programs_come_first_and_once(tmp_path):
    ours = os.path.join(sys.prefix, "bin")
    found = target_environment(sys.prefix, str(tmp_path), {"PATH": f"/a:{ours}:/b", "PYTHONHOME": "/x"})
    assert found.variables["PATH"] == f"{ours}:/a:/b" and "PYTHONHOME" not in found.variables


def test_without_the_package_a_sentence_says_what_to_install(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'mcp' else find(name, *a)\n"
    )
    done = gpudoctor("mcp", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "pip install 'mcp>=2'" in done.stderr and "Traceback" not in done.stderr
