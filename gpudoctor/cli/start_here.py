"""`gpudoctor` alone: what can be done next here, read in a fraction of a second.

It looks at processes, at the state folder, and at a few files of this folder. It imports no check.
"""

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress

from gpudoctor.lang import tr

_SUFFIXES = (".log", ".out", ".err")
_FOLDERS = (".", "logs")
"""Where logs are looked for."""
_LOGS, _SCRIPTS, _ENTRIES = 6, 40, 2000
_HEAD, _TAIL = 1 << 16, 1 << 15
_LAST_LINES = 60
_RECENT = 14 * 86400.0
"""Seconds after which a log or a recording is history."""
_RAISED = re.compile(r"[\s*>|\[(.:#=-]{0,40}(?:\w{1,40}\]?:\s{0,8})?[\w.]{0,200}(?:Error|Exception)\b")
_DEATH = re.compile(
    r"CUDA out of memory|Segmentation fault|oom[-_ ]kill|DUE TO TIME LIMIT|\bKilled$|exceeded memory limit",
    re.IGNORECASE,
)
_TRAINS = re.compile(r"\.backward\(|\.step\(|\bTrainer\(|Trainer\b.*\.train\(|\.fit\(|accelerator\.")
_FRAMEWORK = re.compile(r"^\s*(?:import|from)\s+(?:torch|transformers|lightning|pytorch_lightning|trl)\b", re.M)
_LIKELY = ("train", "main", "finetune", "pretrain", "run", "sft")
_LONGEST = 72


def run() -> int:
    """Print what can be done next."""
    from gpudoctor.cli.output import show

    parts = [*_trainings(), *_logs(), *_recording(), *_scripts()]
    lines = [tr("gpudoctor finds out why a training is slow, wrong or dead.")]
    if not parts:
        lines += ["", tr("Nothing to examine is in this folder: no script, no log, no recording.")]
        parts = [(tr("this machine"), ("gpudoctor check",))]
    for what, commands in parts:
        lines += ["", _cut(what), *(f"    {command}" for command in commands)]
    lines += ["", tr("all commands: gpudoctor --help")]
    show("\n".join(lines) + "\n")
    return 0


def _cut(text: str) -> str:
    from gpudoctor.text import cut

    return cut(" ".join(text.split()), _LONGEST)


def _masked(words: tuple[str, ...]) -> str:
    """A command line without secrets and without the folders of its programs."""
    from gpudoctor.cli.recordings import short_command
    from gpudoctor.model.redaction import mask_arguments

    return short_command(tuple(mask_arguments(words)))


def _trainings() -> Iterator[tuple[str, tuple[str, ...]]]:
    from gpudoctor.vitals.process.attach import training_processes
    from gpudoctor.vitals.process.procfs import command

    found = [(pid, words) for pid, _ in training_processes() if (words := command(pid))]
    if len(found) == 1:
        pid, words = found[0]
        yield (tr("A training runs: pid {pid}, {masked}", pid=pid, masked=_masked(words)), (f"gpudoctor watch {pid}",))
    elif found:
        yield tr("{found} processes that use torch run", found=len(found)), ("gpudoctor watch --find",)


def _logs() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The newest log that ended in an error."""
    dated: list[tuple[float, str]] = []
    for entry in (entry for folder in _FOLDERS for entry in _entries(folder)):
        with suppress(OSError):
            if entry.name.lower().endswith(_SUFFIXES) and entry.is_file():
                dated.append((entry.stat().st_mtime, os.path.normpath(entry.path)))
    now = time.time()
    for written, path in sorted(dated, reverse=True)[:_LOGS]:
        if now - written < _RECENT and (line := _last_error(path)):
            from gpudoctor.cli.recordings import ago
            from gpudoctor.model.redaction import mask_text

            what = {"path": path, "ago": ago(now - written), "mask_text": mask_text(line)}
            said = tr("{path} ended in an error {ago}: {mask_text}", **what)
            yield said, (f"gpudoctor autopsy {shlex.quote(path)}",)
            return


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return [entry for _, entry in zip(range(_ENTRIES), entries, strict=False)]
    except OSError:
        return []


def _last_error(path: str) -> str:
    """The last line of a log that says how it died; "" for one that went on afterwards or ended well.

    It is the line of an exception or of an end from outside, whatever brackets precede it.
    """
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL))
            text = stream.read(_TAIL).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip()[:400] for line in text.replace("\r", "\n").splitlines() if line.strip()]
    died = (line for line in reversed(lines[-_LAST_LINES:]) if _DEATH.search(line) or _RAISED.match(line))
    return next(died, "")


def _recording() -> Iterator[tuple[str, tuple[str, ...]]]:
    from gpudoctor.cli.recordings import ago, short_command
    from gpudoctor.recorder.kept_recordings import newest_recording

    newest = newest_recording()
    if newest is None or time.time() - newest.started > _RECENT:
        return
    when = ago(time.time() - newest.started)
    if newest.running:
        return
    command, outcome = short_command(newest.command), newest.outcome
    yield (
        tr("{command} died {when}: {outcome}", command=command, when=when, outcome=outcome)
        if newest.died
        else tr("{command} was recorded {when}: {outcome}", command=command, when=when, outcome=outcome),
        ("gpudoctor report",),
    )


def _scripts() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The script of this folder that most likely trains, and a job script."""
    rated: list[tuple[int, float, str]] = []
    jobs: list[str] = []
    for entry in _entries("."):
        if entry.name.endswith((".sbatch", ".slurm")):
            jobs.append(entry.name)
        elif entry.name.endswith(".py") and len(rated) < _SCRIPTS:
            with suppress(OSError):
                rated += [(rate, entry.stat().st_mtime, entry.name) for rate in [_rating(entry)] if rate]
    if rated:
        name = max(rated)[2]
        quoted = shlex.quote(name)
        yield tr("{name} trains a model", name=name), (f"gpudoctor check {quoted}", f"gpudoctor run -- python {quoted}")
    if jobs:
        name = shlex.quote(min(jobs))
        yield tr("{jobs} is a job script", jobs=min(jobs)), (f"gpudoctor check {name}",)


def _rating(entry: "os.DirEntry[str]") -> int:
    """How likely a script is the training: 0 for one that is none."""
    with open(entry.path, "rb") as stream:
        text = stream.read(_HEAD).decode("utf-8", "replace")
    if not _FRAMEWORK.search(text) or not _TRAINS.search(text):
        return 0
    return 1 + 2 * entry.name.startswith(_LIKELY) + ("__main__" in text) + (".backward(" in text or "Trainer(" in text)
