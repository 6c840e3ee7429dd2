"""What clusters, launchers and shippers of logs put round every line: the failure behind it is the same."""

import json

import pytest
from log_causes import named, raised, root_of, steps
from log_samples import SAMPLES

MISSING_KEY = raised("KeyError: 'mask'")


def clock(number):
    return f"10:{number // 60 % 60:02}:{number % 60:02}"


PREFIXES = {
    "kubectl --timestamps": lambda n: f"2025-03-01T{clock(n)}.123456789Z ",
    "kubectl --prefix --timestamps": lambda n: f"[pod/fit-worker-0/pytorch] 2025-03-01T{clock(n)}.123456789Z ",
    "containerd": lambda n: f"2025-03-01T{clock(n)}.123456789+00:00 stderr F ",
    "GitHub": lambda n: f"2025-03-01T{clock(n)}.1234567Z ",
    "journald": lambda n: f"Mar 01 {clock(n)} node7 python[4711]: ",
    "journald, ISO": lambda n: f"2025-03-01T{clock(n)}+0000 node7 fit.sh[4711]: ",
    "pdsh": lambda _: "worker-3: ",
    "stern": lambda _: "fit-worker-0 pytorch ",
    "another name": lambda _: "fit-job ~ ",
    "Airflow": lambda n: f"[2026-03-01, {clock(n)} UTC] {{subprocess.py:93}} INFO - ",
    "a logger": lambda n: f"2026-03-01 {clock(n)},123 - fit - ERROR - ",
    "a padded level": lambda n: f"2026-03-01 {clock(n)},123 {'INFO' if n < 30 else 'ERROR':8s} ",
    "Spark": lambda n: f"26/03/01 {clock(n)} INFO TorchDistributor: ",
    "Metaflow": lambda n: f"2026-03-01 {clock(n)}.123 [17/fit/42 (pid 4242)] ",
    "milliseconds": lambda n: f"{1772359871123 + n} node7 DEBUG ",
    "a quotation": lambda _: "> ",
    "a tab": lambda _: "\t",
    "numbered lines": lambda n: f"{n + 1:6d}\t",
    "grep": lambda n: f"{n + 1}: ",
    "a user's mark": lambda _: "【训练】",
}
RANKED = {
    "a role of torchrun": lambda _: "[train3]:",
    "SkyPilot": lambda _: "(worker1, rank=3, pid=4711, ip=10.0.0.7) ",
    "Determined": lambda n: f"[2026-03-01T{clock(n)}.123Z] 5c0ab1d2 [rank=3] || ",
    "of one's own": lambda _: "(rank 3) ",
    "mpiexec -prepend-rank": lambda _: "[3] ",
    "SageMaker": lambda _: "[1,mpirank:3,algo-1]<stderr>:",
    "Horovod": lambda n: f"Sun Mar  1 {clock(n)} 2026[3]<stderr>:",
    "PRRTE": lambda _: "[prterun-node7-4242@1,3]<stderr>: ",
}


def behind(prefix, text):
    return "".join(f"{prefix(at)}{line}\n" for at, line in enumerate(text.splitlines()))


KINDS = [("ENV005", "no-module"), ("FAIL007", "name-resolution"), ("FAIL008", "last-error"),
         ("FAIL014", "size-mismatch"), ("NUM002", "domain")]  # fmt: skip


@pytest.mark.parametrize("name", [*PREFIXES, *RANKED])
def test_a_prefix(name):
    prefix = (PREFIXES | RANKED)[name]
    text = steps(1, 12) + MISSING_KEY
    root = root_of(behind(prefix, text))
    plain = root_of(text)
    assert (root.code, root.line, root.frame, root.exception) == (
        plain.code, plain.line, plain.frame, plain.exception,
    )  # fmt: skip
    assert root.rank == (3 if name in RANKED else None)
    assert named(behind(prefix, text + steps(12, 20))) is None


@pytest.mark.parametrize(("name", "kind"), [*zip([*PREFIXES], KINDS, strict=False)])
def test_a_failure_without_a_traceback_behind_a_prefix(name, kind):
    text = steps(1, 12) + SAMPLES[kind] + "\n"
    assert named(behind(PREFIXES[name], text)) == named(text) == kind[0]
    assert named(behind(PREFIXES[name], text + steps(12, 20))) is None


RECORDS = {
    "Docker": lambda line: {"log": line + "\n", "stream": "stderr", "time": "2025-03-01T10:00:00.1Z"},
    "Fluent Bit": lambda line: {"time": "2026-03-01T10:00:00Z", "stream": "stderr", "log": line},
    "Elastic": lambda line: {"@timestamp": "2026-03-01T10:00:00.1Z", "message": line, "host": {"name": "node7"}},
    "Google": lambda line: {"insertId": "a", "severity": "ERROR", "textPayload": line},
    "Google, nested": lambda line: {"insertId": "a", "jsonPayload": {"message": line}, "severity": "ERROR"},
    "journalctl": lambda line: {"PRIORITY": "3", "MESSAGE": line, "_PID": "77"},
    "CloudWatch": lambda line: {"timestamp": 1772359871123, "message": line, "ingestionTime": 1772359872000},
}
ONE_STRING = {
    "python-json-logger": lambda text: {"levelname": "ERROR", "message": "the fit failed", "exc_info": text},
    "structlog": lambda text: {"event": "the fit failed", "level": "error", "exception": text},
    "Elastic": lambda text: {"log": {"level": "error"}, "message": "failed", "error": {"stack_trace": text}},
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_line_in_each_record(name):
    def shipped(text):
        return "".join(f"{json.dumps(RECORDS[name](line))}\n" for line in text.splitlines())

    text = steps(1, 12) + MISSING_KEY
    root, plain = root_of(shipped(text)), root_of(text)
    assert (root.code, root.line, root.frame) == (plain.code, plain.line, plain.frame)
    assert named(shipped(text + steps(12, 20))) is None


@pytest.mark.parametrize("name", ONE_STRING)
@pytest.mark.parametrize("shipper", ["", "containerd", "Docker"])
def test_a_traceback_in_one_string(name, shipper):
    def shipped(record):
        line = json.dumps(record)
        if shipper == "Docker":
            return json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-03-01T10:00:00Z"}) + "\n"
        return ("2026-03-01T10:00:00.123456789Z stderr F " if shipper else "") + line + "\n"

    record = shipped(ONE_STRING[name](MISSING_KEY))
    progress = [shipped({"event": "fit", "step": at, "loss": 0.25 + at}) for at in range(40)]
    root = root_of("".join(progress[:30]) + record)
    assert (root.code, root.line, root.frame.line) == ("FAIL001", 31, 12)
    assert named("".join((*progress[:30], record, *progress[30:]))) is None


def test_services_of_the_machine_in_the_same_journal():
    service = "Mar 01 10:00:00 node7 systemd[1]: fit.service: Received SIGTERM, KeyError: 'unit' is not there\n"
    assert named(service + behind(PREFIXES["journald"], steps(1, 30))) is None
    assert named("a line of python[4711]: is code\n" + steps(1, 30)) is None


def test_a_logger_that_prints_its_time_behind_the_message_of_an_exception():
    text = (
        raised("RuntimeError: the shapes differ") + "2025-03-01 10:00:09,123 size mismatch for head.weight: copying\n"
    )
    assert "size mismatch" not in root_of(text).text
