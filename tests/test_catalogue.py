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
from gpudoctor_checks.declared import PeriodDetail
from gpudoctor_rules.advice import Advice, advice, tomllib

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = load_registry()
CODES = sorted(code for code, check in REGISTRY.checks.items() if check.__module__.startswith("gpudoctor_checks."))

CONTRACT = """
ENV environment: driver-unreachable torch-cpu-build driver-too-old gpu-arch-unsupported package-conflict
    shm-too-small cpu-budget limits-too-low host-memory-tight debug-switch-on disk-too-small nccl-hobbled
    visible-devices-wrong tokenizer-fork native-library-broken nccl-variable-unknown toolchain-broken
GPU hardware: low-utilization throttled memory-errors xid pcie-degraded nvlink-down occupied recovery-needed
    underperforms power-limited hot persistence-off
DATA data: loader-bound slow-preprocessing workers-misfit unpinned-transfer transfer-bound padding-waste
    eval-loader-misuse sampler-misuse storage-bound loader-dead dataset-reopens slow-start not-shuffled same-seed
SYNC sync: host-sync-in-loop allocator-flush-in-loop explicit-synchronize per-sample-metrics
OBS observability: profiler-in-loop logging-too-often checkpoint-too-often evaluation-too-often debug-mode-on
    model-watch log-flush
MEM memory: gpu-memory-leak host-memory-leak graph-retained will-not-fit near-limit fragmented headroom-unused
    checkpointing-unneeded out-of-memory cache-flag-conflict pruning-saves-nothing
NUM numerics: nan-gradients nan-loss exploding-gradients vanishing-gradients dead-parameters fp16-unsafe
    loss-trouble weights-frozen learning-rate-out-of-band constant-output constant-target loss-zero
LOOP loop: zero-grad-missing eval-mode-misuse accumulation-wrong clip-misplaced deprecated-api double-softmax
    prefetcher-broken seedless no-checkpoint sigterm-unhandled teacher-trained silent-broadcast call-misfit
TRAIN training: labels-untrained labels-misplaced inputs-unlike evaluation-overlap parameters-untrained updates-lost
    gradients-misscaled schedule-misfit resume-incomplete ranks-misfit - preference-stuck
PERF performance: mixed-precision-off tf32-off compile-off recompiling optimizer-unfused attention-eager
    batch-too-small shapes-misaligned gpu-unused autotune-off launch-bound low-mfu step-time-drift unexplained-time
DIST distributed: straggler communication-bound no-sync-missing redundant-collectives dataparallel backend-slow
    find-unused hang rank-memory-skew timeout-too-long
CFG config: precision-conflict batch-mismatch optimizer-mismatch zero-stage-misfit unknown-key frequencies
    lora-misfit quantisation-conflict deprecated-key settings-rejected
FAIL failure: exception killed device-assert collective-timeout bus-error native-crash rendezvous-failed
    nccl-setup-failed cuda-library-error fork-after-cuda backward-failed reducer-misuse tensor-mismatch
    checkpoint-misfit hub-unreachable data-file-unreadable compile-failed cause-not-in-log unknown-error
    start-failed
NODE node: card-slow wrong-values memory-bandwidth-low host-transfer-slow peer-link-slow network-slow latency-high
    node-missing rank-lost nodes-disagree clocks-apart storage-unfit group-slow throttles-under-load cpu-slow
    machine-unfit slower-than-before packets-lost
"""
"""The contract with users' settings and scripts: topic, its folder, and the names of its codes from 001 on. Append-only."""
TOPICS = [
    (*head.split(), names.split())
    for head, names in re.findall(r"^(\w+ \w+): ((?:.+\n)(?: +.+\n)*)", CONTRACT, re.MULTILINE)
]
FOLDERS = {topic: folder for topic, folder, _ in TOPICS}
NAMES = {
    f"{topic}{number:03}": name for topic, _, names in TOPICS for number, name in enumerate(names, 1) if name != "-"
}

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
SHARED_DETAILS["observability"] = (PeriodDetail,)
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
