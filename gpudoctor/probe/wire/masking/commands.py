"""Command lines: options whose next word is a secret, and tools with short options of their own for one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .forms import MASK, Expression, is_hex_key, looks_random
from .names import PLAIN, STRONG, is_password_name, secrecy
from .values import is_nothing

_SHORT: dict[str, tuple[str, ...]] = {
    "mysql": ("-p*",), "mysqldump": ("-p*",), "mysqladmin": ("-p*",), "mariadb": ("-p*",), "mycli": ("-p*",),
    "mongo": ("-p",), "mongosh": ("-p",), "mongodump": ("-p",), "mongorestore": ("-p",), "cqlsh": ("-p",),
    "sshpass": ("-p*", "-p"), "curl": ("-u:", "--user:", "-U:", "--proxy-user:"), "http": ("-a:", "--auth:"),
    "https": ("-a:", "--auth:"), "docker": ("-p",), "podman": ("-p",), "nerdctl": ("-p",), "helm": ("-p",),
    "skopeo": ("-p",), "oc": ("-p",), "az": ("-p",), "twine": ("-p",), "snowsql": ("-p",), "rdesktop": ("-p",),
    "redis-cli": ("-a",), "smbclient": ("-U%",), "lftp": ("-u,",), "ldapsearch": ("-w",), "ldapmodify": ("-w",),
    "zip": ("-P",), "unzip": ("-P",), "7z": ("-p*",), "sqlcmd": ("-P",), "bcp": ("-P",), "ipmitool": ("-P",),
    "mosquitto_pub": ("-P",), "mosquitto_sub": ("-P",),
    "openssl": ("-k", "-K", "-passin", "-passout", "-pass"),
}  # fmt: skip
"""Tools, and their options whose next word is a secret: `*` joined to it, the others after a user."""

_LOGIN = {"wandb": 6, "vault": 6, "comet": 6, "hf": 6, "huggingface-cli": 6, "swanlab": 6, "railway": 8}
"""Tools whose command `login` takes a key as its word, of at least so many characters."""

_TOOL = Expression(
    r"(?<![A-Za-z0-9_.-])(?:" + "|".join(sorted(map(re.escape, {*_SHORT, *_LOGIN}), key=len, reverse=True)) + r")[ \t]"
)
_SETTERS = frozenset({"set", "setenv", "modify", "config", "setx", "put", "export"})
"""Words before a name that say that its value follows: `aws configure set`, `setenv`."""
_SHELL_WORD = Expression(r"'[^'\n]*'|\"(?:[^\"\\\n]|\\.)*\"|[^\s'\"]+|[\"']|\n")
_CALL = Expression(
    r"((?:login|BasicAuth|set_api_key|set_token)\(\s{0,8}(?P<user>[rbfu]?[\"'][^\"'\n]{1,400}[\"']\s{0,8},\s{0,8})?"
    r"(?:(?:key|token|api_key)\s{0,4}=\s{0,4})?[rbfu]?([\"']))(?P<value>[^\"'\n]{1,400})(?=\3)"
)


def secret_words(words: Sequence[str]) -> dict[int, str]:
    """What to write in the place of the words that are secret by the words before them."""
    found: dict[int, str] = {}
    tool = ""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        before = words[at - 1] if at else ""
        if at and before.startswith("-") and "=" not in before and " " not in before:
            if not word.startswith("--") and _hides(before, word):
                found[at] = MASK
                continue
        elif (
            secrecy(before) == STRONG
            and at > 1
            and _SETTERS.intersection(words[max(0, at - 4) : at - 1])
            and not is_nothing(word)
        ):
            found[at] = MASK
            continue
        if tool and at not in found:
            # Switches such as `--relogin` may precede the key.
            login = tool in _LOGIN and "login" in words[max(0, at - 4) : at] and before.startswith("--")
            shown = _of_tool(tool, "login" if login else before, word)
            if shown is not None:
                found[at] = shown
                continue
        if name in _SHORT or name in _LOGIN:
            tool = name
    return found


def mask_commands(text: str) -> str:
    """Lines of shell in a text: the same for the words of each."""
    if _TOOL.search(text) is None:
        return text
    parts: list[str] = []
    done = 0
    line: list[re.Match[str]] = []
    for found in _SHELL_WORD.finditer(text + "\n"):
        if found[0] != "\n":
            line.append(found)
            continue
        words = [match[0] for match in line]
        for at, shown in secret_words([word.strip("\"'") for word in words]).items():
            quote = words[at][0] if words[at][0] in "\"'" and len(words[at]) > 1 else ""
            parts += [text[done : line[at].start()], quote + shown + quote]
            done = line[at].end()
        line = []
    return "".join([*parts, text[done:]])


def mask_calls(text: str) -> str:
    """`wandb.login("...")`, `HTTPBasicAuth("user", "...")`: strings that need no name."""
    return _CALL.sub(_called, text)


def _called(found: re.Match[str]) -> str:
    plain = is_nothing(found["value"]) or (found["user"] is None and len(found["value"]) < 6)
    return found[0] if plain else found[1] + MASK


def _hides(option: str, word: str) -> bool:
    """Whether the word behind an option is the secret that it names."""
    level = secrecy(option)
    if is_hex_key(option, word):
        return True
    if level == PLAIN and option in {"--key", "-key"}:
        return looks_random(word)
    if level == PLAIN or is_nothing(word, password=is_password_name(option)):
        return False
    return level == STRONG or looks_random(word)


def _of_tool(tool: str, before: str, word: str) -> str | None:
    """What to write for a word of a tool that is a secret."""
    if before == "login" and tool in _LOGIN:
        secret = len(word) >= _LOGIN[tool] and not word.startswith("-") and any(map(str.isdigit, word))
        return MASK if secret else None
    for option in _SHORT.get(tool, ()):
        flag, kind = (option[:-1], option[-1]) if option[-1] in "*:%," else (option, "")
        if kind == "*" and word.startswith(flag) and len(word) > len(flag) and not word.startswith("--"):
            return flag + MASK if not is_nothing(word[len(flag) :]) else None
        if kind in {":", "%", ","} and (before == flag or (len(flag) == 2 and word.startswith(flag) and kind in word)):
            head, mark, rest = word.partition(kind)
            return head + mark + MASK if rest and not is_nothing(rest) else None
        if not kind and before == flag and not is_nothing(word) and not _port(word):
            return MASK
    return None


def _port(word: str) -> bool:
    """`docker run -p 8080:80` publishes a port."""
    return bool(re.fullmatch(r"[0-9.:/\[\]a-z-]*[0-9](?:/(?:tcp|udp))?", word)) and (":" in word or word.isdigit())
