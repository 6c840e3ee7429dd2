"""The catalogue holds: codes, names, manual pages, rules, sick and healthy cases."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import limits
from jobs import job_files
from some import some

from gpudoctor.analysis.preflight.named_nodes import NodesDetail
from gpudoctor.analysis.run.training import How
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import topic_of
from gpudoctor.model import BadStepDetail, Detail, LeakDetail, Reads, Trait
from gpudoctor_rules.advice import Advice, advice, tomllib

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = load_registry()
CODES = sorted(code for code, check in REGISTRY.checks.items() if check.__module__.startswith("gpudoctor_checks."))

FOLDERS = {
    "ENV": "environment", "GPU": "hardware", "DATA": "data", "SYNC": "sync", "OBS": "observability", "MEM": "memory",
    "NUM": "numerics", "LOOP": "loop", "TRAIN": "training",
    "PERF": "performance", "DIST": "distributed", "CFG": "config", "FAIL": "failure",
    "NODE": "node",
}  # fmt: skip

NAMES = {
    "ENV001": "driver-unreachable", "ENV002": "torch-cpu-build", "ENV003": "driver-too-old",
    "ENV004": "gpu-arch-unsupported", "ENV005": "package-conflict", "ENV006": "shm-too-small", "ENV007": "cpu-budget",
    "ENV008": "limits-too-low", "ENV009": "host-memory-tight", "ENV010": "debug-switch-on", "ENV011": "disk-too-small",
    "ENV012": "nccl-hobbled", "ENV013": "visible-devices-wrong", "ENV014": "tokenizer-fork",
    "GPU002": "throttled", "GPU003": "memory-errors", "GPU004": "xid", "GPU005": "pcie-degraded",
    "GPU006": "nvlink-down", "GPU007": "occupied", "GPU008": "recovery-needed", "GPU010": "power-limited",
    "GPU011": "hot", "GPU012": "persistence-off",
    "DATA002": "slow-preprocessing", "DATA006": "padding-waste", "DATA007": "eval-loader-misuse",
    "DATA008": "sampler-misuse", "DATA011": "dataset-reopens", "DATA012": "slow-start", "MEM011": "pruning-saves-nothing",
    "OBS003": "checkpoint-too-often", "OBS004": "evaluation-too-often", "OBS006": "model-watch", "OBS007": "log-flush",
    "SYNC003": "explicit-synchronize", "SYNC004": "per-sample-metrics",
    "DATA001": "loader-bound", "DATA003": "workers-misfit", "DATA004": "unpinned-transfer",
    "SYNC001": "host-sync-in-loop", "SYNC002": "allocator-flush-in-loop",
    "OBS001": "profiler-in-loop", "OBS002": "logging-too-often", "OBS005": "debug-mode-on",
    "MEM003": "graph-retained", "LOOP001": "zero-grad-missing", "LOOP005": "deprecated-api",
    "PERF001": "mixed-precision-off", "PERF002": "tf32-off", "PERF003": "compile-off", "PERF005": "optimizer-unfused",
    "PERF006": "attention-eager", "PERF008": "shapes-misaligned", "PERF010": "autotune-off",
    "DIST003": "no-sync-missing", "DIST004": "redundant-collectives",
    "DIST005": "dataparallel", "DIST006": "backend-slow",
    "DIST007": "find-unused", "PERF009": "gpu-unused", "CFG001": "precision-conflict", "CFG002": "batch-mismatch", "CFG003": "optimizer-mismatch",
    "MEM010": "cache-flag-conflict",
    "NUM006": "fp16-unsafe",
    "NUM009": "learning-rate-out-of-band",
    "CFG006": "frequencies", "CFG009": "deprecated-key", "CFG005": "unknown-key", "CFG008": "quantisation-conflict", "CFG007": "lora-misfit",
    "LOOP004": "clip-misplaced",
    "LOOP006": "double-softmax",
    "LOOP003": "accumulation-wrong",
    "LOOP002": "eval-mode-misuse",
    "LOOP011": "teacher-trained",
    "LOOP007": "prefetcher-broken",
    "LOOP008": "seedless",
    "LOOP009": "no-checkpoint",
    "LOOP010": "sigterm-unhandled",
    "NUM008": "weights-frozen",
    "MEM004": "will-not-fit", "MEM007": "headroom-unused", "MEM008": "checkpointing-unneeded",
    "GPU001": "low-utilization", "GPU009": "underperforms", "DATA005": "transfer-bound", "DATA009": "storage-bound",
    "DATA010": "loader-dead", "MEM001": "gpu-memory-leak", "MEM002": "host-memory-leak", "MEM005": "near-limit",
    "MEM006": "fragmented", "MEM009": "out-of-memory", "NUM001": "nan-gradients", "NUM002": "nan-loss",
    "NUM003": "exploding-gradients", "NUM004": "vanishing-gradients", "NUM005": "dead-parameters",
    "NUM007": "loss-trouble", "PERF004": "recompiling", "PERF011": "launch-bound", "PERF012": "low-mfu",
    "PERF013": "step-time-drift", "PERF014": "unexplained-time", "DIST001": "straggler",
    "DIST002": "communication-bound", "DIST008": "hang", "DIST009": "rank-memory-skew", "FAIL001": "exception",
    "FAIL002": "killed", "FAIL003": "device-assert", "FAIL004": "collective-timeout", "FAIL005": "bus-error",
    "FAIL006": "native-crash",
    "PERF007": "batch-too-small", "CFG004": "zero-stage-misfit",
    "TRAIN001": "labels-untrained",
    "TRAIN002": "labels-misplaced",
    "TRAIN003": "inputs-unlike",
    "TRAIN004": "evaluation-overlap",
    "TRAIN012": "preference-stuck",
    "LOOP012": "silent-broadcast", "NUM010": "constant-output", "NUM011": "constant-target",
    "DATA013": "not-shuffled", "DATA014": "same-seed",
    "LOOP013": "call-misfit",
    "CFG010": "settings-rejected",
    "ENV015": "native-library-broken",
    "ENV017": "toolchain-broken",
    "ENV016": "nccl-variable-unknown",
    "DIST010": "timeout-too-long",
    "FAIL007": "rendezvous-failed",
    "FAIL008": "nccl-setup-failed",
    "FAIL009": "cuda-library-error",
    "FAIL010": "fork-after-cuda",
    "FAIL011": "backward-failed",
    "FAIL012": "reducer-misuse",
    "FAIL013": "tensor-mismatch",
    "FAIL014": "checkpoint-misfit",
    "FAIL015": "hub-unreachable",
    "FAIL016": "data-file-unreadable",
    "FAIL017": "compile-failed",
    "FAIL018": "cause-not-in-log",
    "FAIL019": "unknown-error",
    "FAIL020": "start-failed",
    "NUM012": "loss-zero",
    "TRAIN008": "schedule-misfit", "TRAIN009": "resume-incomplete", "TRAIN010": "ranks-misfit",
    "NODE001": "card-slow", "NODE002": "wrong-values", "NODE003": "memory-bandwidth-low", "NODE004": "host-transfer-slow",
    "NODE005": "peer-link-slow", "NODE006": "network-slow", "NODE007": "latency-high", "NODE008": "node-missing",
    "NODE009": "rank-lost", "NODE010": "nodes-disagree", "NODE011": "clocks-apart", "NODE012": "storage-unfit",
    "NODE013": "group-slow", "NODE014": "throttles-under-load", "NODE015": "cpu-slow", "NODE016": "machine-unfit",
    "NODE017": "slower-than-before", "NODE018": "packets-lost",
    "TRAIN005": "parameters-untrained", "TRAIN006": "updates-lost", "TRAIN007": "gradients-misscaled",
}  # fmt: skip
"""The contract with users' settings and scripts: append-only. A new check adds its line here."""

HEADINGS = ["What it finds", "Why it hurts", "How it knows", "False alarms", "Remedies", "References"]


def test_codes_and_names_are_the_contract():
    rows = json.loads((ROOT / "gpudoctor" / "engine" / "retired.json").read_text(encoding="utf-8"))["retired"]
    gone = {row["code"]: row["name"] for row in rows}
    assert {**{code: REGISTRY.checks[code].name for code in CODES}, **gone} == NAMES
    assert not gone.keys() & set(CODES)
    assert not REGISTRY.problems


MESSAGES = "gpudoctor_checks.failure.known_messages"
"""The module of the checks that a log alone tells."""


def test_one_check_one_file_named_after_the_ailment():
    for code in CODES:
        check = REGISTRY.checks[code]
        own = f"gpudoctor_checks.{FOLDERS[topic_of(code)]}.{check.name.replace('-', '_')}"
        assert check.__module__ in (own, MESSAGES), code


def test_the_manual_pages_are_whole():
    for code in CODES:
        page = ast.get_docstring(class_of(code)) or ""
        title = page.partition("\n")[0]
        assert title.endswith(".") and code not in title and not title.startswith("("), f"{code}: its title"
        headings = [line[:-1] for line in page.splitlines() if line.rstrip(":") in HEADINGS]
        assert headings == HEADINGS, code
        for heading, text in re.findall(r"^(\w[\w ]+):\n((?:    .*\n?|\n)+)", page, re.MULTILINE):
            assert len(text.strip()) > 20, f"{code}: {heading} says nothing"
            assert not re.match(r"(- )?\(", text.strip()), f"{code}: {heading} is to be written"


def path_of(code: str) -> Path:
    return ROOT / "checks" / (REGISTRY.checks[code].__module__.replace(".", "/") + ".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def class_of(code: str) -> ast.ClassDef:
    name = REGISTRY.checks[code].__name__
    return next(node for node in parsed(path_of(code)).body if isinstance(node, ast.ClassDef) and node.name == name)


WITHOUT_A_CASE = 29
"""Thresholds that no test of their check shows deciding something: none is added."""


def test_every_threshold_has_a_source_and_decides_a_case():
    lines = {line.partition(" | ")[0]: line for line in limits.FILE.read_text(encoding="utf-8").splitlines()}
    assert sorted(limits.headings()) == sorted(lines), "make words"
    assert sum(" | no case |" in line for line in lines.values()) <= WITHOUT_A_CASE
    assert all(
        item.source.strip() and item.meaning.strip() for code in CODES for item in REGISTRY.checks[code].thresholds
    )


def test_a_rule_answers_or_a_reason_is_stated():
    for code in CODES:
        assert bool(REGISTRY.rules.get(code)) != bool(REGISTRY.checks[code].no_rule), code


def details_of(code: str) -> list[type[Detail]]:
    """The details that a check's module defines."""
    module = import_module(REGISTRY.checks[code].__module__)
    return [
        item for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Detail) and item.__module__ == module.__name__
    ]  # fmt: skip


SHARED_DETAILS = {"node": (NodesDetail,), "memory": (LeakDetail,), "numerics": (BadStepDetail,), "training": (How,)}
"""Details that a topic's checks share."""


def facts_of(code: str) -> set[str]:
    """Names of the values that a check hands over without a detail of its own."""
    nodes = list(ast.walk(parsed(path_of(code))))
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in FACTS]
    keys = [key for node in nodes if isinstance(node, ast.Dict) for key in node.keys if calls]
    return {str(item.arg) for call in calls for item in call.keywords} | {
        str(getattr(key, "value", "")) for key in keys
    }


FACTS = {"Facts", "CardsDetail", "on_cards"}
EXTRA_PLACEHOLDERS = {"hardware": {"gpu", "gpus"}, "node": {"spaced", "host"}}


def rows() -> Iterator[tuple[str, dict[str, Any], Advice]]:
    """Each row of advice with its folder, as it is written and as it is read."""
    for folder in sorted(FOLDERS.values()):
        path = ROOT / "rules" / "gpudoctor_rules" / f"{folder}.toml"
        if path.is_file():
            table = tomllib.loads(path.read_text(encoding="utf-8")).values()
            written = [row for rows in table for row in (rows if isinstance(rows, list) else [{}] * len(rows))]
            yield from ((folder, *pair) for pair in zip(written, advice(folder), strict=True))


def test_rows_name_what_their_check_hands_over():
    for folder, fields_of_row, row in some([*rows()]):
        assert FOLDERS[topic_of(row.code)] == folder, row.remedy.id
        assert row.remedy.steps and not row.remedy.title.startswith("("), f"{row.remedy.id} is to be written"
        if fields_of_row.keys() & {"log", "asks"}:
            continue
        kinds = details_of(row.code) or SHARED_DETAILS.get(folder, ())
        known = (
            facts_of(row.code) | EXTRA_PLACEHOLDERS.get(folder, set()) | {f.name for one in kinds for f in fields(one)}
        )
        conditions = {name for key in ("when", "unless") for name in fields_of_row.get(key, ())}
        for text in (row.remedy.title, *row.remedy.steps):
            assert conditions | set(re.findall(r"\{(\w+)\}", text)) <= known, f"{row.remedy.id}: {text}"


def test_a_check_with_a_detail_hands_it_over_with_every_finding():
    for code in (code for code in CODES if details_of(code) or facts_of(code)):
        path = path_of(code)
        calls = [
            node for node in ast.walk(parsed(path))
            if isinstance(node, ast.Call) and re.search(r"(\.finding|^confirmed)$", ast.unparse(node.func))
        ]  # fmt: skip
        without = [call.lineno for call in calls if "detail" not in {item.arg for item in call.keywords}]
        assert not without, f"{path.name}: lines {without}"


DETAIL_OF_TRAIT = {
    Trait.FIRST_BAD_STEP: BadStepDetail,
    Trait.DEVICE_MEMORY_GROWS: LeakDetail,
    Trait.HOST_MEMORY_GROWS: LeakDetail,
}


def test_a_check_hands_over_the_detail_that_its_traits_promise():
    promised = {
        (code, DETAIL_OF_TRAIT[trait])
        for code in CODES
        for trait in REGISTRY.checks[code].traits
        if trait in DETAIL_OF_TRAIT
    }
    assert {kind for _, kind in promised} == set(DETAIL_OF_TRAIT.values())
    for code, kind in promised:
        made = set(re.findall(r"detail=(\w+Detail)\(", path_of(code).read_text(encoding="utf-8")))
        known = {item.__name__: item for item in [kind, *details_of(code)]}
        assert made and all(name in known and issubclass(known[name], kind) for name in made), (code, made)


def test_a_detail_is_a_value():
    for kind in some([kind for code in CODES for kind in details_of(code)]):
        assert kind.__name__.endswith("Detail") and "__slots__" in vars(kind), kind


def test_a_sick_and_a_healthy_case():
    texts: dict[str, list[str]] = {
        folder: [path.read_text("utf-8") for path in (ROOT / "tests/checks" / folder).glob("test_*.py")]
        for folder in FOLDERS.values()
    }
    for code in CODES:
        check = REGISTRY.checks[code]
        if check.reads == {Reads.LOG} and not check.thresholds and code not in {"FAIL018", "FAIL019"}:
            continue  # all of them in failure/test_known_messages.py
        if all([*job_files(code, state)] for state in ("sick", "healthy")):
            continue  # all of them in test_on_file.py
        own = [text for text in texts[FOLDERS[topic_of(code)]] if re.search(rf"\b({check.__name__}|{code})\b", text)]
        tests = re.findall(r"^def (test_\w+)", "\n".join(own), re.MULTILINE)
        assert all(any(state in name for name in tests) for state in ("sick", "healthy")), code
