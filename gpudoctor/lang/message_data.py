"""Messages as plain data, and back: what JSON keeps of a text, so that other languages can be made from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpudoctor.lang.message import CAPITALISED, Message, Part, template_id


def template_object(text: str) -> dict[str, Any] | None:
    """Id, template and parts of a message; null for a text without parts, which is its own template."""
    if not isinstance(text, Message):
        return None
    shape = {"form": text.form} if text.form else {}
    # As JSON has them: null where a number is not finite.
    numbers = {name: None for name, part in text.parts.items() if isinstance(part, float) and not math.isfinite(part)}
    parts = {name: template_object(part) if isinstance(part, Message) else part for name, part in text.parts.items()}
    return {"id": template_id(text.template), "text": text.template, "parts": {**parts, **numbers}, **shape}


def message_of(text: str, data: object) -> str:
    """The message of an English text and its `template_object`; the text alone if those are something else."""
    if not isinstance(data, Mapping):
        return text
    template, parts, form = data.get("text"), data.get("parts"), data.get("form", "")
    if not isinstance(template, str) or not isinstance(parts, Mapping) or form not in ("", CAPITALISED):
        return text
    return Message(text, template, {str(name): _part(part) for name, part in parts.items()}, form)


def _part(data: object) -> Part:
    if isinstance(data, str | int | float):
        return data
    return message_of(str(data.get("text", "")), data) if isinstance(data, Mapping) else "?"
