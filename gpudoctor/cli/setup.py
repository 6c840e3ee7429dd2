"""`gpudoctor setup --agent NAME`: register the MCP server and the skill with a coding agent."""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.agents.agent_files import AGENTS, SCOPES
from gpudoctor.cli.output import tell
from gpudoctor.errors import UsageError
from gpudoctor.lang import say, template

if TYPE_CHECKING:
    from gpudoctor.agents.agent_files import AgentFiles

EPILOG = template("""\
examples:
  gpudoctor setup --agent claude                    .mcp.json and .claude/skills of this project
  gpudoctor setup --agent codex --scope user        ~/.codex/config.toml and ~/.agents/skills
  gpudoctor setup --agent vscode --print            what would be written; nothing is
  gpudoctor setup --agent claude --command "uvx --from './gpudoctor[mcp]' gpudoctor mcp"
Other servers, keys and comments of the settings stay as they are. Without --command the agent starts this
installation by its full path; for a project that others use, name a command that they have.""")
NAME = "gpudoctor"
_SKILL = Path(__file__).resolve().parents[1] / "agents" / "skill" / "SKILL.md"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `setup`."""
    parser.usage = "gpudoctor setup --agent AGENT [options]"
    parser.epilog = EPILOG
    parser.add_argument("--agent", choices=AGENTS, required=True, help="the coding agent")
    parser.add_argument(
        "--scope", choices=SCOPES, default="project", help="this project, or all of yours (default: project)"
    )
    parser.add_argument(
        "--command", dest="server", metavar="WORDS", help="what starts the server, as one quoted string"
    )
    parser.add_argument("--print", action="store_true", dest="show", help="print what would be written")


def run(arguments: argparse.Namespace) -> int:
    """Write or print; a file is whole or as it was."""
    from gpudoctor.agents.agent_files import files_of

    try:
        home = Path.home()
    except RuntimeError as error:
        raise UsageError("your home folder is unknown ({error}); set HOME", error=error) from error
    files = files_of(arguments.agent, arguments.scope, Path.cwd(), home, os.environ)
    old = _read(files.settings)
    new = _settings(files, old, arguments)
    skill = files.skill / NAME / "SKILL.md"
    if arguments.show:
        from gpudoctor.cli.output import show

        text = _SKILL.read_text(encoding="utf-8")
        show(f"# {files.settings}\n{new.rstrip()}\n\n# {skill}\n{text}")
        return 0
    if new != old:
        _write(files.settings, new)
    _write(skill, _SKILL.read_text(encoding="utf-8"))
    _say(say("server: {settings}", settings=files.settings))
    _say(say("skill: {skill}", skill=skill))
    _say(say("next: {note}", note=files.note))
    from importlib.util import find_spec

    if arguments.server is None and find_spec("mcp") is None:
        _say(say("the server needs the package mcp: pip install 'mcp>=2'"))
    return 0


def _read(path: Path) -> str:
    from gpudoctor.model.external_files import read_text
    from gpudoctor.model.read_limits import REPORT

    if not os.path.lexists(path):
        return ""
    try:
        return read_text(path, REPORT)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError("{path}: cannot be read: {reason}", path=path, reason=reason) from error


def _settings(files: "AgentFiles", old: str, arguments: argparse.Namespace) -> str:
    from gpudoctor.agents.settings_text import server_entry, with_json, with_toml

    toml = files.settings.suffix == ".toml"
    entry = server_entry(_command(arguments.server), typed=files.typed, toml=toml)
    return (with_toml if toml else with_json)(old, files.key, NAME, entry, str(files.settings))


def _command(named: str | None) -> list[str]:
    """What starts the server: the words given, else this installation."""
    if named is not None:
        try:
            words = shlex.split(named)
        except ValueError as error:
            raise UsageError(
                "--command {named}: cannot be split into words ({error}); check its quotes", named=named, error=error
            ) from None
        if not words:
            raise UsageError('--command is empty; name what starts the server: "gpudoctor mcp"')
        return words
    program = Path(sys.executable).with_name("gpudoctor")
    if os.access(program, os.X_OK):
        return [str(program), "mcp"]
    return [sys.executable, "-m", "gpudoctor", "mcp"]


def _write(path: Path, text: str) -> None:
    from gpudoctor.cli.output import write_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            "{parent}: cannot be made: {reason}", parent=path.parent, reason=error.strerror or error
        ) from error
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    write_file(path, text, flag="setup")
    if mode is not None:
        os.chmod(path.resolve(), mode)


def _say(text: str) -> None:

    tell("gpudoctor: {text}\n", text=text)
