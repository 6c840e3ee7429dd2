"""A text that remembers its template and its parts, so that it can be said in another language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TypeAlias

Part: TypeAlias = "str | int | float"
"""What stands in a template's place: a text (perhaps a message itself) or a number."""
CAPITALISED = "capitalised"
_OPTION = re.compile(r"\[([^\[\]]*)\]")
_ROW = re.compile(r"\{([A-Za-z_]\w*)\}|[{}]")


class Message(str):
    """The English text; `template` and `parts` are what it was made of.

    Equal to, and hashed as, its text. Operations of `str` give plain text; `+` and the helpers of
    `gpudoctor.text` keep it a message.
    """

    __slots__ = ("form", "parts", "template")

    template: str
    """In the form of `str.format`, every field has a name: the key of its translation."""
    parts: Mapping[str, Part]
    form: str
    """How the filled template was shaped: `CAPITALISED`, or ""."""

    def __new__(cls, text: str, template: str, parts: Mapping[str, Part], form: str = "") -> Message:
        """A message whose English text is given: where the plural or a form makes it differ from the template."""
        made = super().__new__(cls, text)
        made.template, made.parts, made.form = template, parts, form
        return made

    def __reduce__(self) -> tuple[type[Message], tuple[str, str, Mapping[str, Part], str]]:
        return Message, (str(self), self.template, dict(self.parts), self.form)

    def __add__(self, other: str) -> Message:
        return row("", (self, other))

    def __radd__(self, other: str) -> Message:
        return row("", (other, self))

    def mapped(self, change: Callable[[str], str]) -> Message:
        """The message with its text and each text among its parts changed: masking, removal of control codes.

        `change` gets plain strings only.
        """
        parts = {
            name: part.mapped(change) if isinstance(part, Message) else change(part) if isinstance(part, str) else part
            for name, part in self.parts.items()
        }
        return Message(change(str(self)), self.template, parts, self.form)


def say(template: str, /, **parts: object) -> str:
    """The message of a template and its parts: `say("{loader} waits {share} of the time", loader=..., share=...)`.

    The template is a literal, or marked as a `template`, so that `gpudoctor.lang.extract` finds it. A brace is
    written twice. A part that is neither a text nor a number is taken as `str` gives it.
    """
    kept = {name: part if isinstance(part, str | int | float) else str(part) for name, part in parts.items()}
    return Message(template.format(**parts), template, kept)


def template(text: str) -> str:
    """The text itself: a mark for `gpudoctor.lang.extract`, on a template in a table that `say` fills."""
    return text


def term(text: str) -> str:
    """A word of a closed list (a severity, a phase) as a message.

    Its members are listed in `gpudoctor.lang.vocabulary`, or marked as a `template`.
    """
    return text if isinstance(text, Message) else Message(text, plain_template(text), {})


def plain_template(text: str) -> str:
    """The template of a text without parts: braces written twice."""
    return text.replace("{", "{{").replace("}", "}}")


def row_template(text: str) -> str:
    """The template of a row of advice, in which `{word}` is a field and every other brace is itself."""
    return _ROW.sub(lambda found: found[0] if found[1] else found[0] * 2, text)


def optional_template(text: str) -> tuple[str, tuple[str, ...]]:
    """A text whose parts in square brackets may be left out, as a template and the templates of those parts.

    `"full[: {file}]."` is `"full{option1}."` and `": {file}"`.
    """
    options = tuple(_OPTION.findall(text))
    numbers = count(1)
    return _OPTION.sub(lambda _: f"{{option{next(numbers)}}}", text), options


def concatenated(separator: str, items: Iterable[str]) -> str:
    """`separator.join(items)` that stays a message if one of the items is one."""
    every = tuple(items)
    if not any(isinstance(item, Message) for item in (separator, *every)):
        return separator.join(every)
    return row(separator, every)


def capital(text: str) -> str:
    """The text with a capital first letter; what follows stays as it is. Of a message, `capitalised` keeps one."""
    return text[:1].upper() + text[1:]


class SpokenError(Exception):
    """An error whose text people read: a message, or a template with its parts. `str` of it stays a message."""

    def __init__(self, *texts: object, **parts: object) -> None:
        super().__init__(*((say(str(texts[0]), **parts),) if parts else texts))

    def __str__(self) -> str:
        text = self.args[0] if len(self.args) == 1 else None
        return text if isinstance(text, Message) else super().__str__()


def without(text: str, clause: str) -> str:
    """The text without one of its clauses, which is still a message if the text is one."""
    plain = str(text).replace(clause, "").replace("  ", " ").strip()
    if not isinstance(text, Message):
        return plain
    parts = {
        name: "" if part == clause else without(part, clause) if isinstance(part, Message) else part
        for name, part in text.parts.items()
    }
    return Message(plain, text.template, parts, text.form)


def template_id(template: str) -> str:
    """A short stable name of a template: ten hexadecimal digits of its SHA-256."""
    import hashlib  # for JSON only

    return hashlib.sha256(template.encode()).hexdigest()[:10]


def row(separator: str, items: Iterable[str]) -> Message:
    """Items in a row; the template has no words of its own."""
    parts = {f"item{place}": item for place, item in enumerate(items, 1)}
    text = str(separator).join(map(str, parts.values()))
    return Message(text, plain_template(separator).join(f"{{{name}}}" for name in parts), parts)
