"""Bytes of a config file to text, or the sentence why not."""

import os
import sys
from functools import cache
from typing import Any

from gpudoctor.lang import SpokenError, say
from gpudoctor.model.external_files import read_file
from gpudoctor.model.read_limits import CONFIG


def words(text: str) -> frozenset[str]:
    """The words of a text that are separated by blanks."""
    return frozenset(text.split())


def load_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text, by the standard library where it has a reader. Raises `ValueError`."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    data: dict[str, Any] = tomllib.loads(text)
    return data


@cache
def key_tables() -> dict[str, dict[str, Any]]:
    """The tables of `keys.toml`: the meanings of keys by tool, and the keys that tell whose config a file is."""
    with open(os.path.join(os.path.dirname(__file__), "keys.toml"), encoding="utf-8") as stream:
        return load_toml(stream.read())


LIMIT = CONFIG.most
"""Bytes; a file over this is data."""

TOO_DEEP = say("is nested too deeply to be a config")


class UnreadConfig(SpokenError):
    """A file cannot be read as a config. The text is a sentence with the line where there is one."""


def read_text(path: str) -> tuple[str, tuple[str, ...]]:
    """The text and notes about its encoding. Raises `UnreadConfig`."""
    try:
        size = os.stat(path).st_size
        if size > LIMIT:
            raise UnreadConfig(
                "is {megabytes} MB; a training config is under {limit} MB, so this is data",
                megabytes=max(1, round(size / (1 << 20))),
                limit=LIMIT >> 20,
            )
        return decode(read_file(path, CONFIG))
    except OSError as error:
        raise UnreadConfig("cannot be read: {reason}", reason=error.strerror or error) from error
    except ValueError as error:  # a NUL byte in the path
        raise UnreadConfig("cannot be read: {error}", error=error) from error


def decode(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """The text and notes about its encoding. Raises `UnreadConfig` for binary data and for another encoding."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return _lines(raw.decode("utf-16")), (say("the file is UTF-16; most training tools expect UTF-8"),)
        except UnicodeDecodeError as error:
            raise UnreadConfig("starts like UTF-16 text but is not; it cannot be read as a config") from error
    if b"\0" in raw:
        raise UnreadConfig("is a binary file, not a config")
    try:
        return _lines(raw.decode("utf-8-sig")), ()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UnreadConfig(
            "line {line}: not UTF-8 text{other_encoding}; save it as UTF-8",
            line=line,
            other_encoding=_other_encoding(raw),
        ) from error


def _lines(text: str) -> str:
    """Line ends as the parsers count them: a lone carriage return is one too."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _other_encoding(raw: bytes) -> str:
    try:
        decoded = raw.decode("gb18030")
    except UnicodeDecodeError:
        return ""
    chinese = sum("\u4e00" <= char <= "\u9fff" for char in decoded)
    return say(" (it reads as GB18030)") if chinese >= 2 else ""
