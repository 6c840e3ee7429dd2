"""The tools of the MCP server, as tools.toml describes them to an agent."""

from typing import Any

from gpudoctor.model.message_files import read_table

_DATA = read_table("gpudoctor.agents", "tools.toml")
INSTRUCTIONS: str = _DATA["instructions"]
MEASURING = frozenset(row["name"] for row in _DATA["tools"] if row.get("measures"))
"""Tools that load the machine: two at once would spoil each other's numbers."""


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    """A tool as the protocol lists it; one that says nothing else changes nothing outside gpudoctor's state folder."""
    shared, hints = _DATA["arguments"], {"readOnlyHint": row.get("read_only", True), "openWorldHint": False}
    return {
        **{key: row[key] for key in ("name", "title", "description")},
        "inputSchema": {
            "type": "object",
            "properties": {name: shared[name] if rule is True else rule for name, rule in row["properties"].items()},
            "required": row.get("required", []),
            "additionalProperties": False,
        },
        "annotations": {"title": row["title"], **hints, **row.get("hints", {})},
    }


TOOLS = {row["name"]: _listed(row) for row in _DATA["tools"]}
"""By name."""
