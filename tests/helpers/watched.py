"""Small processes to watch: Python children whose stacks look like a training's, without torch.

    with training(tmp_path, "train.py", TRAIN) as child:
        watch(child.pid)

`library(tmp_path)` lays out a site-packages folder with functions that stand where torch's do.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIBRARY = {
    "torch/__init__.py": "",
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "",
    "torch/utils/data/dataloader.py": """
import time


def _try_get_data(seconds):
    time.sleep(seconds)


class Loader:
    def __init__(self, seconds):
        self.seconds = seconds

    def __iter__(self):
        return self

    def __next__(self):
        return self._next_data()

    def _next_data(self):
        return _try_get_data(self.seconds)
""",
    "torch/serialization.py": """
import time


def save(thing, path):
    time.sleep(thing)
""",
    "torch/distributed/__init__.py": "",
    "torch/distributed/distributed_c10d.py": """
import time


def all_reduce(seconds):
    time.sleep(seconds)
""",
    "torch/_tensor.py": """
import time


def backward(seconds):
    time.sleep(seconds)
""",
}

READY = "import sys\nprint('ready', flush=True)\n"


def library(folder: Path) -> Path:
    """A site-packages folder whose functions only sleep."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    for name, text in LIBRARY.items():
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return packages


@contextmanager
def training(
    folder: Path, name: str, text: str, *arguments: str, **variables: str
) -> Iterator["subprocess.Popen[str]"]:
    """A child that runs the text as a script; it must print `ready` (see READY) once it is under way."""
    script = folder / name
    script.write_text(text)
    packages = library(folder)
    environment = {**os.environ, "PYTHONPATH": str(packages), **variables}
    child = subprocess.Popen(
        [sys.executable, str(script), *arguments], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()
