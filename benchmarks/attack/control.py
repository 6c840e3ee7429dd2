"""Control characters in file names, sources, configs, arguments and recordings: none may reach a terminal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attack.case import Attempt

GROUP = "control characters"
ROOT = Path(__file__).resolve().parents[2]

SEQUENCES = {
    "title, colour, clear, device control": "\x1b]0;owned\x07\x1b[31m\x1b[2J\x1b[H\x1bP$q\x1b\\",
    "carriage return, bell, backspace, delete": "\roverwritten\x07\b\b\b\x7f",
    "controls of one byte, line separators": "\x9b31m\x9d0;owned\x9c\u2028\u0085",
    "order of writing, zero width": "\u202etxt.exe\u2066\u200b\ufeff",
}

SCRIPT = """import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 1).cuda()  # {0}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(1024, 4), torch.randn(1024, 1))
loader = DataLoader(data, batch_size=16)
for x, y in loader:
    x = x.cuda()  # {0}
    loss = (model(x) - y.cuda()).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(loss.item(), "{0} ")
"""
JOB = "#!/bin/bash\n#SBATCH --job-name={0}\n#SBATCH --gpus-per-node=2\ntorchrun --nproc_per_node=4 x.py '{0}'\n"


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Every sequence through every command that prints text of others, the same for each seed."""
    del seed
    for number, (what, sequence) in enumerate(SEQUENCES.items()):
        place = scratch / str(number)
        place.mkdir()
        yield from _check(what, sequence, place)
        yield from _replay(what, sequence, place)
    yield from _appliable(scratch)
    yield from _run(scratch)


def _check(what: str, sequence: str, place: Path) -> Iterator[Attempt]:
    safe = sequence.replace("\r", "").replace("\x85", "").replace("\u2028", "")
    script = place / "train.py"
    script.write_text(SCRIPT.format(safe), encoding="utf-8", newline="")
    named = place / f"x{sequence}.py"
    named.write_text(SCRIPT.format(""), encoding="utf-8")
    (place / "ds_config.json").write_text(json.dumps({f"zero{sequence}": 1, "train_batch_size": sequence}))
    (place / "job.sbatch").write_text(JOB.format(safe), encoding="utf-8", newline="")
    for words in (
        ["check", "train.py", named.name, "ds_config.json", "job.sbatch", "--verbose"],
        ["check", "train.py", named.name, "--diff"],
        ["check", f"missing{sequence}.py"],
        ["estimate", "--model", f"7b{sequence}"],
    ):
        yield _shown(what, words, place)
    before = script.read_bytes()
    done = _gpudoctor(["check", "train.py", "--fix"], place)
    after = script.read_bytes()
    kept = before.count(safe.encode()) == after.count(safe.encode()) and before != after
    yield Attempt(GROUP, f"{what}: --fix writes the true bytes", None if kept else f"exit code {done.returncode}")


def _replay(what: str, sequence: str, place: Path) -> Iterator[Attempt]:
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    try:
        from windows import make_gpu_window, make_rank, make_tick, make_window
    finally:
        sys.path.pop(0)
    from gpudoctor.watch.tape import TapeWriter

    rank = make_rank(command=("python", sequence), user=sequence, cwd=sequence, looks={"forward": 30})
    rank = replace(rank, places=tuple(replace(at, phase=sequence, path=sequence) for at in rank.places))
    window = make_window([rank], [replace(make_gpu_window(busy=0.5), name=sequence)])
    ended = replace(window, ended=f"it ended {sequence}")
    tick = make_tick(window)
    told = replace(tick.report, summary=replace(tick.report.summary, verdict=f"well {sequence}"))
    writer = TapeWriter(place / "tape.jsonl")
    writer.write(replace(tick, report=told))
    writer.write(replace(make_tick(ended, number=1), report=told))
    writer.close()
    for words in (["--plain"], ["--once"], ["--once", "--verbose"]):
        yield _shown(what, ["watch", "--replay", "tape.jsonl", *words], place)


def _appliable(scratch: Path) -> Iterator[Attempt]:
    """A diff of ordinary files: with tabs, accents, a form feed, no line feed at the end."""
    for what, text in {
        "tabs": SCRIPT.format("").replace("    ", "\t"),
        "accents": SCRIPT.format("naïve, 学习"),
        "no line feed at the end": SCRIPT.format("").rstrip("\n"),
        "a form feed, to a file": SCRIPT.format("\x0c"),
    }.items():
        place = scratch / what.replace(" ", "-").replace(",", "")
        place.mkdir()
        (place / "train.py").write_text(text, encoding="utf-8")
        words = ["check", "train.py", "--diff"]
        done = _gpudoctor([*words, "--output", "x.diff"] if "file" in what else words, place)
        diff = (place / "x.diff").read_bytes() if "file" in what else done.stdout
        (place / "given.diff").write_bytes(diff)
        tool = ["git", "apply", "given.diff"] if shutil.which("git") else ["patch", "-p1", "-i", "given.diff"]
        applied = subprocess.run(tool, cwd=place, capture_output=True, timeout=60)
        changed = (place / "train.py").read_text(encoding="utf-8") != text
        why = None if applied.returncode == 0 and changed else applied.stderr.decode(errors="replace")[:200]
        yield Attempt(GROUP, f"a diff applies: {what}", why if diff else "there is no diff")


def _run(scratch: Path) -> Iterator[Attempt]:
    every = "".join(SEQUENCES.values())
    folder = scratch / "recording"
    script = scratch / "raises.py"
    script.write_text(f"import torch\nraise ValueError({every!r})\n", encoding="utf-8")
    words = ["run", "--recording", str(folder), "--", sys.executable, str(script), "--name", every]
    done = _gpudoctor(words, scratch)
    own = done.stderr.partition(b"gpudoctor")[2]
    yield Attempt(GROUP, "the report after a run", _commands(b"gpudoctor" + own))
    for format in ("text", "markdown", "github", "nagios", "html"):
        yield _shown("a recording", ["report", str(folder), "--format", format], scratch)
    yield _shown("a recording", ["compare", str(folder), str(folder)], scratch)
    yield _shown("a command that is missing", ["run", "--", f"no{every.replace(chr(0), '')}"], scratch)
    yield _shown("an option", ["check", f"--no{every}"], scratch)


def _shown(what: str, words: list[str], place: Path) -> Attempt:
    done = _gpudoctor(words, place)
    why = _commands(done.stdout) or _commands(done.stderr)
    if why is None and b"Traceback (most recent call last)" in done.stderr:
        why = f"a traceback: {done.stderr[-200:]!r}"
    return Attempt(GROUP, f"{what}: {' '.join(words[:3])}"[:90].encode("ascii", "backslashreplace").decode(), why)


def _commands(data: bytes) -> str | None:
    """The first character of an output that a terminal obeys or that changes what a person reads."""
    for character in data.decode("utf-8", "replace"):
        # Joiners shape some scripts and stay.
        if character not in "\n\t\u200c\u200d" and unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"}:
            return f"it prints {character!r}"
    return None


def _gpudoctor(words: list[str], place: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    program = "import sys; from gpudoctor.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", program, *words], cwd=place, env=environment, capture_output=True, timeout=120
    )
