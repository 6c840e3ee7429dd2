"""Languages: messages as templates with named parts, and the catalogues that translate them.

English is the language of the source. A text for people is made by `say`, and is a `str` like any other. Only
at the door, where a report or a page is shown, `rendered` gives it in the reader's language. An English reader
loads no catalogue. Standard library only: every layer but the probe may use it. docs/translating.md is the
guide.
"""

from gpudoctor.lang.choice import ENGLISH, LANGUAGES, current_language, language_for, speaking
from gpudoctor.lang.message import Message, SpokenError, say, template, template_id, term
from gpudoctor.lang.rendering import page_text, rendered, tr, word

__all__ = [
    "ENGLISH", "LANGUAGES", "Message", "SpokenError", "current_language", "language_for", "page_text", "rendered",
    "say", "speaking", "template", "template_id", "term", "tr", "word",
]  # fmt: skip
