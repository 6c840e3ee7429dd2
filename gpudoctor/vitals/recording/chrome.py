"""Chrome trace JSON, event by event: a trace of several GB is never held as a whole.

The document is an object with `traceEvents` anywhere in it, or the bare list of events.
"""

import json
import os
import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gpudoctor.errors import UsageError
from gpudoctor.lang import SpokenError, say
from gpudoctor.model.external_files import RefusedFile, is_packed, open_unpacked, unpacked_most
from gpudoctor.model.read_limits import TRACE, TRACE_EVENT, TRACE_EVENTS, TRACE_HEAD, TRACE_VALUE, UNPACKED_RATIO
from gpudoctor.model.unavailable import Unavailable

Event = Mapping[str, Any]

_CHUNK = 1 << 20
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_BETWEEN = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")
_DECODER = json.JSONDecoder(strict=False)
_SIGNS = (b'"traceEvents"', b'"ph"')
"""What a Chrome trace holds and hardly any other JSON."""


def is_trace(path: Path) -> bool:
    """Whether a file looks like a Chrome trace, packed or not. Its events may come after other keys."""
    try:
        with open_unpacked(path) as stream:
            head = (stream.read(4096) or b"").lstrip(b"\xef\xbb\xbf \t\r\n")
            if head[:1] not in (b"{", b"["):
                return False
            if b'"schemaVersion"' in head or any(sign in head for sign in _SIGNS):
                return True
            if head[:1] == b"[":
                return False
            left, tail = TRACE_HEAD.most, head[-16:]
            while left > 0 and (part := stream.read(_CHUNK)):
                if _SIGNS[0] in tail + part:
                    return True
                left, tail = left - len(part), part[-16:]
    except OSError:
        return False
    return False


def read_events(name: str, take: Callable[[Event], None]) -> dict[str, Any]:
    """Gives every event of a trace to `take`, one at a time; returns what else its document holds.

    Raises `UsageError` for a file that is no whole trace, `Unavailable` for one that is too large.
    """
    with readable(name):
        size = os.stat(name).st_size
        most = unpacked_most(size, TRACE) if is_packed(name) else TRACE.most
        with open_unpacked(name) as stream:
            return _Text(stream, most).document(take)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Whatever is wrong with a trace file becomes a sentence.

    Raises `UsageError` for a file that is no whole trace, `Unavailable` for one that is too large.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if TRACE.beyond in reason:
            raise Unavailable(
                "{name}: {beyond}; record fewer steps (profiler schedule active=...)", name=name, beyond=TRACE.beyond
            ) from error
        raise UsageError("{name}: cannot be read: {reason}", name=name, reason=reason) from error
    except RecursionError as error:
        raise UsageError("{name}: not {form}: it nests too deeply", name=name, form="whole JSON") from error
    except _NoList as error:
        raise UsageError("{name}: its traceEvents are not a list", name=name) from error
    except ValueError as error:
        raise UsageError("{name}: not {form}: {error}", name=name, form="whole JSON", error=error) from error


class _NoList(SpokenError, ValueError):
    """`traceEvents` is something else than a list, or the document something else than an object."""


class _Text:
    """The text of a stream, of which only what is not yet decoded is held."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream = stream
        self._left = most
        self._most = most
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._text = ""
        self._at = 0
        self._ended = False

    def document(self, take: Callable[[Event], None]) -> dict[str, Any]:
        """The document without its events."""
        first = self._next(_SPACE)
        if first == "[":
            self._at += 1
            self._list(take)
            return {}
        if first != "{":
            raise _NoList(say("no object"))
        self._at += 1
        found: dict[str, Any] = {}
        while (mark := self._next(_BETWEEN)) != "}":
            if mark != '"':
                raise ValueError(say("the name of a value is missing ({mark!r})", mark=mark or say("its end")))
            key = str(self._value())
            if self._next(_SPACE) != ":":
                raise ValueError(say("no value for {key!r}", key=key[:40]))
            self._at += 1
            opening = self._next(_SPACE)
            if key != "traceEvents":
                found[key] = self._value()
            elif opening == "[":
                self._at += 1
                self._list(take)
            else:
                raise _NoList(key)
        return found

    def _list(self, take: Callable[[Event], None]) -> None:
        count = 0
        while (mark := self._next(_BETWEEN)) != "]":
            count += 1
            if count > TRACE_EVENTS and count * TRACE_EVENT > self._most - self._left:
                raise RefusedFile("it is not a profiler trace: its events are nearly empty")
            if not mark:
                raise ValueError("it ends before its last event")
            event = self._value()
            if isinstance(event, dict):
                take(event)
        self._at += 1

    def _value(self) -> Any:
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended:
                    raise ValueError(error.msg) from error
                if len(self._text) - self._at > TRACE_VALUE.most:
                    raise ValueError(say("one value is {words}, or is not JSON", words=TRACE_VALUE.words)) from error
                self._more()
                continue
            if end < len(self._text) or self._ended:
                self._at = end
                return value
            self._more()  # a number may go on

    def _next(self, gap: re.Pattern[str]) -> str:
        """The next character after a gap, without taking it; "" at the end."""
        while True:
            match = gap.match(self._text, self._at)
            end = match.end() if match else self._at
            if end < len(self._text):
                self._at = end
                return self._text[end]
            if self._ended:
                return ""
            self._more()

    def _more(self) -> None:
        """Reads on: at least as much as is held, so that a long value is not tried often."""
        data = self._stream.read(max(_CHUNK, len(self._text) - self._at)) or b""
        self._left -= len(data)
        if self._left < 0:
            if self._most < TRACE.most:
                raise RefusedFile(
                    say(
                        "it unpacks to more than {unpacked_ratio} times its size, which no file of this kind does",
                        unpacked_ratio=UNPACKED_RATIO,
                    )
                )
            raise RefusedFile(say("it is {words}", words=TRACE.words))
        self._ended = not data
        self._text = self._text[self._at :] + self._decode(data, self._ended)
        self._at = 0
