"""Where each coding agent keeps its servers and skills. Sources are named beside each."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SCOPES = ("project", "user")


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


def _claude(scope: str, folder: Path, home: Path, _variables: Mapping[str, str]) -> AgentFiles:
    # code.claude.com/docs/en/mcp: .mcp.json in the project, ~/.claude.json for the user
    project = scope == "project"
    return AgentFiles(
        settings=folder / ".mcp.json" if project else home / ".claude.json",
        key="mcpServers",
        typed=True,
        skill=(folder if project else home) / ".claude" / "skills",
        note="start claude in the project and type /mcp to see the server",
    )


def _codex(scope: str, folder: Path, home: Path, variables: Mapping[str, str]) -> AgentFiles:
    # developers.openai.com/codex/mcp: [mcp_servers.NAME] in config.toml; a project's is read once it is trusted
    chosen = variables.get("CODEX_HOME")
    own = Path(chosen) if chosen else home / ".codex"
    project = scope == "project"
    return AgentFiles(
        settings=(folder / ".codex" if project else own) / "config.toml",
        key="mcp_servers",
        typed=False,
        skill=(folder if project else home) / ".agents" / "skills",
        note="start codex and type /mcp; it reads a project's settings once you trust the project"
        if project
        else "start codex and type /mcp to see the server",
    )


def _cursor(scope: str, folder: Path, home: Path, _variables: Mapping[str, str]) -> AgentFiles:
    # cursor.com/docs/mcp: .cursor/mcp.json in the project or the home folder
    place = (folder if scope == "project" else home) / ".cursor"
    return AgentFiles(
        settings=place / "mcp.json",
        key="mcpServers",
        typed=True,
        skill=place / "skills",
        note="switch the server on in Cursor's settings, under MCP",
    )


def _vscode(scope: str, folder: Path, home: Path, variables: Mapping[str, str]) -> AgentFiles:
    # code.visualstudio.com/docs/agents/reference/mcp-configuration: "servers" of the workspace or the profile
    project = scope == "project"
    return AgentFiles(
        settings=folder / ".vscode" / "mcp.json" if project else _vscode_profile(home, variables) / "mcp.json",
        key="servers",
        typed=True,
        skill=folder / ".github" / "skills" if project else home / ".copilot" / "skills",
        note="open the file in VS Code and press Start above the server",
    )


def _vscode_profile(home: Path, variables: Mapping[str, str]) -> Path:
    if sys.platform == "win32":
        return Path(variables.get("APPDATA") or home / "AppData" / "Roaming") / "Code" / "User"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "Code" / "User"
    base = variables.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else home / ".config") / "Code" / "User"


_AGENTS = {"claude": _claude, "codex": _codex, "cursor": _cursor, "vscode": _vscode}
AGENTS = tuple(_AGENTS)


def files_of(agent: str, scope: str, folder: Path, home: Path, variables: Mapping[str, str]) -> AgentFiles:
    """The files of an agent."""
    return _AGENTS[agent](scope, folder, home, variables)
