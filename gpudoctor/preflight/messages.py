"""What agents and the coordinator say to each other: one JSON object a line, within bounds."""

import asyncio
import json
from typing import Any

LINE_LIMIT = 1 << 20
"""Bytes of the longest line."""
Message = dict[str, Any]
"""Keys that the reader does not know are ignored."""


class BrokenProtocol(Exception):
    """The other side does not speak the protocol; the text says what came."""


async def receive(reader: asyncio.StreamReader) -> Message | None:
    """The next message; None at the end of the connection. Raises `BrokenProtocol`."""
    try:
        line = await reader.readline()
    except ValueError as error:
        raise BrokenProtocol(f"a line of more than {LINE_LIMIT} bytes") from error
    except OSError:
        return None
    if not line:
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BrokenProtocol(f"a line that is not JSON: {line[:40]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise BrokenProtocol(f"a line that is no message: {line[:40]!r}")
    return message


def send(writer: asyncio.StreamWriter, message: Message) -> None:
    """Queue a message; a connection that is gone is noticed where it is read."""
    if not writer.is_closing():
        writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
