"""Credentials in addresses: before the host of a URL, behind a webhook's, and in the headers of a request."""

from __future__ import annotations

import re

from .forms import MASK, Expression, is_basic, looks_random

_LONGEST = 1000
"""Characters of an address that are read for its host."""
_STOP = Expression(r"[\s\"'<>`|]|\\[nrt\"']")
_PATH = Expression(r"[/?#]")
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
        text = _without_users(text)
        text = _HOOK.sub(_hook, text)
    return _BARE.sub(_bare, text) if "@" in text else text


def mask_schemes(text: str) -> str:
    """`Bearer`, `Basic` and the like without what follows, where that looks like a credential."""
    lower = text.lower()
    if any(scheme in lower for scheme in ("bearer", "basic", "negotiate", "apikey", "token")):
        return _SCHEME.sub(_scheme, text)
    return text


def _without_users(text: str) -> str:
    parts: list[str] = []
    done = 0
    while True:
        at = text.find("://", done)
        if at < 0:
            return "".join([*parts, text[done:]])
        start = at + 3
        after = text.find("://", start)
        limit = min(start + _LONGEST, after if after >= 0 else len(text))
        if text.find("@", start, limit) < 0:
            parts.append(text[done:start])
            done = start
            continue
        stop = _STOP.search(text, start, limit)
        whole = text[start : stop.start() if stop else limit]
        cut = _users_end(whole)
        parts.append(text[done:start])
        if cut:
            parts.append(MASK)
        done = start + cut


def _users_end(whole: str) -> int:
    """Where the user and password of an address end; 0 when it has none that is a secret."""
    path = _PATH.search(whole)
    authority = whole[: path.start()] if path else whole
    at = authority.rfind("@")
    if at < 0:
        # A password with a slash in it: `://user:pa/ss@host`. A port before the path is a number.
        user, colon, rest = authority.partition(":")
        at = whole.rfind("@")
        if not colon or at < 0 or rest.isdigit() or "?" in whole[:at] or not (user or rest) or "[" in user:
            return 0
    user, colon, password = whole[:at].partition(":")
    if MASK in (password, user if not colon else password):
        return 0
    if colon:
        return at if password and not _reference(password) else 0
    return at if len(user) >= 16 and not user.isalpha() else 0


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
