"""Pictures of real runs for the documentation site: what commands print, as SVG, and HTML reports as they are.

Each picture is the output of a command that is run now, on this machine, below a scratch folder with a copy of
examples/. Needs the extra `test`: the examples train with torch.
"""

import fcntl
import io
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
WIDTH = 88
"""Columns of the terminal."""
LIMIT = 300.0
"""Seconds that a command may take."""
LIVE = (120, 40)
"""Columns and lines of the live view's terminal."""
LIVE_SECONDS = 45
"""What the live view has watched in its picture."""
LONG = ("--epochs", "20")
"""Arguments with which an example makes enough steps for a report."""
START = 10.0
"""Seconds until a started program trains."""
_DIES = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(40):
    gradient = torch.ones(1000)
    dist.all_reduce(gradient)
    if rank == 2 and step == 25:
        raise ValueError("sample 1337 of shard-0002.tar has 0 bytes")
    if rank == 0 and step % 5 == 0:
        print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)
"""


def draw(folder: Path, progress: Callable[[str], None]) -> set[str]:
    """Draw every picture into `folder`; returns their names.

    Raises `subprocess.CalledProcessError` for a command that gives neither 0 nor 1 (findings).
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "work"
        shutil.copytree(ROOT / "examples", home / "examples")
        (home / "train_shards.py").write_text(_DIES)
        take = _Camera(folder, home, progress)
        script, well = "examples/train_crops.py", "examples/train_crops_well.py"
        take.shot("check.svg", "check", script)
        take.shot("diff.svg", "check", script, "--diff", "--quiet")
        take.shot("estimate.svg", "estimate", "--model", "7b", "--gpu", "24GiB")
        take.shot("explain.svg", "explain", "DATA001")
        take.shot("preflight.svg", "preflight", "--quick")
        take.quietly("run", "--recording", "before", "--", "python", script, *LONG)
        take.quietly("run", "--recording", "after", "--", "python", well, *LONG)
        take.shot("report.svg", "report", "before")
        take.shot("compare.svg", "compare", "before", "after")
        take.page("report.html", "report", "before")
        take.dead_job("job.out", "train_shards.py")
        take.shot("autopsy.svg", "autopsy", "job.out", "train_shards.py")
        take.living_job("watch.svg", "live.svg", script)
        return {path.name for path in folder.iterdir()}


class _Camera:
    def __init__(self, folder: Path, home: Path, progress: Callable[[str], None]) -> None:
        self.folder, self.home, self.progress = folder, home, progress
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "XDG_STATE_HOME": str(home.parent / "state"),
        }

    def shot(self, name: str, *arguments: str) -> None:
        """Run a command on a terminal and keep what it shows."""
        self.progress(f"{name}: gpudoctor {' '.join(arguments)}")
        code, shown = _on_terminal(
            [sys.executable, "-m", "gpudoctor", *arguments], self.home, {**self.environment, "PAGER": "cat"}
        )
        _checked(code, arguments)
        title = f"gpudoctor {' '.join(arguments)}"
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
        console.print(Text.from_ansi(shown.replace("\r\n", "\n").rstrip()))
        console.save_svg(str(self.folder / name), title=title)

    def quietly(self, *arguments: str) -> None:
        """Run a command for what it leaves behind."""
        self.progress(f"gpudoctor {' '.join(arguments[:3])} ...")
        done = subprocess.run(
            [sys.executable, "-m", "gpudoctor", *arguments],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        _checked(done.returncode, arguments)

    def page(self, name: str, *arguments: str) -> None:
        """Keep a report as HTML."""
        self.quietly(*arguments, "--format", "html", "--output", str(self.folder / name))

    def dead_job(self, log: str, script: str) -> None:
        """Run a job of four ranks that dies, and keep its log."""
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", script]
        with open(self.home / log, "wb") as output:
            subprocess.run(
                launch,
                cwd=self.home,
                env={**self.environment, "OMP_NUM_THREADS": "1"},
                stdout=output,
                stderr=output,
                timeout=LIMIT,
                check=False,
            )

    def living_job(self, once: str, live: str, script: str) -> None:
        """Watch a training while it runs: one report, and the live view."""
        job = subprocess.Popen(
            ["python", script, "--epochs", "1000"],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            time.sleep(START)
            self.shot(once, "watch", str(job.pid), "--once")
            self.live_view(live, str(job.pid))
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()

    def live_view(self, name: str, pid: str) -> None:
        """Let Textual draw the live view after a while; it ends then."""
        self.progress(f"{name}: gpudoctor watch {pid}, {LIVE_SECONDS} s")
        asked = {
            "TEXTUAL_SCREENSHOT": str(LIVE_SECONDS),
            "TEXTUAL_SCREENSHOT_LOCATION": str(self.folder),
            "TEXTUAL_SCREENSHOT_FILENAME": name,
        }
        arguments = ("watch", pid)
        code, _ = _on_terminal(
            [sys.executable, "-m", "gpudoctor", *arguments], self.home, {**self.environment, **asked}, LIVE
        )
        _checked(code, arguments)


def _checked(code: int, arguments: tuple[str, ...]) -> None:
    if code not in (0, 1):
        raise subprocess.CalledProcessError(code, ["gpudoctor", *arguments])


def _on_terminal(
    command: list[str], folder: Path, environment: dict[str, str], size: tuple[int, int] = (WIDTH, 500)
) -> tuple[int, str]:
    """The exit code of a command and what it wrote on a terminal of so many columns and lines."""
    ours, theirs = pty.openpty()
    columns, lines = size
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = []
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # the last writer has closed it
            break
        if not block:
            break
        written.append(block)
    os.close(ours)
    return process.wait(LIMIT), b"".join(written).decode("utf-8", "replace")
