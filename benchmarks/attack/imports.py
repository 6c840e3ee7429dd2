"""Files in the working folder named like modules: none may be imported by gpudoctor or by what it starts."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from attack.case import Attempt

GROUP = "imports from the working folder"
FIRST = {
    "__future__", "_collections_abc", "abc", "codecs", "collections", "encodings", "functools", "genericpath", "importlib", "io", "keyword", "operator", "os", "pkgutil", "posixpath",
    "reprlib", "runpy", "site", "stat", "sys", "types", "warnings", "zipimport", "builtins", "time", "marshal", "posix", "contextlib", "weakref", "zipfile", "typing", "linecache", "tokenize", "token", "inspect", "ast", "dis", "opcode", "enum", "re",
    "textwrap", "copyreg", "importlib_metadata",
}  # fmt: skip
"""Modules that Python itself may import before the first line of ours, by its version; `-P` spares them too."""
NAMES = [
    "argparse", "array", "base64", "bisect", "csv", "dataclasses", "datetime", "difflib", "fnmatch", "gettext", "glob", "gzip", "hashlib", "heapq", "html", "json", "logging", "math", "pathlib", "platform", "queue", "random",
    "selectors", "shlex", "shutil", "signal", "socket", "statistics", "string", "struct", "subprocess", "tempfile", "threading", "traceback", "urllib", "zlib", "numpy", "packaging", "psutil", "pynvml", "yaml", "ruamel", "rich", "textual", "torch", "transformers",
    "gpudoctor_checks", "gpudoctor_rules", "sitecustomize", "tomllib", "tomli", "copy", "locale", "multiprocessing", "ctypes", "uuid",
]  # fmt: skip


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Every name as a file and some as folders, under the commands that start processes."""
    from attack.hostile.written import Written

    dice = random.Random(seed)
    folder = scratch / "work"
    folder.mkdir()
    touched = scratch / "touched"
    line = f"import os; open({str(touched)!r}, 'a').write(__name__ + chr(10)); raise SystemExit('taken')\n"
    for name in NAMES:
        if dice.random() < 0.25:
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(line)
        else:
            (folder / f"{name}.py").write_text(line)
    Written(rows=40).write(folder / "run")
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH --gres=gpu:8\ntorchrun --nproc_per_node=8 x.py\n")
    (folder / "x.py").write_text("print(1)\n")
    for start in (["-m", "gpudoctor"], ["-m", "gpudoctor.cli"], ["-c", _alarm()]):
        for words in (["check"], ["check", "x.py", "job.sh"], ["report", "run"], ["report", "run", "--format", "html"], ["compare", "run", "run"], ["list"], ["explain", "DATA001"],
                      ["estimate", "--model", "gpt2", "--gpu", "H100"], ["run", "--", "true"]):  # fmt: skip
            touched.unlink(missing_ok=True)
            done = subprocess.run(
                [sys.executable, *start, *words],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=60,
                env=_environment(),
                check=False,
            )
            taken = touched.read_text().split() if touched.exists() else []
            broken = f"it imported {', '.join(dict.fromkeys(taken))} from the working folder" if taken else None
            if broken is None and "Traceback" in done.stderr:
                broken = f"traceback: {done.stderr.strip().splitlines()[-1]}"
            yield Attempt(
                group=GROUP, name=" ".join([start[1] if start[0] == "-m" else "child", *words]), broken=broken
            )
    yield from _torch(folder, touched)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}


def _alarm() -> str:
    """What `--on-finding` starts."""
    from gpudoctor.model.child_process import child_code

    return child_code("gpudoctor.cli.low_priority")


def _torch(folder: Path, touched: Path) -> Iterator[Attempt]:
    """Children that import the user's torch find his, not a file of the working folder."""
    from gpudoctor.model.child_process import child_code

    for module in (
        "gpudoctor.estimate.synthetic.local_device",
        "gpudoctor.estimate.traced.__main__",
        "gpudoctor.estimate.synthetic.transformers_facts",
    ):
        touched.unlink(missing_ok=True)
        subprocess.run(
            [sys.executable, "-c", child_code(module), "answer"],
            cwd=folder,
            input="{}",
            capture_output=True,
            text=True,
            timeout=120,
            env=_environment(),
            check=False,
        )
        taken = touched.read_text().split() if touched.exists() else []
        yield Attempt(group=GROUP, name=module, broken=f"it imported {taken}" if taken else None)
