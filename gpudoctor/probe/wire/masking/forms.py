"""Credentials that show by their form: what an issuer gave a prefix, key blocks, random words, addresses.

The forms are those that detect-secrets, gitleaks and trufflehog look for. Every expression is linear: a run of
one class of characters, and what may begin one is known before it is read.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from binascii import Error
from typing import Any, Callable

# Expressions that are compiled at their first use: most texts need few of them, and a start must be quick.


class Expression:
    """A compiled expression, in time: `Expression(r"[a-z]+").match(text)`."""

    sub: Callable[..., str]

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern)
        for method in ("match", "fullmatch", "search", "finditer", "findall", "sub"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


with open(os.path.join(os.path.dirname(__file__), "words.json"), encoding="utf-8") as _file:
    _LISTS: dict[str, dict[str, Any]] = json.load(_file)


def listed(name: str) -> frozenset[str]:
    """The words of a list of words.json, which says of each list what its words are."""
    return frozenset(" ".join(_LISTS[name]["words"]).split())


MASK = "***"
"""What stands where a secret stood."""

_PLAINLY = listed("plainly")
_DASHED = listed("dashed")
_DOUBTFUL = listed("doubtful")

_LEAST = 16
"""Characters behind a prefix."""

_AWS = r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{12,}"
_WHOLE = (
    # Discord and Telegram bots, Airtable, Terraform, Twilio, Mailchimp, Square, Azure, Mapbox, HubSpot, hashes
    r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}",
    r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}",
    r"(?:SK|AC)[0-9a-f]{32}(?![0-9a-f])",
    r"[0-9a-f]{32}-us[0-9]{1,2}(?![0-9])",
    r"sq0[a-z]{3}-[A-Za-z0-9_-]{20,}",
    r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
    r"[sp]k\.eyJ[A-Za-z0-9_.-]{20,}",
    r"pat-(?:na|eu)1-[0-9a-f-]{36}",
    _AWS,
)
_LEFT = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbfv])|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9;\[]m))"
"""Where a word begins: also behind an escape in quoted text, in a URL or of a terminal."""


def _issued() -> str:
    """Prefixes with what follows each: `p` plain, `d` with dots and dashes."""
    kinds = ("p", _PLAINLY - _DASHED, "[A-Za-z0-9]"), ("d", _DASHED, "[A-Za-z0-9_.=-]")
    found = [
        rf"(?P<{kind}>{'|'.join(map(re.escape, sorted(prefixes, key=len, reverse=True)))})(?P<{kind}run>{what}+)"
        for kind, prefixes, what in kinds
    ]
    return rf"{_LEFT}(?:{'|'.join(found)})[A-Za-z0-9_=-]*"


_ISSUED = Expression(_issued())
_WHOLES = Expression(rf"(?=[A-Za-z0-9_~]){_LEFT}(?:{'|'.join(_WHOLE)})")
_TURN = Expression(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[0-9]|(?<=[0-9])[A-Za-z]")
_READ = 64
"""Characters of a word that are judged."""


def turns(word: str) -> float:
    """How often the class of a word's characters changes: 0.4 a character in random ones, 0.1 in CamelCase."""
    head = word[:_READ]
    return len(_TURN.findall(head)) / len(head) if head else 0.0


def is_uuid(word: str) -> bool:
    """Whether a word is a UUID: most are names of runs, and some services use them as keys."""
    return len(word) == 36 and bool(_TELLING.fullmatch(word)) and word.count("-") == 4


def looks_random(word: str, least: int = 16) -> bool:
    """Whether a word may be a key: long, letters and digits mixed; not a number, a date, a path or a UUID."""
    if len(word) < least or not _LETTER.search(word) or not _DIGIT.search(word) or _TELLING.fullmatch(word):
        return False
    if word.count("/") > 1 + len(word) // 16 or word.count(".") > 3 or _FILE.search(word):
        return False
    return turns(word) >= 0.15


_LETTER, _DIGIT = Expression("[A-Za-z]"), Expression("[0-9]")
_TELLING = Expression(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]{1,16}|[0-9TZ.,:e+_-]+")
_FILE = Expression(r"\.(?:py|json|ya?ml|toml|txt|csv|log|pt|pth|ckpt|bin|safetensors|pem|key|env|sh|md|cfg|ini)$")

_RUN = Expression(r"[A-Za-z0-9+/_-]{28,}={0,2}")
_HEX = Expression(r"(?<![0-9A-Za-z/@])[0-9a-f]{40}(?![0-9A-Za-z])")
_NOT_KEYS = Expression(r"(?i)commit|revision|\brev\b|\bsha|\bgit|hash|snapshot|digest|checkpoint|model|artifact")
_LABEL = Expression(r"(?i)(?:(?<![a-z0-9])(?:wandb|api)|wandb[^\0]{0,200}\n[ \t]{0,40}[\"']?key)\Z")
"""Names that make a word of 40 hexadecimal digits a key: with other names it is a commit as often."""
_BETWEEN = Expression(r"[\"'\])]{0,2}[ \t]{0,4}[:=,]?[ \t]{0,4}[\"']?\Z")
_BEFORE = 240
"""Characters before such a word that are read for its name."""
_LABELLED = Expression(r"([A-Za-z]{2,12}[_-])([A-Za-z0-9]{24,})")


def mask_forms(text: str) -> str:
    """The text without what shows by its own form that it is a credential."""
    if "-----" in text and "PRIVATE" in text:
        text = _TAIL.sub(MASK, _BLOCK.sub(rf"\1{MASK}", text))
    if _LONG.search(text) is None:
        return text
    text = mask_tokens(text)
    if "wandb" in text or "WANDB" in text:
        text = "".join(map(_without_hex, text.splitlines(keepends=True)))
    if _HEX.search(text) is not None:
        text = _HEX.sub(_without_named_hex, text)
    if "$" in text:
        text = _CRYPT.sub(MASK, text)
    return _RUN.sub(_last_resort, text)


def mask_tokens(text: str) -> str:
    """The text without credentials that an issuer gave a form: of JSON, it stays JSON."""
    return _WHOLES.sub(MASK, _ISSUED.sub(_of_issuer, text))


_LONG = Expression(r"[A-Za-z0-9_.~+/=:$-]{12}")
_CRYPT = Expression(r"\$(?:2[abxy]|apr1|argon2id?|argon2i|scrypt|pbkdf2-sha256|[156y])\$[./A-Za-z0-9$=,+]{20,}")
"""Hashes of passwords, as in a shadow file."""


def _of_issuer(found: re.Match[str]) -> str:
    prefix, run = (found["p"], found["prun"]) if found["p"] else (found["d"], found["drun"])
    head = run[:_READ]
    doubtful = prefix in _DOUBTFUL
    if not (_is_key(head, 8 if prefix == "hf_" else _LEAST) if doubtful else len(head) >= _LEAST):
        return found[0]
    return MASK + found[0][len(found[0].rstrip(".-=")) :]


def _is_key(word: str, least: int) -> bool:
    if len(word) >= 20 and word.isalnum():
        # Hugging Face's are letters alone; no word that a person writes is so long in one piece.
        return bool(_DIGIT.search(word)) or len(word) >= 28
    return len(word) >= least and len(_DIGIT.findall(word)) >= 2 and turns(word) >= 0.12


def _without_hex(line: str) -> str:
    """A line that speaks of wandb without words of 40 hexadecimal digits, unless they are a commit's."""
    if "wandb" not in line.lower() or _NOT_KEYS.search(line):
        return line
    return _HEX.sub(MASK, line)


def is_hex_key(name: str, word: str) -> bool:
    """Whether 40 hexadecimal digits are a key by the name before them: `--wandb`, `api`, not `--revision`."""
    return len(word) == 40 and _HEX.match(word) is not None and _LABEL.search(name[-_BEFORE:]) is not None


def _without_named_hex(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - _BEFORE) : found.start()]
    between = _BETWEEN.search(before)
    name = before[: between.start()] if between is not None else before
    return MASK if name != before and is_hex_key(name, found[0]) else found[0]


def _last_resort(found: re.Match[str]) -> str:
    """A long word that only chance can have made."""
    word = found[0]
    if found.string[found.start() - 1 : found.start()] == "\\" and word[0] in "nrt":  # an escape, not a letter
        return word[0] + _without_chance(word[1:])
    return _without_chance(word)


def _without_chance(word: str) -> str:
    labelled = _LABELLED.fullmatch(word)
    if labelled is not None and _by_chance(labelled[2]):
        return str(labelled[1]) + MASK
    if len(word) < 40:
        return word
    if len(word) == 40 and _by_chance(word):  # a secret key of AWS, which may hold slashes
        return MASK
    return "/".join(MASK if len(part) >= 40 and _by_chance(part) else part for part in word.split("/"))


_MANGLED = Expression(r"_Z(?:N[KVr]?|T[VTIS]N?)?(?:S[tab])?\d{1,3}[A-Za-z_]")
"""How the name of a C++ function begins in a library: the length of a word, and the word."""


def _by_chance(word: str) -> bool:
    if _MANGLED.match(word):
        return False
    head = word[:_READ]
    mixed = any(map(str.islower, head)) and any(map(str.isupper, head)) and any(map(str.isdigit, head))
    others = sum(not character.isalnum() for character in head)
    longest = max(map(len, head.split("/")))
    return mixed and others <= len(head) // 10 and longest >= 16 and turns(head) >= 0.2


_BLOCK = Expression(r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE[A-Z0-9 ]{0,40}-----)(?:[\s\S]*?(?=-----END )|[\s\S]*)")
"""A private key in PEM; of one whose end is cut off all that follows."""
_TAIL = Expression(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/=]+(?=\s{0,4}-----END)")


def is_basic(word: str) -> bool:
    """Whether a word is a name and a password in base64, as `Authorization: Basic` has them."""
    try:
        decoded = b64decode(word + "=" * (-len(word) % 4), validate=True)
        return b":" in decoded and decoded.decode().isprintable()
    except (Error, ValueError):
        return False


# Credentials in addresses: before the host of a URL, behind a webhook's, and in the headers of a request.

_USER = Expression(
    r"://(?:([^/?#\s\"'<>`|\\]{0,1000})|([^:/?#\s\"'<>`|\\\[]{0,60}):([^?\s\"'<>`|\\:]{1,200}[/#][^?\s\"'<>`|\\:]{0,200}))@"
)
"""Before the host of a URL; a password with a slash in it, too: `://user:pa/ss@host`."""
_HOOK = Expression(
    r"(?i)(://[^/\s\"'<>]{0,100}/(?:[^/\s\"'<>?#]{1,60}/){0,6}?(?:hooks?|webhooks?|webhookb2|services|workflows|"
    r"triggers?|catch|key|bot(?=[0-9]{6}))/?)([^\s\"'<>?#]{8,1000})"
)
_HOOK_HOSTS = Expression(r"(?i)hook|discord|slack|office\.com|api\.telegram|ifttt|hc-ping|pipedream|mattermost")
_BARE = Expression(
    r"(?<![A-Za-z0-9._@:/%+-])([A-Za-z_][A-Za-z0-9_.-]{0,40}):([^\s:@/\"'<>,;(){}\[\]]{6,100})@"
    r"(?=[A-Za-z0-9-]{1,60}(?:\.[A-Za-z0-9]|:\d|/)|localhost)"
)
_SCHEME = Expression(
    r"(?i)(?<![A-Za-z0-9_-])(bearer|basic|negotiate|apikey|token)([ \t]{1,4}|%20|\+)(?!\*{3})"
    r"([A-Za-z0-9._~+/=:-]{8,})"
)


def mask_addresses(text: str) -> str:
    """The text without users and passwords of URLs and of `user:password@host`, and keys of webhooks."""
    if "://" in text:
        text = _USER.sub(_user, text)
        text = _HOOK.sub(_hook, text)
    return _BARE.sub(_bare, text) if "@" in text else text


def mask_schemes(text: str) -> str:
    """`Bearer`, `Basic` and the like without what follows, where that looks like a credential."""
    lower = text.lower()
    if any(scheme in lower for scheme in ("bearer", "basic", "negotiate", "apikey", "token")):
        return _SCHEME.sub(_scheme, text)
    return text


def _user(found: re.Match[str]) -> str:
    whole = found[1] if found[1] is not None else f"{found[2]}:{found[3]}"
    user, colon, password = whole.partition(":")
    if colon:
        secret = bool(password) and password != MASK and not _reference(password)
    else:
        secret = len(user) >= 16 and not user.isalpha()
    if found[1] is None and re.split("[/#]", found[3])[0].isdigit():
        secret = False  # a port before the path
    return f"://{MASK}@" if secret else found[0]


def _reference(word: str) -> bool:
    """A variable in the place of a password: `$PASSWORD`, `{password}`, `<password>`."""
    return bool(re.fullmatch(r"\$\{?\w+\}?|\{+[\w. ]*\}+|<[\w -]*>|%\(\w+\)s|%s|\*+", word))


def _hook(found: re.Match[str]) -> str:
    before, path = found[1], found[2]
    known = _HOOK_HOSTS.search(before.split("/", 3)[2])
    last = max(path.split("/"), key=len)
    if not (known and len(last) >= 8) and not looks_random(last):
        return found[0]
    if "." in last and not known:
        return found[0]
    return before + MASK


def _bare(found: re.Match[str]) -> str:
    user, password = found[1], found[2]
    kinds = sum(bool(re.search(kind, password)) for kind in ("[a-z]", "[A-Z]", "[0-9]", r"[^A-Za-z0-9]"))
    if kinds < 2 or user in {"sha256", "sha1", "md5", "rank", "cuda", "step"} or _reference(password):
        return found[0]
    return f"{user}:{MASK}@"


def _scheme(found: re.Match[str]) -> str:
    word = found[3].rstrip(".:")
    rest = found[3][len(word) :]
    scheme = found[1].lower()
    if scheme == "basic":
        secret = is_basic(word)
    elif scheme == "bearer":
        secret = (len(word) >= 16 and not word.isalpha()) or looks_random(word, 8)
    else:
        secret = looks_random(word, 20)
    return found[1] + found[2] + MASK + rest if secret else found[0]
