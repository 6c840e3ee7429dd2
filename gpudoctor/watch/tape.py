"""Ticks in a file: `watch --record` writes it, `watch --replay` shows it again.

One JSON object a line. Of the ranks, the GPUs, the host and the report only the fields that changed since the
line before are written, and of series only the new points: some kilobytes a tick. A file that was cut short is
read up to there. A name that ends in `.gz` is compressed.
"""

import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from gpudoctor import __version__
from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.model import Json, Report
from gpudoctor.model.external_files import Damaged, RefusedFile, load_json, open_unpacked
from gpudoctor.model.read_limits import GPUS, RANKS, TAPE_LINE, TAPE_LINES
from gpudoctor.model.signs.process import GpuWindow, HostWindow, ProcessWindow, Rank, Series
from gpudoctor.model.watch import Tick
from gpudoctor.watch.codec import decode, encode

SCHEMA = "gpudoctor.watch/1"
_POINTS = 480
"""Points that a series keeps when it is read back."""
JsonObject = dict[str, Json]
Part = TypeVar("Part", Rank, GpuWindow, HostWindow)
Value = TypeVar("Value")


class TapeWriter:
    """Appends ticks to a file. Raises `UsageError` when it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before: dict[str, JsonObject] = {}
        self._newest: dict[tuple[str, str], float] = {}
        try:
            self._file: IO[str] = _open(path, "xt")
        except FileExistsError:
            raise UsageError("{path}: the file already exists; name another", path=path) from None
        except OSError as error:
            raise UsageError("{path}: cannot be written: {error}", path=path, error=error.strerror or error) from error
        self._line({"schema": SCHEMA, "gpudoctor": __version__, "started": time.strftime("%Y-%m-%dT%H:%M:%S%z")})

    def write(self, tick: Tick) -> None:
        """Append a tick; raises `OSError` on a full disk."""
        window = tick.window
        # What every report repeats word for word is in the installed version of the reader, too.
        report = replace(tick.report, checks=tuple(replace(check, help="") for check in tick.report.checks))
        frame = replace(window, ranks=(), gpus=(), host=HostWindow())
        self._line(
            {
                "number": tick.number,
                "window": self._changes("window", encode(frame)),
                "ranks": {str(r.pid): self._part(f"rank {r.pid}", r) for r in window.ranks},
                "gpus": {str(gpu.index): self._part(f"gpu {gpu.index}", gpu) for gpu in window.gpus},
                "host": self._part("host", window.host),
                "report": self._changes("report", encode(report)),
            }
        )

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def _part(self, key: str, part: Part) -> JsonObject:
        """The fields that changed; of series and trails the new points."""
        fresh = {
            item.name: self._fresh(key, item.name, getattr(part, item.name))
            for item in fields(part)
            if isinstance(getattr(part, item.name), Series)
        }
        slim = replace(part, **cast(Any, fresh))
        if isinstance(slim, Rank):
            newest = self._newest.get((key, "trail"), -1.0)
            trail = tuple(one for one in slim.trail if one[0] > newest)
            if trail:
                self._newest[key, "trail"] = trail[-1][0]
            slim = replace(slim, trail=trail)
        return self._changes(key, encode(slim))

    def _fresh(self, key: str, name: str, series: Series) -> Series:
        newest = self._newest.get((key, name), -1.0)
        points = [(t, value) for t, value in zip(series.t, series.values, strict=True) if t > newest]
        if points:
            self._newest[key, name] = points[-1][0]
        return Series(t=tuple(t for t, _ in points), values=tuple(value for _, value in points))

    def _changes(self, key: str, now: Json) -> JsonObject:
        assert isinstance(now, dict)
        before = self._before.get(key, {})
        self._before[key] = now
        return {name: value for name, value in now.items() if name == "$" or before.get(name, _NOTHING) != value}

    def _line(self, values: JsonObject) -> None:
        self._file.write(json.dumps(values, ensure_ascii=True, separators=(",", ":")) + "\n")
        self._file.flush()


_NOTHING: Json = "\0nothing"


class TapeReader:
    """Ticks of a file, one after the other. Raises `UsageError` or `IncompleteError` for a file of no use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        """Of the line that was read last."""
        self._whole: dict[str, JsonObject] = {}
        self._series: dict[tuple[str, str], list[tuple[float, float]]] = {}
        self._trails: dict[str, list[tuple[float, str]]] = {}
        self._lines = self._read()
        head = next(self._lines, None)
        if head is None or head.get("schema") != SCHEMA:
            raise IncompleteError(
                "{path}: is not a recording of gpudoctor watch (its first line is not {schema})",
                path=path,
                schema=SCHEMA,
            )

    def tick(self) -> Tick | None:
        """The next tick; None at the end."""
        line = next(self._lines, None)
        if line is None:
            return None
        try:
            return self._tick(line)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise IncompleteError(
                "{path}: line {number} is not valid ({error})",
                path=self._path,
                number=self._number,
                error=_words(error),
            ) from error

    def pause(self, on: bool) -> None:
        """Nothing looks at anything here."""

    def _tick(self, line: JsonObject) -> Tick:
        frame = self._value("window", line["window"], ProcessWindow)
        ranks = [self._rank(f"rank {pid}", part, frame) for pid, part in _items(line["ranks"])]
        gpus = [self._part(f"gpu {index}", part, GpuWindow) for index, part in _items(line["gpus"])]
        host = self._part("host", line["host"], HostWindow)
        if not ranks:
            raise ValueError("it has no rank")
        if len(ranks) > RANKS.most or len(gpus) > GPUS.most:
            raise ValueError(f"it has {(RANKS if len(ranks) > RANKS.most else GPUS).beyond}")
        window = replace(frame, ranks=tuple(ranks), gpus=tuple(gpus), host=host)
        return Tick(
            window=window, report=self._value("report", line["report"], Report), number=int(str(line["number"]))
        )

    def _rank(self, key: str, part: Json, frame: ProcessWindow) -> Rank:
        rank = self._part(key, part, Rank)
        trail = self._trails.setdefault(key, [])
        newest = trail[-1][0] if trail else -1.0
        trail += [one for one in rank.trail if one[0] > newest]
        trail[:] = [one for one in trail if one[0] >= frame.t - frame.length]
        return replace(rank, trail=tuple(trail))

    def _part(self, key: str, part: Json, kind: type[Part]) -> Part:
        value = self._value(key, part, kind)
        grown = {
            item.name: self._grown(key, item.name, getattr(value, item.name))
            for item in fields(value)
            if isinstance(getattr(value, item.name), Series)
        }
        return replace(value, **cast(Any, grown))

    def _grown(self, key: str, name: str, fresh: Series) -> Series:
        points = self._series.setdefault((key, name), [])
        newest = points[-1][0] if points else -1.0
        points += [(t, value) for t, value in zip(fresh.t, fresh.values, strict=True) if t > newest]
        if len(points) > _POINTS:
            points[:] = points[::2]
        return Series(t=tuple(t for t, _ in points), values=tuple(value for _, value in points))

    def _value(self, key: str, changes: Json, kind: type[Value]) -> Value:
        """The whole value: what the lines before said, with the changes."""
        if not isinstance(changes, dict):
            raise ValueError(f"{key} is not an object")
        self._whole[key] = {**self._whole.get(key, {}), **changes}
        value = decode(self._whole[key])
        if not isinstance(value, kind):
            raise ValueError(f"{key} is not a {kind.__name__}")
        return value

    def _read(self) -> Iterator[JsonObject]:
        try:
            with open_unpacked(self._path) as file:
                while text := file.readline(TAPE_LINE.most + 1):
                    self._number += 1
                    if len(text) > TAPE_LINE.most:
                        raise RefusedFile(f"line {self._number} is {TAPE_LINE.words}")
                    if self._number > TAPE_LINES.most:
                        raise RefusedFile(f"it has {TAPE_LINES.words}")
                    try:
                        line = load_json(text)
                    except ValueError:
                        return  # cut short: what came before stands
                    if isinstance(line, dict):
                        yield line
        except FileNotFoundError:
            raise UsageError("{path}: no such file", path=self._path) from None
        except OSError as error:
            if not self._whole or (isinstance(error, RefusedFile) and not isinstance(error, Damaged)):
                raise IncompleteError(
                    "{path}: cannot be read ({error})", path=self._path, error=error.strerror or error
                ) from error


def _items(value: Json) -> Iterator[tuple[str, Json]]:
    if not isinstance(value, dict):
        raise ValueError("ranks and gpus are objects")
    yield from value.items()


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _open(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return cast(IO[str], gzip.open(path, mode, encoding="utf-8"))
    return cast(IO[str], open(path, mode, encoding="utf-8"))
