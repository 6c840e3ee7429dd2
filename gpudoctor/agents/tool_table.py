"""The tools of the MCP server, as tools.toml describes them to an agent."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """One tool."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()
    read_only: bool = True
    """Whether it changes nothing outside the state folder of gpudoctor."""
    measures: bool = False
    """Whether it loads the machine: two at once would spoil each other's numbers."""
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def as_object(self) -> dict[str, Any]:
        """The tool as the protocol lists it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": {
                "title": self.title, "readOnlyHint": self.read_only, "openWorldHint": False, **self.hints,
            },
        }  # fmt: skip


_DATA = tomllib.loads(files("gpudoctor.agents").joinpath("tools.toml").read_text("utf-8"))
INSTRUCTIONS: str = _DATA["instructions"]
BY_NAME: dict[str, AgentTool] = {}
for _tool in _DATA["tools"]:
    _shared = {
        name: _DATA["arguments"][name] if rule is True else rule for name, rule in _tool.pop("properties").items()
    }
    BY_NAME[_tool["name"]] = AgentTool(properties=_shared, **_tool)
