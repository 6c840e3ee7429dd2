"""Special JSON and TOML at every door that reads some: nesting, huge numbers, other encodings, what is no object."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from attack.case import Attempt
from attack.hostile.commands import run, warm, why_broken
from attack.hostile.written import MAGIC, Written, frame

GROUP = "special JSON and frames"
SCRIPT = "import torch\nprint(torch.__version__)\n"

TEXTS: dict[str, bytes] = {
    "nothing": b"", "spaces": b"  \n\n", "null": b"null", "true": b"true", "a number": b"3", "a text": b'"x"', "a list": b"[]", "an object": b"{}",
    "100,000 lists": b"[" * 100_000, "100,000 closed lists": b"[" * 100_000 + b"]" * 100_000, "3,000 lists": b"[" * 3000 + b"]" * 3000,
    "900 lists": b"[" * 900 + b"]" * 900, "50,000 objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "5,000 digits": b'{"schema": ' + b"9" * 5000 + b"}", "a million digits": b"9" * 1_000_000, "1e999999": b'{"exit_code": 1e999999}',
    "NaN": b'{"exit_code": NaN, "seconds": NaN, "learning_rate": NaN}', "Infinity": b'{"exit_code": -Infinity, "oom_kills": Infinity, "num_workers": Infinity}',
    "keys twice": b'{"schema": 1, "schema": [], "findings": {}, "findings": 3, "model_type": 1, "model_type": "gpt2"}',
    "a byte order mark": b"\xef\xbb\xbf{}", "UTF-16": '{"a": 1}'.encode("utf-16"), "UTF-32": '{"a": 1}'.encode("utf-32"),
    "UTF-16 without mark": '{"a": 1}'.encode("utf-16-le"), "lone surrogates": b'{"\\ud800": "\\udfff\\ud800", "cwd": "\\ud800", "command": ["\\udc80"]}',
    "bytes that are no text": b'{"a": "\xff\xfe\x80"}', "NULs": b'{"a": "\x00\x00"}', "escaped NULs": b'{"cwd": "\\u0000", "command": ["python", "\\u0000.py"]}',
    "cut": b'{"schema": "gpudoctor.rec', "single quotes": b"{'a': 1}", "comments": b'{"a": 1 /* x */ // y\n}', "a million keys": b"{" + b",".join(b'"k%d":1' % i for i in range(300_000)) + b"}",
    "a text of 3 MB": b'{"cwd": "' + b"x" * 3_000_000 + b'"}', "9 MB": b"[" + b"1," * 4_500_000 + b"1]", "70 MB": b" " * 70_000_000 + b"{}",
    "two documents": b"{}{}", "control characters": b'{"a": "\x01\x02\x1b[31m"}', "a list of lists": b"[[[[]]]]", "wrong types": b'{"schema": [], "command": {}, "environment": [], "settings": 4, "findings": "x", "cells": 5, "entries": 7}',
}  # fmt: skip
DOORS = (
    "recording.json",
    "end.json",
    "record",
    "header",
    "baseline",
    "notebook",
    "config",
    "config.json",
    "deepspeed",
    "calibration",
)
TOML: dict[str, bytes] = {
    "nesting": b"a = " + b"[" * 5000 + b"]" * 5000, "tables": b"[" + b".".join([b"a"] * 3000) + b"]\nb = 1\n", "digits": b"a = " + b"9" * 5000,
    "inline": b"a = " + b"{a=" * 2000 + b"1" + b"}" * 2000, "no text": b"a = '\xff'", "twice": b"a = 1\na = 2", "nan": b"[tool.gpudoctor.thresholds]\nDATA001 = nan",
    "tool is a number": b"tool = 5", "tool is a list": b"tool = [1, 'tool.gpudoctor']", "gpudoctor is a list": b"[tool]\ngpudoctor = [1]",
    "dates": b"select = [1979-05-27]\nfail-on = 1979-05-27", "a key of 100,000": b"a" * 100_000 + b" = 1", "BOM": b"\xef\xbb\xbfselect = []", "NUL": b"a = '\x00'", "UTF-16": "a = 1".encode("utf-16"),
    "globs": b"[per-file-ignores]\n'" + b"**/" * 2000 + b"x' = ['DATA001']", "5 MB": b"#" * 5_000_000,
}  # fmt: skip


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Each text at a few doors that the dice choose, each door at least once."""
    warm()
    dice = random.Random(seed)
    base = Written(rows=40)
    number = 0
    for name, data in TEXTS.items():
        for door in dice.sample(DOORS, 3):
            number += 1
            folder = scratch / f"j{number}"
            folder.mkdir()
            outcome = run(_laid(folder, door, data, base), folder)
            yield Attempt(group=GROUP, name=f"{name} as {door}", broken=why_broken(outcome))
            shutil.rmtree(folder)
    for name, data in TOML.items():
        for file in dice.sample(["gpudoctor.toml", "pyproject.toml", "train.toml"], 2):
            number += 1
            folder = scratch / f"j{number}"
            folder.mkdir()
            (folder / "train.py").write_text(SCRIPT)
            (folder / file).write_bytes((b"# tool.gpudoctor\n" if file == "pyproject.toml" else b"") + data)
            words = [
                "check",
                "train.toml" if file == "train.toml" else "train.py",
                "--format",
                "json",
                "--fail-on",
                "never",
            ]
            yield Attempt(group=GROUP, name=f"TOML {name} as {file}", broken=why_broken(run(words, folder)))
            shutil.rmtree(folder)


def _laid(folder: Path, door: str, data: bytes, base: Written) -> list[str]:
    """Lay the text at a door; the command that reads it."""
    if door in ("recording.json", "end.json", "record", "header"):
        one = base.copy()
        if door == "record":
            one.tail = frame(b"J", data) + frame(b"J", b'{"type":"site","t":1}')
        elif door == "header":
            one.tail = frame(b"C", data) + frame(b"C", data + b"\n" + bytes(100))
        one.write(folder / "run")
        if door.endswith("json"):
            (folder / "run" / door).write_bytes(data)
        (folder / "run" / "rank-7-7.gdr").write_bytes(MAGIC + data[:4096])
        return ["report", "run", "--format", "json"]
    (folder / "train.py").write_text(SCRIPT)
    names = {"notebook": "n.ipynb", "config": "train.json", "config.json": "config.json", "deepspeed": "ds_config.json"}
    path = folder / names.get(door, "given.json")
    path.write_bytes(data)
    if door == "baseline":
        return ["check", "train.py", "--baseline", path.name, "--fail-on", "never", "--format", "json"]
    if door == "config.json":
        return ["estimate", path.name, "--gpu", "H100"]
    if door == "calibration":
        return ["estimate", "gpt2", "--gpu", "H100", "--calibration", path.name]
    return ["check", path.name, "--fail-on", "never", "--format", "json"]
