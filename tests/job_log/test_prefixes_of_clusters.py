"""What Kubernetes, journald, CI and launchers put before every line: the failure behind it is the same."""

import json

import pytest
from log_causes import named, raised, root_of, steps
from log_samples import SAMPLES


def clock(number):
    return f"10:{number // 60 % 60:02}:{number % 60:02}"


PREFIXES = {
    "kubectl --timestamps": lambda n: f"2025-03-01T{clock(n)}.123456789Z ",
    "kubectl --prefix --timestamps": lambda n: f"[pod/fit-worker-0/pytorch] 2025-03-01T{clock(n)}.123456789Z ",
    "containerd": lambda n: f"2025-03-01T{clock(n)}.123456789+00:00 stderr F ",
    "GitHub": lambda n: f"2025-03-01T{clock(n)}.1234567Z ",
    "journald": lambda n: f"Mar 01 {clock(n)} node7 python[4711]: ",
    "journald, ISO": lambda n: f"2025-03-01T{clock(n)}+0000 node7 fit.sh[4711]: ",
    "a role of torchrun": lambda _: "[train3]:",
    "SkyPilot": lambda _: "(worker1, rank=3, pid=4711, ip=10.0.0.7) ",
    "pdsh": lambda _: "worker-3: ",
    "Docker": lambda _: "",
}
KINDS = [
    ("ENV005", "no-module"),
    ("FAIL007", "name-resolution"),
    ("FAIL008", "last-error"),
    ("FAIL014", "size-mismatch"),
    ("NUM002", "domain"),
]


def behind(prefix, text):
    if prefix == "Docker":
        records = [
            {"log": line + "\n", "stream": "stderr", "time": "2025-03-01T10:00:00.1Z"} for line in text.splitlines()
        ]
        return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in records)
    return "".join(f"{PREFIXES[prefix](at)}{line}\n" for at, line in enumerate(text.splitlines()))


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_behind_a_prefix(prefix, kind):
    text = steps(1, 30) + SAMPLES[kind] + "\n"
    assert named(behind(prefix, text)) == named(text) == kind[0]
    assert named(behind(prefix, text + steps(30, 40))) is None


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_traceback_behind_a_prefix(prefix):
    root = root_of(behind(prefix, steps(1, 30) + raised("KeyError: 'mask'")))
    assert root.code == "FAIL001" and root.frame.path == "/work/fit.py"
    assert root.rank == (3 if "rank=3" in PREFIXES[prefix](0) or "train3" in PREFIXES[prefix](0) else None)
    assert named(behind(prefix, steps(1, 30) + raised("KeyError: 'mask'") + steps(30, 40))) is None


def test_services_of_the_machine_in_the_same_journal():
    service = "Mar 01 10:00:00 node7 systemd[1]: fit.service: Received SIGTERM, KeyError: 'unit' is not there\n"
    assert named(service + behind("journald", steps(1, 30))) is None
    assert named("a line of python[4711]: is code\n" + steps(1, 30)) is None


def test_a_logger_that_prints_its_time_behind_the_message_of_an_exception():
    text = (
        raised("RuntimeError: the shapes differ") + "2025-03-01 10:00:09,123 size mismatch for head.weight: copying\n"
    )
    assert "size mismatch" not in root_of(text).text
