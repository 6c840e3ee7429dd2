"""Programs that look for us: under `gpudoctor run` each says, leaves and returns the same, byte for byte.

The programs run in the interpreter of `--python` (default: this one), gpudoctor in this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attack.case import Attempt

GROUP = "programs as without us"
PROGRAMS = Path(__file__).with_name("programs")
SHARED = {"training", "helper_module"}
_LIMIT = 120.0


def programs() -> list[Path]:
    """The scripts, without what they share."""
    return sorted(path for path in PROGRAMS.glob("*.py") if path.stem not in SHARED)


def attempts(_seed: int, scratch: Path) -> Iterator[Attempt]:
    """Run each one bare and recorded."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(lambda path: _attempt(path, scratch), programs())


def _attempt(program: Path, scratch: Path) -> Attempt:
    folder = scratch / program.stem
    bare, recorded = folder / "bare", folder / "recorded"
    for work in (bare, recorded):
        work.mkdir(parents=True)
    command = [os.environ.get("ATTACK_PYTHON", sys.executable), str(program)]
    report, recording = folder / "report.json", folder / "recording"
    options = ["--quiet", "--format", "json", "--output", str(report), "--recording", str(recording)]
    try:
        plain = _run(command, bare)
        ours = _run([sys.executable, "-m", "gpudoctor", "run", *options, "--", *command], recorded)
    except subprocess.TimeoutExpired as error:
        return Attempt(GROUP, program.stem, f"did not end within {error.timeout:.0f} s")
    return Attempt(GROUP, program.stem, _difference(plain, ours, bare, recorded) or _unseen(program, recording))


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "ATTACK_FOLDER": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=environment, input=b"one\ntwo\n", capture_output=True, timeout=_LIMIT, check=False
    )


def _difference(
    plain: subprocess.CompletedProcess[bytes], ours: subprocess.CompletedProcess[bytes], bare: Path, recorded: Path
) -> str | None:
    # A shell's exit code for a signal; Python's own is negative.
    code = 128 - plain.returncode if plain.returncode < 0 else plain.returncode
    if ours.returncode != code:
        return f"exit code {ours.returncode} instead of {code}: {ours.stderr[-300:]!r}"
    if ours.stdout != plain.stdout:
        return f"standard output differs: {_first(plain.stdout, ours.stdout)}"
    own = ours.stderr[len(plain.stderr) :]
    if not ours.stderr.startswith(plain.stderr) or not own.startswith(b"gpudoctor: "):
        return f"standard error differs: {_first(plain.stderr, ours.stderr)}"
    left, right = _files(bare), _files(recorded)
    if left != right:
        names = sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
        return f"files differ: {', '.join(names)}"
    return None


def _first(plain: bytes, ours: bytes) -> str:
    """The first line in which they differ."""
    before, after = plain.splitlines(), ours.splitlines()
    for at in range(max(len(before), len(after))):
        pair = [lines[at] if at < len(lines) else b"" for lines in (before, after)]
        if pair[0] != pair[1]:
            return f"line {at + 1}, {pair[0][:160]!r} became {pair[1][:160]!r}"
    return "line ends"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _unseen(program: Path, recording: Path) -> str | None:
    """A program that was not recorded proves nothing."""
    trains = b"from training import" in program.read_bytes()
    return "it was not recorded" if trains and not list(recording.glob("rank-*.gdr")) else None
