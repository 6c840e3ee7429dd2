"""`gpudoctor setup`: registers the server with an agent; all else in the agent's settings stays."""

import os

import pytest
import yaml
from command import gpudoctor

from gpudoctor.agents.agent_files import AGENTS

SETTINGS = {
    ("claude", "project"): "project/.mcp.json",
    ("claude", "user"): "home/.claude.json",
    ("codex", "project"): "project/.codex/config.toml",
    ("codex", "user"): "home/.codex/config.toml",
    ("cursor", "project"): "project/.cursor/mcp.json",
    ("cursor", "user"): "home/.cursor/mcp.json",
    ("vscode", "project"): "project/.vscode/mcp.json",
    ("vscode", "user"): "home/.config/Code/User/mcp.json",
}
OTHERS = """\
{
    "mcpServers": {
        "other": {
            "command": "x"
        }
    },
    "theme": "d\u00e4rk"
}
"""
TOML = 'model = "o"\n\n[mcp_servers.other]\ncommand = "y" # mine\n'


@pytest.fixture
def place(tmp_path):
    for name in ("project", "home"):
        (tmp_path / name).mkdir()
    return tmp_path


def setup(place, *words):
    return gpudoctor(
        "setup", *words, cwd=place / "project", HOME=str(place / "home"), XDG_CONFIG_HOME="", CODEX_HOME=""
    )


def files(place):
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.skipif(os.name == "nt", reason="folders of a POSIX system")
@pytest.mark.parametrize(("agent", "scope"), SETTINGS)
def test_it_writes_the_server_and_the_skill(place, agent, scope):
    printed = setup(place, "--agent", agent, "--scope", scope, "--print")
    assert printed.returncode == 0 and files(place) == {}
    assert str(place / SETTINGS[agent, scope]) in printed.stdout and "name: gpudoctor" in printed.stdout
    done = setup(place, "--agent", agent, "--scope", scope)
    assert done.returncode == 0, done.stderr
    written = files(place)
    (skill,) = [name for name in written if name.endswith("skills/gpudoctor/SKILL.md")]
    assert set(written) == {skill, SETTINGS[agent, scope]}
    text = written[SETTINGS[agent, scope]].decode()
    assert "gpudoctor" in text and '"mcp"' in text
    _, front, body = written[skill].decode().split("---\n", 2)
    assert yaml.safe_load(front).keys() == {"name", "description"} and "verify" in body
    assert files(place) == (setup(place, "--agent", agent, "--scope", scope), written)[1]  # twice is once


@pytest.mark.parametrize(
    ("agent", "name", "text"), [("claude", ".mcp.json", OTHERS), ("codex", ".codex/config.toml", TOML)]
)
def test_what_is_there_stays_to_the_letter(place, agent, name, text):
    path = place / "project" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    setup(place, "--agent", agent, "--command", "uvx --from 'gpudoctor[mcp]' gpudoctor mcp")
    changed = path.read_text()
    assert "gpudoctor[mcp]" in changed and path.stat().st_mode & 0o777 == 0o600
    assert all(line in changed for line in text.rstrip("}\n").splitlines())


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"mcpServers": []}', '{"a": 1, "a": 2}', '{"mcpServers": {}} // mine', "[" * 9000]
)
def test_settings_that_cannot_be_read_are_left(place, text):
    path = place / "project" / ".mcp.json"
    path.write_text(text)
    done = setup(place, "--agent", "claude")
    assert done.returncode == 2 and ".mcp.json" in done.stderr and "Traceback" not in done.stderr
    assert '{"mcpServers": {"gpudoctor": {"type": "stdio"' in done.stderr  # what to add by hand
    assert files(place) == {"project/.mcp.json": text.encode()}


def test_a_wrong_agent_is_named(place):
    done = setup(place, "--agent", "emacs")
    assert done.returncode == 2 and all(name in done.stderr for name in AGENTS)
