"""Serves the toolbox over the official `mcp` package."""

from collections.abc import Awaitable, Callable
from typing import Any

from gpudoctor import __version__
from gpudoctor.agents.child_command import Note
from gpudoctor.agents.short_answer import text_of
from gpudoctor.agents.tool_table import INSTRUCTIONS, TOOLS
from gpudoctor.agents.toolbox import Toolbox, error_answer
from gpudoctor.errors import DoctorError

NAME = "gpudoctor"


def serve() -> None:
    """Serve on standard input and output until the agent closes them."""
    import anyio

    anyio.run(_serve)


async def _serve() -> None:
    from mcp.server.stdio import stdio_server

    toolbox = Toolbox()
    try:
        server = _server(toolbox)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        toolbox.close()


async def _called(toolbox: Toolbox, name: str, arguments: object, note: Note) -> tuple[str, bool]:
    """The text of an answer, and whether it is an error: whatever happens, the agent reads a sentence."""
    wrong = False
    try:
        answer = await toolbox.call(name, arguments, note)
    except DoctorError as error:
        answer, wrong = error_answer(error), True
    except Exception as error:  # noqa: BLE001  # the session goes on
        fault = f"internal error: {type(error).__name__}: {error}. This is a bug in gpudoctor; please report it"
        answer, wrong = {"error": fault}, True
    return text_of(answer), wrong


def _server(toolbox: Toolbox) -> Any:
    from mcp import types
    from mcp.server.lowlevel import Server

    async def list_tools(_context: Any, _params: Any) -> Any:
        return types.ListToolsResult.model_validate({"tools": [*TOOLS.values()]})

    async def call_tool(context: Any, params: Any) -> Any:
        text, wrong = await _called(toolbox, params.name, params.arguments, _rising(context.session.report_progress))
        content = [{"type": "text", "text": text}]
        return types.CallToolResult.model_validate({"content": content, "isError": wrong})

    made: Any = Server  # its type says less than it takes
    return made(NAME, version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)


def _rising(send: Callable[[float, float | None, str], Awaitable[None]]) -> Note:
    """Progress never falls and never passes its total: a command may take longer than expected."""

    async def note(passed: float, expected: float | None, text: str) -> None:
        total = max(expected, passed) if expected else None
        await send(round(passed, 1), round(total, 1) if total else None, text)

    return note
