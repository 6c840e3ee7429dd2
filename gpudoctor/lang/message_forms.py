"""What a message can be shaped into after it was filled in, in each language."""

from collections.abc import Callable, Mapping

_FULL_STOPS = "。.！？!?"


def first_sentence(text: str, language: str) -> str:
    """The first sentence, without its full stop."""
    head = text.partition("。")[0] if language == "zh" else text
    return head.partition(". ")[0].rstrip(".")


def first_clause(text: str, language: str) -> str:
    """What stands before the first semicolon, without a full stop."""
    head = text.partition("；")[0] if language == "zh" else text
    return head.partition(";")[0].rstrip("。.")


def without_stop(text: str, language: str) -> str:
    """The text without a full stop at its end."""
    return text.rstrip("。." if language == "zh" else ".")


def with_stop(text: str, language: str) -> str:
    """The text with a full stop at its end, unless it ends a sentence already."""
    if text.endswith((*_FULL_STOPS, "...")):
        return text
    return text + ("。" if language == "zh" else ".")


def capitalised(text: str, language: str) -> str:
    """The text with a capital first letter; a Chinese sentence may begin with a term, which stays as it is."""
    return text if language == "zh" and not text.isascii() else text[:1].upper() + text[1:]


FORMS: Mapping[str, Callable[[str, str], str]] = {
    form.__name__: form for form in (first_sentence, first_clause, without_stop, with_stop, capitalised)
}
"""By name; each gets a text and the language that it is in."""
