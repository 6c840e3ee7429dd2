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


def read_text(path: str) -> str:
    """The text. Raises `UnreadConfig`."""
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


def decode(raw: bytes) -> str:
    """The text, with line ends as the parsers count them. Raises `UnreadConfig` for what is not UTF-8 text."""
    if b"\0" in raw:
        raise UnreadConfig("is a binary file, not a config")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UnreadConfig("line {line}: not UTF-8 text; save it as UTF-8", line=line) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
