"""Runs the commands that pages show and writes what they print there: `python docs/outputs.py [PAGE ...]`.

A line `<!-- run: COMMAND -->` is followed by the command's output; this program replaces it. The tutorial takes
some 15 minutes on a quiet machine, most of it for `verify`. Needs the extra `test`. A page in another language
has the same commands and the output in its language.
"""

import datetime
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = {"docs/tutorial.md": "en", "docs/tutorial.zh.md": "zh", "README.zh-CN.md": "zh"}
"""Pages and the language of their outputs."""
LIMIT = 1200.0
"""Seconds that a command may take."""
SHOWN = 40
"""Lines of an output that a page shows."""
_BLOCK = re.compile(r"<!-- run: (.*?) -->\n(?:\n```console\n.*?\n```\n)?", re.DOTALL)
_MACHINE = re.compile(r"<!-- machine -->\n(?:\n[^\n]+\n)?")


def filled(text: str, language: str) -> str:
    """The page with the outputs of its commands, which run in a new folder in the order of the page.

    Raises `subprocess.CalledProcessError` for a command that ends with another code than 0 and 1 (findings).
    """
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "tutorial"
        home.mkdir()
        shutil.copytree(ROOT / "examples", home / "examples")
        shutil.copy(ROOT / "examples/train_crops.py", home)

        def block(found: re.Match[str]) -> str:
            command = found[1]
            sys.stdout.write(f"$ {command}\n")
            sys.stdout.flush()
            output = _output(command, home, language)
            return f"<!-- run: {command} -->\n\n```console\n$ {command}\n{output}\n```\n"

        text = _BLOCK.sub(block, text)
    return _MACHINE.sub(f"<!-- machine -->\n\n{_machine(language)}\n", text)


def _output(command: str, home: Path, language: str) -> str:
    words = shlex.split(command)
    words = [sys.executable if word == "python" else word for word in words]
    if words[0] == "gpudoctor":
        words = [sys.executable, "-m", *words]
    done = subprocess.run(
        words,
        cwd=home,
        env={
            **os.environ,
            "COLUMNS": "88",
            "NO_COLOR": "1",
            "PAGER": "cat",
            "GPUDOCTOR_LANG": language,
            "XDG_STATE_HOME": str(home.parent / "state"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode not in (0, 1):
        sys.stderr.write(done.stdout)
        raise subprocess.CalledProcessError(done.returncode, command)
    shown = done.stdout.replace(str(home.parent), "~").replace(sys.executable, "python")
    lines = [line for line in shown.rstrip().splitlines() if not line.startswith("epoch ")]
    lines = [re.sub(r"\s+$", "", line) for line in lines]
    return "\n".join(lines[:SHOWN] + (["..."] if len(lines) > SHOWN else []))


def _machine(language: str) -> str:
    """One sentence: the day, the CPUs and the versions."""
    versions = f"Python {platform.python_version()}, torch {metadata.version('torch')}"
    day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    if language == "zh":
        return f"测量日期 {day}，{os.cpu_count()} 个 CPU，无 GPU，{versions}。"  # noqa: RUF001
    return f"Measured on {day}, {os.cpu_count()} CPUs, no GPU, {versions}."


def main() -> int:
    """Fill every page, or those that are named."""
    for name in sys.argv[1:] or list(PAGES):
        path = ROOT / name
        path.write_text(filled(path.read_text("utf-8"), PAGES[name]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
