"""Where each coding agent keeps its servers and skills. Sources are named beside each."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SCOPES = ("project", "user")
_FILES = {
    # code.claude.com/docs/en/mcp
    "claude": (".mcp.json", ".claude.json", ".claude/skills", ".claude/skills", "mcpServers"),
    # developers.openai.com/codex/mcp: a project's settings are read once it is trusted
    "codex": (".codex/config.toml", ".codex/config.toml", ".agents/skills", ".agents/skills", "mcp_servers"),
    # cursor.com/docs/mcp
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", ".cursor/skills", ".cursor/skills", "mcpServers"),
    # code.visualstudio.com/docs/agents/reference/mcp-configuration
    "vscode": (".vscode/mcp.json", "mcp.json", ".github/skills", ".copilot/skills", "servers"),
}
"""Settings of a project and of a user, skills of both, and the object or table that holds the servers."""
_NEXT = {
    "claude": "start claude in the project and type /mcp to see the server",
    "codex": "start codex and type /mcp to see the server",
    "cursor": "switch the server on in Cursor's settings, under MCP",
    "vscode": "open the file in VS Code and press Start above the server",
}
AGENTS = tuple(_FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFiles:
    """Files of one agent in one scope."""

    settings: Path
    """The file that lists its servers."""
    key: str
    """The object or table of that file that holds them."""
    typed: bool
    """Whether an entry has `"type": "stdio"`."""
    skill: Path
    note: str
    """What the user does next."""


def files_of(agent: str, scope: str, folder: Path, home: Path, variables: Mapping[str, str]) -> AgentFiles:
    """The files of an agent."""
    ours, own, our_skills, own_skills, key = _FILES[agent]
    project = scope == "project"
    settings, note = folder / ours if project else home / own, _NEXT[agent]
    if agent == "codex" and project:
        note = "start codex and type /mcp; it reads a project's settings once you trust the project"
    elif agent == "codex" and variables.get("CODEX_HOME"):
        settings = Path(variables["CODEX_HOME"]) / "config.toml"
    elif agent == "vscode" and not project:
        base = variables.get("XDG_CONFIG_HOME", "")
        settings = (Path(base) if os.path.isabs(base) else home / ".config") / "Code/User" / own
    return AgentFiles(
        settings=settings, key=key, typed=agent != "codex", note=note,
        skill=folder / our_skills if project else home / own_skills,
    )  # fmt: skip
