"""`gpudoctor preflight` itself, with torch: alone, under torchrun, and with an interpreter that has no torch."""

import json
import os
import subprocess
import sys

import pytest
from packages import need
from sarif_schema import report_schema, validate

COMMAND = ("-m", "gpudoctor", "preflight", "--quick", "--format", "json", "--quiet")
LIMIT = 120


def preflight(*words, python=(sys.executable,), **environment):
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "MASTER", "RANK"))}
    done = subprocess.run(
        [*python, *COMMAND, *words], capture_output=True, text=True, timeout=LIMIT, env={**variables, **environment}
    )
    return done, json.loads(done.stdout)


@pytest.mark.slow
def test_two_ranks_of_torchrun_on_one_node_are_one_unit_and_one_report(tmp_path):
    need("torch")
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done, document = preflight("--storage", str(tmp_path), python=launcher, OMP_NUM_THREADS="1")
    assert done.returncode == 0
    validate(document, report_schema())
    found = document["preflight"]
    assert ([node["ranks"] for node in found["nodes"]], found["world"]) == ([[0, 1]], 2)
    assert (len(found["units"]), found["losses"], found["untested"]) == (1, [], [])
    assert document["patient"]["kind"] == "machine"
    if found["units"][0]["device"] == "cpu":
        assert {item["quantity"] for item in found["units"][0]["figures"]} == {"matmul", "memory_bandwidth"}
        assert len(set(found["units"][0]["digests"]["fp32 1024"])) == 1
    assert found["storage"][0]["writable"] and os.listdir(tmp_path) == []
    assert document["summary"]["passed"] > 0 and document["outcomes"] == []


@pytest.mark.slow
def test_an_interpreter_without_torch_is_a_sentence_and_the_rest_is_examined(tmp_path):
    made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "plain")], capture_output=True)
    assert made.returncode == 0
    done, document = preflight("--python", str(tmp_path / "plain"))
    assert (done.returncode in (1, 3), done.stderr) == (True, "")
    assert ([node["ranks"] for node in document["preflight"]["nodes"]], document["preflight"]["losses"]) == ([[0]], [])
    assert "torch is not installed in" in document["problems"][0] and "--python" in document["problems"][0]
    assert document["summary"]["passed"] > 0 and document["outcomes"] == []
