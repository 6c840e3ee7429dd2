"""Hostile files and devices given to check, estimate, report, compare, --baseline and settings."""

from __future__ import annotations

import os
import random
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from attack.case import Attempt
from attack.hostile.commands import run, warm, why_broken
from attack.hostile.written import Written

GROUP = "hostile files and devices"
MEMORY = 3 << 29
"""Bytes: a trace of 512 MB is read, and refused for what is in it."""
SCRIPT = "import torch\nprint(torch.__version__)\n"
DOORS: dict[str, tuple[str, ...]] = {
    "check x.py": ("check", "{}.py"), "check x.json": ("check", "{}.json"), "check x.yaml": ("check", "{}.yaml"), "check x.sh": ("check", "{}.sh"),
    "check x.ipynb": ("check", "{}.ipynb"), "check x.toml": ("check", "{}.toml"), "check x": ("check", "{}"), "check folder": ("check", "folder"),
    "--baseline": ("check", "train.py", "--baseline", "{}.json"), "--config": ("check", "train.py", "--config", "{}.toml"),
    "gpudoctor.toml": ("check", "settings/train.py"), "report": ("report", "{}"), "report x.json": ("report", "{}.json"), "report x.csv": ("report", "{}.csv"),
    "report x.zip": ("report", "{}.zip"), "compare": ("compare", "{}", "run"), "compare second": ("compare", "run", "{}.gz"), "report in folder": ("report", "inside"),
    "estimate": ("estimate", "{}.json", "--gpu", "H100"), "--replay": ("watch", "--replay", "{}", "--once"), "--replay gz": ("watch", "--replay", "{}.gz", "--once"),
}  # fmt: skip
"""What is named, and the command; the file has the name that stands for `{}`."""


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Every door with each kind of file that is none."""
    warm()
    dice = random.Random(seed)
    whole = Written(rows=40)
    number = 0
    for kind, make in KINDS.items():
        for door in dice.sample(list(DOORS), 5 if kind not in ("pipe", "device") else len(DOORS)):
            number += 1
            folder = scratch / f"f{number}"
            folder.mkdir()
            name = _name(DOORS[door])
            _surroundings(folder, whole)
            for place in _places(folder, door, name):
                make(place)
            words = [word.format("odd") for word in DOORS[door]]
            outcome = run([*words, *(["--fail-on", "never"] if words[0] == "check" else [])], folder)
            yield Attempt(group=GROUP, name=f"{kind} for {door}", broken=why_broken(outcome, memory=MEMORY))
            _removed(folder)
    yield from _names(scratch, dice)
    yield from _changing(scratch, whole)
    for target in (
        "/dev/zero",
        "/dev/full",
        "/dev/null",
        "/dev/stdin",
        "/proc/self/mem",
        "/proc/self/environ",
        "/proc/kmsg",
        "/proc/self/maps",
        "/proc",
        "/dev",
        "/sys/kernel",
    ):
        for words in (
            ["check", target],
            ["report", target],
            ["check", "train.py", "--baseline", target],
            ["watch", "--replay", target, "--once"],
            ["check", "train.py", "--config", target],
        ):
            folder = scratch / "dev"
            folder.mkdir(exist_ok=True)
            (folder / "train.py").write_text(SCRIPT)
            yield Attempt(
                group=GROUP,
                name=" ".join(words),
                broken=why_broken(run([*words, *(["--fail-on", "never"] if words[0] == "check" else [])], folder)),
            )
    for words in (["report", "run", "--output", "/dev/full"], ["check", "train.py", "--output", "/dev/full", "--format", "json"], ["check", "train.py", "--write-baseline", "/dev/full"],
                  ["report", "run", "--output", "/proc/self/x"], ["report", "run", "--tensorboard", "/proc/x"]):  # fmt: skip
        folder = scratch / "out"
        folder.mkdir(exist_ok=True)
        _surroundings(folder, whole)
        yield Attempt(group=GROUP, name=" ".join(words), broken=why_broken(run(words, folder), (2, 3)))
        _removed(folder)


def _name(words: tuple[str, ...]) -> str:
    return next((word.format("odd") for word in words if "{}" in word), "odd")


def _places(folder: Path, door: str, name: str) -> list[Path]:
    if door == "check folder":
        return [folder / "folder" / f"odd{suffix}" for suffix in (".json", ".yaml", ".py", ".toml", ".ipynb", ".sh")]
    if door == "gpudoctor.toml":
        return [folder / "settings" / "gpudoctor.toml"]
    if door == "report in folder":
        return [folder / "inside" / inner for inner in ("end.json", "rank-7-7.gdr", "fault-0-4712.txt")]
    return [folder / name]


def _surroundings(folder: Path, whole: Written) -> None:
    (folder / "train.py").write_text(SCRIPT)
    for inner in ("folder", "settings"):
        (folder / inner).mkdir()
        (folder / inner / "train.py").write_text(SCRIPT)
    whole.write(folder / "run")
    whole.write(folder / "inside")
    for name in ("end.json", "gpudoctor.toml"):
        (folder / "inside" / name).unlink(missing_ok=True)


def _removed(folder: Path) -> None:
    for base, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(os.path.join(base, name)):
                os.chmod(os.path.join(base, name), 0o700)
    shutil.rmtree(folder)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _chain(path: Path) -> None:
    last = path.with_name("end-" + path.name)
    for number in range(60):
        link = path.with_name(f"l{number}-{path.name}")
        link.symlink_to(last)
        last = link
    path.symlink_to(last)


def _sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(10 << 30)


def _sparse_text(path: Path) -> None:
    with path.open("wb") as stream:
        stream.write(b'{"schemaVersion": 1, "traceEvents": [\n')
        stream.truncate(1 << 29)


def _deep(path: Path) -> None:
    path.mkdir()
    for _ in range(200):
        path = path / "d"
        path.mkdir()
    (path / "a.py").write_text(SCRIPT)


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo, "socket": _socket, "device": lambda path: path.symlink_to("/dev/zero"), "full device": lambda path: path.symlink_to("/dev/full"),
    "terminal": lambda path: path.symlink_to("/dev/tty"), "link to itself": _loop, "60 links": _chain, "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to its folder": lambda path: path.symlink_to("."), "folder": Path.mkdir, "deep folder": _deep, "empty": Path.touch, "10 GB of nothing": _sparse, "512 MB of nothing": _sparse_text,
    "NULs": lambda path: path.write_bytes(bytes(100_000)), "no text": lambda path: path.write_bytes(bytes(range(256)) * 50),
    "an executable": lambda path: shutil.copyfile("/bin/ls", path), "gz of nothing": lambda path: path.write_bytes(b"\x1f\x8b\x08\x00" + bytes(40)),
    "memory of a process": lambda path: path.symlink_to("/proc/self/mem"), "maps of a process": lambda path: path.symlink_to("/proc/self/maps"),
    "one line of 3 MB": lambda path: path.write_bytes(b"a" * 3_000_000), "3 MB of newlines": lambda path: path.write_bytes(b"\n" * 3_000_000),
    "unreadable": lambda path: (path.write_text("x = 1"), path.chmod(0)),
}  # fmt: skip


def _names(scratch: Path, dice: random.Random) -> Iterator[Attempt]:
    folder = scratch / "names"
    folder.mkdir()
    odd = [
        "a" * 255, "a" * 256 + ".py", "a" * 5000, "a/" * 3000 + "x.py", "new\nline.py", "\x1b[31mred.py", "sur\udcffrogate.py", "sp ace.py", "-dash.py", "--flag", "@file", "%s%n", "x\x00y.py",
        "\u202egnp.py", "ü" * 120 + ".py", ".", "..", "/", "", "~", "*.py", "CON.py", ".py", "a.py/b", "tab\t.json",
    ]  # fmt: skip
    for name in odd:
        with suppress(OSError, ValueError):
            (folder / name).write_text(SCRIPT)
        if name == "/":  # a whole machine is no folder of odd files: 2,000 of its scripts are read, in a minute
            name = "/dev/"
        words = dice.choice(
            [
                ["check", name],
                ["report", name],
                ["compare", name, name],
                ["check", "a.py", "--baseline", name],
                ["estimate", name],
                ["check", "a.py", "--config", name],
            ]
        )
        yield Attempt(group=GROUP, name=f"{words[0]} {name!r:.40}", broken=why_broken(run(words, folder)))
    yield Attempt(
        group=GROUP,
        name="a folder of odd names",
        broken=why_broken(run(["check", ".", "--fail-on", "never", "--format", "json"], folder)),
    )


def _changing(scratch: Path, whole: Written) -> Iterator[Attempt]:
    """Files that change, grow, shrink and vanish while they are read."""
    for name, change in (("cut", lambda path: path.write_bytes(b"GPUDOC1\n")), ("vanishes", lambda path: path.unlink(missing_ok=True)),
                         ("becomes a pipe", lambda path: (path.unlink(missing_ok=True), os.mkfifo(path))), ("grows", lambda path: path.open("ab").write(bytes(9999)))):  # fmt: skip
        folder = scratch / f"changing-{name.replace(' ', '-')}"
        whole.write(folder / "run")
        for number in range(1, 40):
            (folder / "run" / f"rank-{number}-{number}.gdr").write_bytes(
                (folder / "run" / "rank-0-4712.gdr").read_bytes()
            )
        over = threading.Event()

        def alter(
            folder: Path = folder, change: Callable[[Path], object] = change, over: threading.Event = over
        ) -> None:
            for path in sorted((folder / "run").glob("*.gdr"), reverse=True):
                if over.wait(0.01):
                    return
                with suppress(OSError):
                    change(path)

        thread = threading.Thread(target=alter)
        thread.start()
        outcome = run(["report", "run", "--format", "json"], folder)
        over.set()
        thread.join()
        yield Attempt(group=GROUP, name=f"a file {name} while it is read", broken=why_broken(outcome))
        shutil.rmtree(folder)
