"""Runs gpudoctor's commands in forked children with a limit of time and memory, and judges how they ended."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MEMORY = 1 << 30
"""Bytes that a command may hold."""
ADDRESSES = 8 << 30
"""Bytes of address space: a command that wants more is stopped before it hurts the machine."""
SECONDS = 20.0
"""Seconds that a command may take."""
CODES = (0, 1, 2, 3)


@dataclass(frozen=True)
class Outcome:
    """How one command ended."""

    words: tuple[str, ...]
    code: int
    """Exit code, negative for a signal; None stands for a command that was killed for its time."""
    out: str
    err: str
    seconds: float
    memory: int
    late: bool

    @property
    def text(self) -> str:
        """Everything that it wrote."""
        return self.out + self.err


def warm() -> None:
    """Load what every command loads, once: the children are forked from here."""
    import gc

    import gpudoctor.cli.check
    import gpudoctor.cli.compare
    import gpudoctor.cli.report
    import gpudoctor.cli.watch
    import gpudoctor.report.html
    import gpudoctor.report.json
    import gpudoctor.ui.console
    import gpudoctor.vitals.build_patient
    import gpudoctor.vitals.configs
    import gpudoctor.vitals.job
    import gpudoctor.vitals.recording
    import gpudoctor.vitals.source  # noqa: F401
    from gpudoctor.engine.registry import load_registry

    load_registry()
    gc.freeze()


def run(
    words: Sequence[str],
    cwd: Path,
    *,
    seconds: float = SECONDS,
    environment: dict[str, str] | None = None,
    addresses: int = ADDRESSES,
) -> Outcome:
    """Run `gpudoctor WORDS` in a forked child. Standard output and error go to files beside `cwd`."""
    sys.stdout.flush()
    sys.stderr.flush()
    out, err = cwd / ".attack-out", cwd / ".attack-err"
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _in_child(words, cwd, out, err, environment or {}, addresses)
    code, usage, late = _wait(child, start + seconds)
    return Outcome(
        words=tuple(words),
        code=code,
        out=_text(out),
        err=_text(err),
        seconds=time.monotonic() - start,
        memory=usage.ru_maxrss * 1024,
        late=late,
    )


def _in_child(
    words: Sequence[str], cwd: Path, out: Path, err: Path, environment: dict[str, str], addresses: int
) -> None:
    code = 99
    try:
        os.setsid()
        os.chdir(cwd)
        for path, number in ((out, 1), (err, 2)):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(handle, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115  # lives as long as the child
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115
        os.environ.update(environment)
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        from gpudoctor.cli import main

        code = main(list(words))
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 1
    except BaseException:  # noqa: BLE001  # the parent reads it
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _wait(child: int, deadline: float) -> tuple[int, resource.struct_rusage, bool]:
    late = False
    pause = 0.002
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), usage, late
        if time.monotonic() > deadline and not late:
            late = True
            os.killpg(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(0.02, pause * 1.3)


def _text(path: Path) -> str:
    try:
        return path.read_bytes()[: 4 << 20].decode("utf-8", "replace")
    except OSError:
        return ""


def why_broken(outcome: Outcome, codes: Iterable[int] = CODES, *, says: str = "", memory: int = MEMORY) -> str | None:
    """The sentence that says why a command broke; None for one that ended as it should."""
    name = " ".join(outcome.words)[:120]
    if outcome.late:
        return f"{name}: not over after {outcome.seconds:.0f} s"
    if "Traceback (most recent call last)" in outcome.text:
        return f"{name}: traceback: {_last_line(outcome.text)}"
    if "internal error" in outcome.text.lower():
        return f"{name}: {_line_with(outcome.text, 'internal error')}"
    if outcome.code not in codes:
        return f"{name}: exit code {outcome.code}, not one of {tuple(codes)}: {outcome.err[-200:]}"
    if outcome.memory > memory:
        return f"{name}: held {outcome.memory >> 20} MiB"
    if outcome.code in (2, 3) and not outcome.text.strip():
        return f"{name}: exit code {outcome.code} without a sentence"
    if says and says not in outcome.text:
        return f"{name}: does not say {says!r}: {outcome.text[:200]!r}"
    return _crashed(outcome)


def _crashed(outcome: Outcome) -> str | None:
    """The first check that crashed, by the JSON report, or by what the text says."""
    if outcome.out.startswith("{"):
        lines = outcome.out.splitlines() if outcome.out.startswith('{"') else [outcome.out]
        try:
            reports = [json.loads(line, parse_constant=_no_constant) for line in lines]
        except ValueError as error:
            return f"{' '.join(outcome.words)[:120]}: its JSON cannot be read: {error}"
        for report in reports:
            for entry in report.get("outcomes", ()) if isinstance(report, dict) else ():
                if isinstance(entry, dict) and entry.get("outcome") == "crashed":
                    return f"{entry.get('code')} crashed: {entry.get('reason') or entry}"
    for word in ("crashed:", " crashed (", "the reader of ", "AttributeError", "TypeError"):
        if word in outcome.text:
            return _line_with(outcome.text, word)
    return None


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[:400] if lines else ""


def _line_with(text: str, word: str) -> str:
    return next((line.strip()[:300] for line in text.splitlines() if word.lower() in line.lower()), word)
