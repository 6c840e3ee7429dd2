"""A message in the reader's language: the translated template, filled with the translated parts."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from string import Formatter
from typing import Any

from gpudoctor.lang.choice import ENGLISH, current_language
from gpudoctor.lang.message import Message, capital, plain_template, say, term

NOTHING = "∅"
"""The translation of a crumb of English grammar that another language does without."""
_WORDS = r"[A-Za-z]"
_LIST = r"(?:\{item\d+\}(?:, )?)+"
_ROW = r"\{item1\}(?P<separator> [a-z]+ )\{item2\}(?:(?P=separator)\{item\d+\})*"
_ASIDE = r" \((\{[^()]*\})\)"
"""Parts in brackets behind another part."""
_STOP = r"(?<=\})\.(?=\{)"
"""A full stop between two parts of a template without words of its own."""
_FIELD = r"\{\w+(?:![rsa])?(?::[^{}]*)?\}"
_WIDE = "[\u2e80-\u303f\u3400-\u9fff\uf900-\ufaff\uff00-\uff60]"
"""CJK characters and full-width punctuation."""
_IDEOGRAPH = "[\u3400-\u9fff\uf900-\ufaff]"
_NARROW = r"[A-Za-z0-9`'\"$%&/\\<(\[{~+#=@_.·-]"
_LETTER = r"[\w)\]`'\"%>}/+=·-]"
"""What takes a blank before an ideograph, as `_NARROW` does behind one."""
_PUNCTUATION = {", ": "，", "; ": "；", ": ": "：", ". ": "。", "! ": "！", "? ": "？"}


def rendered(text: str, language: str | None = None) -> str:
    """The text in a language, that of now unless one is given.

    What has no translation stays in English. A plain text is a template without parts: one of several words is
    translated too if it is in the catalogue as it is.
    """
    chosen = language or current_language()
    if chosen == ENGLISH:
        return str(text)
    return _Renderer(chosen).text(text)


def tr(template: str, /, **parts: object) -> str:
    """A text of the surface (a head, a label, a line of help) in the language of now.

    As in `say`, the template is a literal.
    """
    return rendered(say(template, **parts))


class _Renderer:
    """Renders messages in one language other than English."""

    def __init__(self, language: str) -> None:
        from gpudoctor.lang.catalogue import translation  # English readers do without it

        self._translation = partial(translation, language=language)

    def text(self, text: str) -> str:
        """A message, or a plain text."""
        if isinstance(text, Message):
            return self.message(text)
        found = self._translation(plain_template(text)) if " " in text else None
        return text if found is None else found.replace("{{", "{").replace("}}", "}")

    def message(self, message: Message) -> str:
        """The message; in English where its template is not in the catalogue."""
        template = self._template(message.template)
        if template is None:
            return str(message)
        try:
            text = "" if template == NOTHING else _joined(self._pieces(template, message.parts))
        except (KeyError, ValueError, IndexError, AttributeError):
            return str(message)  # a faulty catalogue of somebody's: the report must come all the same
        # a Chinese sentence may begin with a term, which stays as it is
        return capital(text) if message.form and text.isascii() else text

    def _template(self, template: str) -> str | None:
        if row := re.fullmatch(_ROW, template):
            separator = self._translation(row["separator"])
            return separator and template.replace(row["separator"], separator)
        if re.search(_WORDS, re.sub(_FIELD, "", template)):
            return self._translation(template)
        if re.fullmatch(_LIST, template):
            return template.replace(", ", "、")
        template = re.sub(_STOP, "\u3002", template)
        template = re.sub(_ASIDE, "\uff08\\1\uff09", template)
        for narrow, wide in _PUNCTUATION.items():
            template = template.replace(narrow, wide)
        return template[:-1] + "。" if template.endswith(".") else template

    def _pieces(self, template: str, parts: Mapping[str, Any]) -> Iterator[str]:
        for literal, field, spec, conversion in Formatter().parse(template):
            yield literal
            if field is not None:
                yield self._value(parts[field], spec or "", conversion)

    def _value(self, part: Any, spec: str, conversion: str | None) -> str:
        if isinstance(part, str):
            part = self.text(part)
        if conversion:
            part = repr(part) if conversion == "r" else str(part)
        return format(part, spec)


def _joined(pieces: Iterator[str]) -> str:
    """Pieces in a row; between them, ideographs and Latin letters get a blank, and two ideographs none.

    Only joints are changed: what stands inside a part, a path for instance, is left alone.
    """
    text = ""
    for piece in filter(None, pieces):
        left, right = text.rstrip(" "), piece.lstrip(" ")
        before, after = left[-1:], right[:1]
        if not left or not right:
            text += piece
        elif re.match(_WIDE, before) and re.match(_WIDE, after):
            text = left + right
        elif (re.match(_IDEOGRAPH, before) and re.match(_NARROW, after)) or (
            re.match(_LETTER, before) and re.match(_IDEOGRAPH, after)
        ):
            text = f"{left} {right}"
        elif re.match(_WIDE, before) or re.match(_WIDE, after):
            text = left + right  # full-width punctuation brings its own room
        else:
            text += piece
    return text


def word(text: str) -> str:
    """A word of a closed list (a severity, a section's heading), in the language of now: see `term`."""
    return rendered(term(text))


def page_text(code: str, language: str) -> str | None:
    """A check's manual page in a language, in the shape of its docstring; None where there is none."""
    if language == ENGLISH:
        return None
    from gpudoctor.lang.catalogue import page_text as translated

    return translated(code, language)
