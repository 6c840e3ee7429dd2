"""What was measured on a machine's own card, kept in a small file, and used by later estimates for that card.

Of a measurement three things carry over to other jobs: what the process holds outside torch's allocator
(context, kernels, libraries), the cuBLAS workspaces inside it, and how much the allocator reserves beside what
every instant needs. The ratio of an instant carries over to jobs of the same method that are not far larger:
it is used where we predicted too little, never to take bytes away.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.calibration_records import CPU, Calibration, CardObservation, median
from gpudoctor.estimate.gpus import device
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.result import Device, Instant, Line
from gpudoctor.lang import say
from gpudoctor.model import Provenance
from gpudoctor.model.external_files import load_json, read_file
from gpudoctor.model.read_limits import CALIBRATION

SCHEMA = "gpudoctor.calibration/1"
KEPT = 64
"""Observations that are kept, the newest."""


class CalibrationError(UsageError):
    """A file that is no calibration of ours; the text says why."""


def suits(entry: Calibration, card: Device | None) -> bool:
    """Whether it is of this kind of card; the CPU's suits where there is no card."""
    if card is None or entry.gpu == CPU:
        return card is None and entry.gpu == CPU
    try:
        return entry.gpu == card.name or device(entry.gpu).name == card.name
    except UsageError:
        return False


def pick(entries: Sequence[Calibration], card: Device | None, release: str) -> Calibration | None:
    """The newest entry of this kind of card; of another release of ours only what no formula enters."""
    for entry in reversed(entries):
        if suits(entry, card):
            return entry if entry.gpudoctor == release else replace(entry, observations=())
    return None


def user_file(environment: "os._Environ[str] | dict[str, str]" = os.environ) -> Path:
    """Where calibrations of this user lie: $XDG_DATA_HOME/gpudoctor/calibration.json."""
    base = environment.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "gpudoctor" / "calibration.json"


def apply(
    calibration: Calibration, job: TrainingJob, instants: Sequence[Instant], static: int
) -> tuple[tuple[Instant, ...], int, list[str]]:
    """Instants and static state as measured before on this card, and what was used, a clause each."""
    said: list[str] = []
    changed = [_instant(calibration, job, instant, said) for instant in instants]
    if calibration.workspace is not None:
        before = max(
            (line.bytes for each in instants for line in each.lines if line.kind == "workspace"), default=0
        )
        static += calibration.workspace - before if before else 0
    return tuple(changed), static, list(dict.fromkeys(said))


def _instant(calibration: Calibration, job: TrainingJob, instant: Instant, said: list[str]) -> Instant:
    lines = []
    for line in instant.lines:
        if line.kind == "workspace" and calibration.workspace is not None:
            text = f"{calibration.workspace:,} B measured"
            line = replace(
                line, bytes=calibration.workspace, formula=text, source=calibration.title(),
                provenance=Provenance.MEASURED,
            )  # fmt: skip
            said.append(f"workspaces {calibration.workspace:,} B")
        lines.append(line)
    ratio, count = calibration.ratio(instant.name, job.method, instant.bytes)
    if count:
        said.append(
            f"{instant.name} x {ratio:.3f} measured (n {count})"
            + ("" if ratio > 1 else say(", kept as computed"))
        )
    size = sum(line.bytes for line in lines)
    if ratio > 1:
        lines.append(
            Line(
                kind="calibration",
                bytes=round((ratio - 1) * size),
                source=calibration.title(),
                formula=say(
                    "{ratio:.4f} x {size:,} B: measured over computed, median of {count}",
                    ratio=ratio - 1,
                    size=size,
                    count=count,
                ),
                provenance=Provenance.MEASURED,
            )
        )
    return replace(instant, lines=tuple(lines))


def read(path: Path) -> tuple[Calibration, ...]:
    """The entries of a file. Raises `CalibrationError` for one that cannot be used, with the reason."""
    try:
        raw = read_file(path, CALIBRATION)
    except OSError as error:
        raise CalibrationError(
            say("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error)
        ) from None
    try:
        found = load_json(raw)
    except ValueError:
        raise CalibrationError(
            say("{path}: no calibration file (not JSON); --write-calibration writes one", path=path)
        ) from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise CalibrationError(
            say(
                "{path}: its schema is {schema!r}, this release reads {readable!r}; measure again with "
                "`gpudoctor estimate --measure --write-calibration`",
                path=path,
                schema=str(schema)[:60],
                readable=SCHEMA,
            )
        )
    try:
        return tuple(_entry(each) for each in found["entries"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CalibrationError(
            say(
                "{path}: an entry of it is broken ({kind}: {error})",
                path=path,
                kind=type(error).__name__,
                error=error,
            )
        ) from None


def write(path: Path, calibration: Calibration) -> Calibration:
    """Add it to the file, with earlier observations of the same card and libraries; returns the entry.

    Raises `CalibrationError` for a file that is there and is no calibration: nothing of the user's is replaced.
    """
    entries = {each.key: each for each in read(path)} if path.exists() else {}
    merged = _merged(entries.pop(calibration.key, None), calibration)
    entries[calibration.key] = merged
    text = (
        json.dumps({"schema": SCHEMA, "entries": [_plain(each) for each in entries.values()]}, indent=1) + "\n"
    )
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, "utf-8")
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CalibrationError(
            say(
                "--write-calibration {path}: cannot be written: {error}",
                path=path,
                error=error.strerror or error,
            )
        ) from None
    return merged


def _merged(old: Calibration | None, new: Calibration) -> Calibration:
    """Old observations count while the formulas are the same release's; figures of the card are the newest."""
    if old is None:
        return new
    kept = old.observations if old.gpudoctor == new.gpudoctor else ()
    return replace(
        new, observations=(*kept, *new.observations)[-KEPT:],
        context=new.context if new.context is not None else old.context,
        workspace=new.workspace if new.workspace is not None else old.workspace,
        nccl=new.nccl if new.nccl is not None else old.nccl,
    )  # fmt: skip


def _plain(entry: Calibration) -> dict[str, Any]:
    spread = entry.spread
    reserved = None if spread is None else {"low": spread[0], "high": spread[1], "n": spread[2]}
    return {
        "gpu": entry.gpu, "bytes": entry.bytes, "versions": entry.versions, "date": entry.date,
        "gpudoctor": entry.gpudoctor, "context_bytes": entry.context, "workspace_bytes": entry.workspace,
        "nccl_bytes": entry.nccl,
        "reserved_over_expected": reserved,
        "instants": _summary(entry.observations),
        "observations": [
            {
                "model": each.model, "method": each.method,
                "instants": {name: list(pair) for name, pair in each.instants.items()},
                "reserved": None if each.reserved is None else list(each.reserved),
            }
            for each in entry.observations
        ],
    }  # fmt: skip


def _summary(observations: Sequence[CardObservation]) -> dict[str, dict[str, float]]:
    """Per instant, measured over predicted: for people and other programs; ours reads the observations."""
    ratios: dict[str, list[float]] = {}
    for each in observations:
        for name, (predicted, measured) in each.instants.items():
            if predicted:
                ratios.setdefault(name, []).append(measured / predicted)
    return {
        name: {"median": round(median(found), 5), "low": round(min(found), 5),
               "high": round(max(found), 5), "n": len(found)}
        for name, found in ratios.items()
    }  # fmt: skip


def _entry(raw: dict[str, Any]) -> Calibration:
    """One entry; raises KeyError, TypeError or ValueError for what it is not."""
    return Calibration(
        gpu=_text(raw["gpu"]), bytes=_bytes(raw["bytes"]), date=_text(raw["date"]),
        gpudoctor=_text(raw["gpudoctor"]),
        versions={_text(key): _text(value) for key, value in raw["versions"].items()},
        context=_maybe(raw["context_bytes"]), workspace=_maybe(raw["workspace_bytes"]),
        nccl=_maybe(raw["nccl_bytes"]),
        observations=tuple(_observation(each) for each in raw["observations"])[-KEPT:],
    )  # fmt: skip


def _observation(raw: dict[str, Any]) -> CardObservation:
    instants = {_text(name): (_bytes(pair[0]), _bytes(pair[1])) for name, pair in raw["instants"].items()}
    reserved = raw["reserved"]
    pair = None if reserved is None else (_bytes(reserved[0]) or 1, _bytes(reserved[1]))
    return CardObservation(
        model=_text(raw["model"]), method=_text(raw["method"]), instants=instants, reserved=pair
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise ValueError(say("{value!r} is not a short text", value=str(value)[:40]))
    return value


def _bytes(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1 << 50:
        raise ValueError(say("{value!r} is not a number of bytes", value=str(value)[:40]))
    return value


def _maybe(value: Any) -> int | None:
    return None if value is None else _bytes(value)
