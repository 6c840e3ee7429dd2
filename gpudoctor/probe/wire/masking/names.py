"""Whether a variable, an option or a key is named like a secret, word by word.

Training is full of names that only look secret (`max_tokens`, `pad_token`, `key_padding_mask`, `sort_key`),
and a report that masks those cannot be read. So a name counts by its words and their neighbours.
"""

from __future__ import annotations

from functools import lru_cache

from .forms import Expression, listed

PLAIN, WEAK, STRONG = 0, 1, 2
"""No secret; a secret if the value looks random; a secret whatever the value."""

LONGEST = 200
"""Characters of a name that are read, its last ones."""


_WORD = Expression(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

PASSWORDS = listed("passwords")
_NOUNS = PASSWORDS | listed("nouns")
_ENDINGS = tuple(listed("endings"))
_WEAK_NOUNS = listed("weak_nouns")
_SUFFIXES = listed("suffixes")
_SETTINGS = listed("settings")
VENDORS = listed("vendors")
_OWNERS = VENDORS | listed("owners")
_ENTRIES = listed("entries")
_PLURAL_OWNERS = listed("plural_owners")
_ID_OWNERS = listed("id_owners")
_PEOPLE = listed("people")
_KINDS = listed("kinds")
_TEXTS = listed("texts")
_PLAIN_KEYS = listed("plain_keys")
_PLAIN_TOKENS = listed("plain_tokens")
_SWITCHES = listed("switches")

STEMS = Expression(
    r"auth|bearer|co(?:okie|nn|ntrasena)|cred|dsn|h(?:mac|aslo)|jwt|ke(?:y|nnwort)|otp|"
    r"p(?:a(?:ss|rol|t\b)|wd|sw|word|w\b|sk)|s(?:ecret|ig|as|ess|alt|enha|k\b)|token|w(?:ebhook|achtwoord)"
)
"""What every secret name holds, in small letters."""


def small(text: str) -> str:
    """The text in small letters, each character where it was."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_SMALL)


_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def is_secret_name(name: str) -> bool:
    """Whether a variable, option or key is named like a secret: `WANDB_API_KEY`, `--hub-token`, `apiKey`."""
    return secrecy(name) == STRONG and name.lstrip("-").upper() not in {"PWD", "OLDPWD"}


@lru_cache(maxsize=4096)
def secrecy(name: str) -> int:
    """`STRONG`, `WEAK` or `PLAIN`."""
    name = name[-LONGEST:]
    if not STEMS.search(small(name)):
        return PLAIN
    written = _WORD.findall(name[2:] if name.startswith("-D") else name)  # a property of Java's
    words = [word.lower() for word in written]
    if not words or (len(words) > 1 and words[0] in _SWITCHES):
        return PLAIN
    return max(
        _with_tail(words, at, word.isupper() and written[max(0, at - 1)].isupper()) for at, word in enumerate(written)
    )


@lru_cache(maxsize=4096)
def is_password_name(name: str) -> bool:
    """Whether the secret is one that a person may have chosen: a short word or number is one, too."""
    words = [word.lower() for word in _WORD.findall(name[-LONGEST:])]
    return any(word in PASSWORDS or word in {"pwd", "pass"} or word.endswith("password") for word in words)


def _with_tail(words: list[str], at: int, shouted: bool) -> int:
    """How secret the word at a place makes the name, with what follows it."""
    word, before, tail = words[at], words[at - 1] if at else "", words[at + 1 :]
    level = _level(word, before, shouted)
    if level == PLAIN or not tail:
        return level
    if tail == ["id"]:  # AWS_ACCESS_KEY_ID and a role's secret_id; `token_id` is a number of the vocabulary
        known = word in _NOUNS or (word == "key" and before in _ID_OWNERS)
        return level if known else PLAIN
    if word == "token" and before not in _OWNERS and tail[0] in _TEXTS:
        return PLAIN
    while tail and (tail[0].isdigit() or tail[0] in _SUFFIXES):
        tail = tail[1:]
    if not tail or any(other in _NOUNS or other in _KINDS for other in tail):
        return PLAIN if tail else level  # the later word decides
    if {tail[0], tail[-1]} & _SETTINGS:
        return PLAIN
    if VENDORS.intersection(tail):
        return level
    if word in _KINDS:
        return WEAK if before in _OWNERS else PLAIN
    return level if shouted else WEAK


def _level(word: str, before: str, shouted: bool) -> int:
    """How secret a word and the one before it are."""
    if word in _NOUNS or (len(word) > 8 and word.endswith(_ENDINGS)) or word == "pwd":
        return STRONG
    if word == "token":
        if before in _PLAIN_TOKENS:
            return PLAIN
        return STRONG if not before or shouted or before in _OWNERS else WEAK
    if word == "key" and (before in _OWNERS or shouted):
        plain = before in _PLAIN_KEYS if shouted else before in _ENTRIES
        return (PLAIN if shouted else WEAK) if plain else STRONG
    if word == "key" and before:
        return PLAIN if before in _PLAIN_KEYS | _PLAIN_TOKENS else WEAK
    if word in {"keys", "tokens"}:
        return STRONG if before in _PLURAL_OWNERS else PLAIN
    if word == "pass":  # DB_PASS, smtp_pass; not `forward_pass`
        return STRONG if before and (shouted or before in VENDORS | _PEOPLE) else PLAIN
    if word in {"pat", "sk", "pw"} and before in VENDORS | _PEOPLE:
        return STRONG
    if word == "auth" and before and shouted:
        return STRONG
    if word == "string":
        return STRONG if before in {"connection", "conn"} else PLAIN
    if word.endswith(("token", "key")) and word[: -5 if word.endswith("token") else -3] in _OWNERS:
        return STRONG
    return WEAK if word in _WEAK_NOUNS else PLAIN
