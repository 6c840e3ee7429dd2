"""An agent: the official client of the Model Context Protocol, over the pipes of a server of its own."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from forks import FORKS_TRAININGS
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


@dataclass(frozen=True)
class Answer:
    """What the agent reads of one call."""

    found: dict[str, Any]
    wrong: bool
    size: int


@dataclass
class Agent:
    """A session of an agent."""

    session: ClientSession
    portal: BlockingPortal

    def tools(self) -> list[Any]:
        return list(self.portal.call(self.session.list_tools).tools)

    def call(self, tool: str, note: Callable[[float, str], None] | None = None, **arguments: Any) -> Answer:
        return self.portal.call(self._call, tool, arguments, note)

    def start(self, tool: str, note: Callable[[float, str], None] | None = None, **arguments: Any) -> Any:
        """A call under way: a future, whose `cancel` cancels the call."""
        return self.portal.start_task_soon(self._call, tool, arguments, note)

    async def _call(self, tool: str, arguments: Mapping[str, Any], note: Callable[[float, str], None] | None) -> Answer:
        async def told(progress: float, _total: float | None, message: str | None) -> None:
            if note is not None:
                note(progress, message or "")

        done = await self.session.call_tool(tool, dict(arguments), progress_callback=told)
        text = "".join(part.text for part in done.content)
        wrong = done.is_error if hasattr(done, "is_error") else done.isError
        return Answer(json.loads(text), bool(wrong), len(text))


@contextmanager
def agent(folder: Path, *, forks: bool = False, **variables: str) -> Iterator[Agent]:
    """An agent in a project's folder, with a server of its own; `forks`: its commands are forked (zygote_server.py)."""
    environment = {**os.environ, **variables}
    program = ["-m", "gpudoctor"]
    if forks and FORKS_TRAININGS:
        program = [str(Path(__file__).with_name("zygote_server.py"))]
    server = StdioServerParameters(command=sys.executable, args=[*program, "mcp"], cwd=str(folder), env=environment)

    @asynccontextmanager
    async def opened():
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield session

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened()) as session:
        yield Agent(session, portal)


def marked(word: str) -> list[int]:
    """Processes with a word in their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if word.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
    return found
