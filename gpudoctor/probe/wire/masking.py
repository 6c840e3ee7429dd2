"""Secrets out of what is written down or shown: the one definition, for the probe and for everything else.

Standard library only and Python 3.9, for it also runs inside the user's process. A secret shows by its name
(`API_KEY=...`, `--password ...`), by a form that its issuer gave it (`hf_...`), or by its place (`user:password@`).
The words are data: masking.json says of each list what its words are. Every expression is linear.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from typing import Any, Callable, Collection, Sequence

MASK = "***"
"""What stands where a secret stood."""
LONGEST_WORD = 4000
"""Characters of one word of a command line that are written down."""
_MARGIN, _EDGE = 2000, 300
"""Characters behind a cut that are read, and those before the end of what was read that are not shown."""
_LONGEST_NAME, _WINDOW = 200, 160
"""Characters of a name, its last ones, and of a value that are judged."""

with open(os.path.join(os.path.dirname(__file__), "masking.json"), encoding="utf-8") as _file:
    _LISTS: dict[str, dict[str, Any]] = json.load(_file)


def _listed(*names: str) -> frozenset[str]:
    return frozenset(word for name in names for line in _LISTS[name]["words"] for word in line.split())


def _any(*names: str, without: Collection[str] = ()) -> str:
    """An expression for any of the words of the lists, the longest first."""
    return "|".join(sorted(map(re.escape, _listed(*names) - set(without)), key=len, reverse=True))


class Expression:
    """An expression that is compiled at its first use: most texts need few of them, and a start must be quick."""

    sub: Callable[..., str]

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern)
        for method in ("match", "fullmatch", "search", "finditer", "findall", "sub"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


# Names: training is full of some that only look secret (`max_tokens`, `pad_token`, `key_padding_mask`).

PLAIN, DOUBTFUL, SECRET = 0, 1, 2
"""No secret; a secret if the value looks random; a secret whatever the value."""

_WORD = Expression(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_OWNERS = _any("vendors", "owners")
_PLAIN_NAME = rf"(?P<plain>(?:{_any('plain_tokens')})_token|(?:{_any('plain_keys', 'plain_tokens')})_key)"
_SECRET_NAME = (
    rf"{_any('passwords', 'nouns')}|[a-z]*(?:{_any('endings')})|(?:{_any('plural_owners')})_?(?:keys|tokens)|"
    rf"(?:{_any('vendors', 'people')})_(?:pass|pat|sk|pw)|conn(?:ection)?_string"
)
_LOWER = Expression(
    rf"_(?:{_PLAIN_NAME}|(?P<secret>(?:{_OWNERS})_?token|(?<=^_)token|"
    rf"(?:{_any('vendors', 'owners', without=_listed('entries'))})_?key|{_SECRET_NAME})|{_any('weak_nouns')}|"
    rf"[a-z0-9]+_(?:key|token)|(?:{_any('entries')})_?key)(?=_|$)"
)
_UPPER = Expression(
    rf"_(?:{_PLAIN_NAME}|(?P<secret>{_SECRET_NAME}|(?:[a-z0-9]+_)?(?:key|token)|[a-z0-9]+_(?:pass|auth)|"
    rf"(?:{_OWNERS})(?:key|token))|{_any('weak_nouns')})(?=_|$)"
)
_SETTING = Expression(rf"_(?:{_any('settings')})(?:_|$)|_(?:[a-z0-9]+_)*(?:{_any('settings')})$")
_NOTHING_MORE = Expression(rf"(?:_(?:{_any('suffixes')}|\d+))*(?:_(?:{_any('vendors')}))?$")
_STEMS = Expression(_LISTS["stems"]["words"][0])
_PASSWORDS, _SWITCHES, _SECTIONS = _listed("passwords") | {"pwd", "pass"}, _listed("switches"), _listed("sections")
_SHOWN, _SETTERS, _KINDS = _listed("entries_shown"), _listed("setters"), _listed("kinds_of_secrets")


def is_secret_name(name: str) -> bool:
    """Whether a variable, option or key is named like a secret: `WANDB_API_KEY`, `--hub-token`, `apiKey`."""
    return secrecy(name) == SECRET and name.lstrip("-").upper() not in {"PWD", "OLDPWD"}


def is_secret_entry(parents: Collection[str], name: str) -> bool:
    """Whether an entry of sections of these names is a secret by them: not the `user` or the `host` in them."""
    return not _SECTIONS.isdisjoint(parent.lower() for parent in parents) and name.lower() not in _SHOWN


@lru_cache(maxsize=4096)
def secrecy(name: str) -> int:
    """`SECRET`, `DOUBTFUL` or `PLAIN`, by the last of its words that tells, and those behind it."""
    written = _WORD.findall(name[2:] if name.startswith("-D") else name[-_LONGEST_NAME:])  # a property of Java's
    words = [word.lower() for word in written]
    if (len(words) > 1 and words[0] in _SWITCHES) or not _STEMS.search("-".join(words)):
        return PLAIN  # most names; the expressions below take 20 ms to compile
    joined = "_" + "_".join(words)
    shouted = name.rpartition(".")[2].isupper()
    matches = list((_UPPER if shouted else _LOWER).finditer(joined))
    last = matches[-1] if matches else None
    if last is None or last["plain"]:
        return PLAIN
    tail = joined[last.end() :]
    level = SECRET if last["secret"] else DOUBTFUL
    if tail == "_id":  # AWS_ACCESS_KEY_ID and a role's secret_id; `token_id` is a number of the vocabulary
        return level if re.search("secret|access|private|aws|s3|cred", last[0]) else PLAIN
    if _SETTING.match(tail) or (last[0] == "_token" and re.match("_(?:str|string|text|value|raw|plain)s?$", tail)):
        return PLAIN
    return (
        level if (shouted and last[0] not in {"_key", "_token"}) or _NOTHING_MORE.match(tail) else min(level, DOUBTFUL)
    )


@lru_cache(maxsize=4096)
def is_password_name(name: str) -> bool:
    """Whether the secret is one that a person may have chosen: a short word or number is one, too."""
    return any(word.lower() in _PASSWORDS or word.lower().endswith("password") for word in _WORD.findall(name))


# Values

_NOTHING = _listed("nothing")
_REFERENCE = Expression(
    r"\$\w|\$\{|\$\(|\$env:|%\w+%$|%\(\w+\)s|%s$|\{[^}\n]{0,80}\}$|\{\{|<[^<>\n]{1,80}>$|\[[A-Z_]{2,20}\]$|`|"
    r"[*•.xX#?-]+$|(?i:your|my|the|enter|insert|replace)[-_ ](?:own[-_ ])?"
    r"(?i:api|access|secret|token|key|password|hf|wandb)"
)
"""Values that only name a secret, or the place for one: `$TOKEN`, `{token}`, `<your key>`, `***`."""
_NUMBER = Expression(r"[-+]?[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?$")
_TURN = Expression(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[0-9]|(?<=[0-9])[A-Za-z]")
_TELLING = Expression(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]{1,16}|[0-9TZ.,:e+_-]+")
_FILE = Expression(r"\.(?:py|json|ya?ml|toml|txt|csv|log|pt|pth|ckpt|bin|safetensors|pem|key|env|sh|md|cfg|ini)$")


def _is_nothing(value: str, password: bool = True) -> bool:
    """Whether a value is none that could be secret: a switch, a small number, a reference to one."""
    word = value.strip().rstrip(",;)]}")
    if not word or word.lower() in _NOTHING or _REFERENCE.match(word) or MASK in word:
        return True
    return len(word) <= (4 if password else 8) and bool(_NUMBER.match(word))


def _turns(word: str) -> float:
    """How often the class of a word's characters changes: 0.4 a character in random ones, 0.1 in CamelCase."""
    return len(_TURN.findall(word[:64])) / min(64, len(word)) if word else 0.0


def _looks_random(word: str, least: int = 16) -> bool:
    """Whether a word may be a key: long, letters and digits mixed; not a number, a date, a path or a UUID."""
    mixed = len(word) >= least and re.search("[A-Za-z]", word) and re.search("[0-9]", word)
    if not mixed or _TELLING.fullmatch(word) or _FILE.search(word):
        return False
    return word.count("/") <= 1 + len(word) // 16 and word.count(".") < 4 and _turns(word) >= 0.15


# Forms of credentials: those that detect-secrets, gitleaks and trufflehog look for.

_LEFT = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbfv])|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9;\[]m))"
"""Where a word begins: also behind an escape in quoted text, in a URL or of a terminal."""
_DOUBTED = _listed("doubtful")
_ISSUED = Expression(
    rf"{_LEFT}(?:(?P<p>{_any('plainly', without=_listed('dashed'))})(?P<prun>[A-Za-z0-9]+)|"
    rf"(?P<d>{_any('dashed')})(?P<drun>[A-Za-z0-9_.=-]+))[A-Za-z0-9_=-]*"
)
_WHOLE = Expression(rf"(?=[A-Za-z0-9_~]){_LEFT}(?:{'|'.join(_LISTS['whole']['words'])})")
_CRYPT = Expression(r"\$(?:2[abxy]|apr1|argon2id?|argon2i|scrypt|pbkdf2-sha256|[156y])\$[./A-Za-z0-9$=,+]{20,}")
_BLOCK = Expression(r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE[A-Z0-9 ]{0,40}-----)(?:[\s\S]*?(?=-----END )|[\s\S]*)")
"""A private key in PEM; of one whose end is cut off all that follows."""
_TAIL = Expression(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/=]+(?=\s{0,4}-----END)")
_HEX = Expression(r"(?<![0-9A-Za-z/@])[0-9a-f]{40}(?![0-9A-Za-z])")
_NO_KEY = Expression(r"(?i)commit|revision|\brev\b|\bsha|\bgit|hash|snapshot|digest|checkpoint|model|artifact")
_LABEL = Expression(
    r"(?i)(?:(?<![a-z0-9])(?:wandb|api)|wandb[^\0]{0,200}\n[ \t]{0,40}[\"']?key)"
    r"(?:[\"'\])]{0,2}[ \t]{0,4}[:=,][ \t]{0,4}|[\"'\])]{1,2}[ \t]{0,4}|[ \t]{1,4})?[\"']?\Z"
)
"""Names that make a word of 40 hexadecimal digits a key: with other names it is a commit as often."""
_RUN = Expression(r"(?<=\\[nrt])[A-Za-z0-9+/_-]{24,}={0,2}|[A-Za-z0-9+/_-]{28,}={0,2}")
_MANGLED = Expression(r"_Z(?:N[KVr]?|T[VTIS]N?)?(?:S[tab])?\d{1,3}[A-Za-z_]")
"""How the name of a C++ function begins in a library: the length of a word, and the word."""


def mask_tokens(text: str) -> str:
    """The text without credentials that an issuer gave a form: of JSON, it stays JSON."""
    return _WHOLE.sub(MASK, _ISSUED.sub(_of_issuer, text))


def _of_issuer(found: re.Match[str]) -> str:
    prefix, run = found["p"] or found["d"], (found["prun"] or found["drun"])[:64]
    digits = sum(map(str.isdigit, run))
    if prefix not in _DOUBTED:
        secret = len(run) >= 16
    else:  # no word that a person writes is so long in one piece, or so mixed
        mixed = digits >= 2 and len(run) >= (8 if prefix == "hf_" else 16) and _turns(run) >= 0.12
        secret = mixed or (run.isalnum() and len(run) >= (28 if not digits else 20))
    return MASK + found[0][len(found[0].rstrip(".-=")) :] if secret else found[0]


def _mask_forms(text: str) -> str:
    if "-----" in text and "PRIVATE" in text:
        text = _TAIL.sub(MASK, _BLOCK.sub(rf"\1{MASK}", text))
    text = _CRYPT.sub(MASK, mask_tokens(text))
    return _RUN.sub(_by_chance, _HEX.sub(_of_hex, text))


def _is_hex_key(name: str, word: str) -> bool:
    return len(word) == 40 and bool(_HEX.match(word)) and bool(_LABEL.search(name[-240:]))


def _of_hex(found: re.Match[str]) -> str:
    """A word of 40 hexadecimal digits is a key behind `wandb` or `api`, and in a line that speaks of wandb."""
    text, start = found.string, found.start()
    line = text[max(0, text.rfind("\n", 0, start) + 1, start - 240) : start + 240].split("\n", 1)[0]
    named = "wandb" in line.lower() and not _NO_KEY.search(line)
    return MASK if named or _is_hex_key(text[max(0, start - 240) : start], found[0]) else found[0]


def _by_chance(found: re.Match[str]) -> str:
    """A long word without the parts that only chance can have made."""
    word = found[0]
    labelled = re.fullmatch("([A-Za-z]{2,12}[_-])([A-Za-z0-9]{24,})", word)
    if labelled is not None and _is_chance(labelled[2]):
        return str(labelled[1]) + MASK
    if len(word) == 40 and _is_chance(word):  # a secret key of AWS, which may hold slashes
        return MASK
    return "/".join(MASK if len(part) >= 40 and _is_chance(part) else part for part in word.split("/"))


def _is_chance(word: str) -> bool:
    head = word[:64]
    mixed = re.search("[a-z]", head) and re.search("[A-Z]", head) and re.search("[0-9]", head)
    if not mixed or _MANGLED.match(word) or max(map(len, head.split("/"))) < 16:
        return False
    return sum(not character.isalnum() for character in head) <= len(head) // 10 and _turns(head) >= 0.2


# Addresses and headers: `scheme://user:password@host`, `user:password@host`, webhooks, `Bearer ...`.

_USER = Expression(
    r"://(?:([^/?#\s\"'<>`|\\]{0,1000})|([^:/?#\s\"'<>`|\\\[]{0,60}:(?![0-9]+[/#])[^?\s\"'<>`|\\:]{1,200}[/#]"
    r"[^?\s\"'<>`|\\:]{0,200}))@"
)
"""Before the host of a URL; a password with a slash in it, too: `://user:pa/ss@host`."""
_HOOK = Expression(
    r"(?i)(://([^/\s\"'<>]{0,100})/(?:[^/\s\"'<>?#]{1,60}/){0,6}?(?:hooks?|webhooks?|webhookb2|services|workflows|"
    r"triggers?|catch|key|bot(?=[0-9]{6}))/?)([^\s\"'<>?#]{8,1000})"
)
_HOOK_HOST = Expression(r"(?i)hook|discord|slack|office\.com|api\.telegram|ifttt|hc-ping|pipedream|mattermost")
_BARE_USER = Expression(
    r"(?<![A-Za-z0-9._@:/%+-])([A-Za-z_][A-Za-z0-9_.-]{0,40}:)([^\s:@/\"'<>,;(){}\[\]]{6,100})@"
    r"(?=[A-Za-z0-9-]{1,60}(?:\.[A-Za-z0-9]|:\d|/)|localhost)"
)
_SCHEME = Expression(
    r"(?i)((?<![A-Za-z0-9_-])(bearer|basic|negotiate|apikey|token)(?:[ \t]{1,4}|%20|\+))(?!\*{3})"
    r"([A-Za-z0-9._~+/=:-]{8,})"
)


def _user(found: re.Match[str]) -> str:
    user, colon, password = (found[1] if found[1] is not None else found[2]).partition(":")
    secret = not _is_nothing(password) if colon else len(user) >= 16 and not user.isalpha()
    return f"://{MASK}@" if secret or (password.isdigit() and password) else found[0]


def _hook(found: re.Match[str]) -> str:
    last = max(found[3].split("/"), key=len)
    known = bool(_HOOK_HOST.search(found[2]))
    secret = (known and len(last) >= 8) or (_looks_random(last) and "." not in last)
    return found[1] + MASK if secret else found[0]


def _bare_user(found: re.Match[str]) -> str:
    kinds = sum(bool(re.search(kind, found[2])) for kind in ("[a-z]", "[A-Z]", "[0-9]", "[^A-Za-z0-9]"))
    plain = (
        kinds < 2 or found[1] in {"sha256:", "sha1:", "md5:", "rank:", "cuda:", "step:"} or _REFERENCE.match(found[2])
    )
    return found[0] if plain else f"{found[1]}{MASK}@"


def _scheme(found: re.Match[str]) -> str:
    word, scheme = found[3].rstrip(".:"), found[2].lower()
    secret = (scheme == "bearer" and len(word) >= 16 and not word.isalpha()) or _looks_random(word)
    return found[1] + MASK + found[3][len(word) :] if secret else found[0]


# Names and their values: `API_KEY=...`, `"token": "..."`, `--password ...`, `- name: TOKEN` and `value: ...`.

_NAME = Expression(r"[A-Za-z0-9_.$-]{2,}")
_SCHEMES = (
    r"(?:(?i:bearer|basic|token|negotiate|ntlm|api-?key|key|(?P<rest>digest|aws4-hmac-sha256))(?:[ \t]+|%20|\+))?"
)
_QUOTED_SCHEME = Expression(_SCHEMES)
_WAY = Expression(
    r"(?P<prose>(?:[ \t](?:key|token|secret|provided|is|was|used|given|value|supplied|entered|id)\b){0,2})"
    r"(?P<close>\\{0,3}[\"'`]|&quot;|%22)?[\])]{0,2}(?:"
    r"(?P<meant>(?:[ \t]{0,8},)?\s{0,40}(?:-\s{0,8})?(?:\\{0,3}[\"'])?(?i:value|default)(?:\\{0,3}[\"'])?"
    r"[ \t]{0,8}[:=])|"
    r"(?P<second>[ \t]{0,8},[ \t]{0,8}(?=[rbfu]?\\{0,3}[\"']))|(?P<tag>>(?=[^<>\n]{1,4000}</))|"
    r"(?P<type>[ \t]{0,8}:[ \t]{0,8}(?:typing\.)?(?:Optional|Final|Annotated|Union|SecretStr|str|bytes)\b"
    r"[\[\]A-Za-z_, |.]{0,60}(?=[ \t]{0,8}=))?(?P<sep>[ \t]{0,8}(?:=>|->|:=|==|!=|=|:(?!:)|%3[DdAa]))|"
    r"(?P<cell>[ \t]{0,60}[|\u2502\u2503])|(?P<space>(?=[ \t])))[ \t]{0,60}"
    r"(?:(?:str|bytes|bytearray|Secret\w{0,5}|Token|Password|quote|repr)\(\s{0,4})?" + _SCHEMES
)
"""The way from a name to its value."""
_VALUE = Expression(
    r"(?P<box>[\[({](?![{%]))|"
    r"(?P<quote>[rbfuRBFU]{0,2}(?P<slash>\\{0,3})(?P<mark>\"\"\"|'''|[\"'`]|&quot;|%22))|"
    r"[^\s\"'`]+(?:[\"'`](?=[A-Za-z0-9!#-])[^\s\"'`]+)*"
)
_INSIDE = {quote: Expression(rf"[^{quote}\\\n]*(?:\\.[^{quote}\\\n]*)*") for quote in "\"'`"}
_STOPS = Expression(
    r"(?:[&;,]|%26|\\u0026)(?:amp;)?[A-Za-z_][A-Za-z0-9_. -]{0,60}(?:[=:]|%3D)|\\[nrt]|\\u0026|%26|</|\x1b"
)
_REGION = Expression(r"[\[({](?:[^\])}\"']|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'){0,2000}")
_ITEM = Expression(
    r"([\"'])((?:(?!\1)[^\\\n]|\\.)+)(?=\1\s{0,4}[^:\s]|\1\s{0,4}\Z)|"
    r"(?<=[:,\[({ \n])([^\s\"',:\[\](){}]+)(?=\s{0,40}[,\])}\n])"
)
_CODE = Expression(r"(?:await )?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[]|[A-Za-z_]+(?:\.[A-Za-z_]+)+[,;)\]}:]*$")
"""Expressions: `os.environ[...]`, `get_token()`, `args.api_key`."""
_SETTER = Expression(
    r"(?:^|[\s;&|])(?:set|setenv|modify|config|setx|put|login|ENV|ARG|"
    r"machine[ \t]\S{1,60}(?:[ \t]login[ \t]\S{1,60})?)[ \t]{1,8}(?:[\w./:-]{1,60}[ \t]{1,8})?$"
)


Found = tuple[int, int, str]


def _mask_pairs(text: str) -> str:
    """The text without the values of secret names. It is read once, and what is masked is not read again."""
    parts: list[str] = []
    done = 0
    for word in _NAME.finditer(text):
        if word.start() >= done and _STEMS.search(word[0].lower()):
            start, end, shown = _value_of(text, word)
            if end > start:
                parts += [text[done:start], shown]
                done = end
    return "".join([*parts, text[done:]])


def _item(found: re.Match[str]) -> str:
    value = found[2] or found[3]
    plain = _is_nothing(value) or secrecy(value) == SECRET or (found[3] and not re.search("[0-9]", value))
    return found[0] if plain else (found[1] or "") + MASK


def _value_of(text: str, word: re.Match[str]) -> Found:
    """Start and end of a name's value, and what to write there; an empty piece where it has none that is secret."""
    end = word.start() + len(word[0].rstrip(".-$"))
    start = word.end() - len(word[0].lstrip(".$"))
    nothing = (end, end, "")
    before = text[max(0, start - 80) : start]
    name, level = _named(text[max(start, end - _LONGEST_NAME) : end], before)
    way = _WAY.match(text, end) if level else None
    found = _VALUE.match(text, way.end(), way.end() + _WINDOW) if way else None
    if way is None or found is None or (way["close"] and way["space"] is not None):
        return nothing
    at, sep, dashed = found.start(), way["sep"] or "", name.startswith("-")
    password = is_password_name(name)
    line = before.rpartition("\n")[2]
    leads = not line.strip(" \t-+>|#;/*")
    space, told = way["space"] is not None, dashed or bool(_SETTER.search(before))
    """Whether a value may follow after a space."""
    if way["rest"] or (":" in sep and "cookie" in name.lower()):
        stop = _line_end(text, found.end("quote") if found["quote"] else at)
        return (at, stop, MASK) if "=" in text[at:stop] or _looks_random(text[at:stop]) else nothing
    if found["box"]:
        region = _REGION.match(text, at) if sep and (level == SECRET or name.lower() == "auth") else None
        return (at, region.end(), _ITEM.sub(_item, region[0])) if region else nothing
    if found["quote"]:
        if space and not (told or password):
            return nothing
        at = _QUOTED_SCHEME.match(text, found.end()).end()
        stop = _closing(text, at, found["slash"] + found["mark"])
        value = text[at:stop]
    else:
        stop = _bare_end(text, at, found.end(), way)
        value = text[at:stop]
    bare = not found["quote"] and (not dashed or way["meant"])
    if _is_nothing(value, password) or (bare and _CODE.match(value)):
        return nothing
    if level == DOUBTFUL:
        secret = _is_doubtful_secret(name.lower(), value) and (told or not space)
    elif found["quote"] or way["tag"] or way["meant"]:
        secret = True
    elif dashed:
        secret = value[0] != "-"
    elif way["cell"]:
        secret = before.rstrip()[-1:] == way["cell"].strip() and bool(
            re.search("[^a-z]", name) or re.search("[0-9]", value)
        )
    elif space:
        netrc = name == "password" and leads and text[stop : stop + 1] in {"", "\n", "\r"}
        secret = told or netrc or _looks_random(value.strip(".,;:"), 12)
    else:
        secret = _hides(name, value, sep, leads)
    if secret and not found["quote"] and stop == at + _WINDOW:  # a long one is judged by its head
        stop = _bare_end(text, at, _VALUE.match(text, at).end(), way)
    return (at, stop, MASK) if secret else nothing


def _named(name: str, before: str) -> tuple[str, int]:
    """A name with how secret it is, by the word before it, too: `API key: ...`."""
    level = secrecy(name)
    spoken = re.search("([A-Za-z]{1,23}) $", before) if name in {"key", "token", "secret", "string"} else None
    if spoken is not None and secrecy(f"{spoken[1]}_{name}") == SECRET:
        return f"{spoken[1]} {name}", SECRET
    return name, DOUBTFUL if level == PLAIN and name.lower().lstrip("-") == "key" else level


def _hides(name: str, value: str, sep: str, leads: bool) -> bool:
    """Whether a word without quotes behind `=` or `:` is a secret: not one of source text, nor of a sentence."""
    if value[0] in "/~" and name.lower() in {"pwd", "oldpwd"}:
        return False
    word = value.rstrip(",;)]}:")
    if re.fullmatch("[A-Za-z_]+[0-9]?", word) and (len(word) < 12 or _turns(word) < 0.2):
        if secrecy(word) or value.lower() in _KINDS:
            return False
        if sep != sep.strip() and "=" in sep:  # source text
            return leads and is_password_name(name)
    return ":" not in sep or leads or bool(re.search("[^a-z]", name) or re.search("[0-9]", value))


def _is_doubtful_secret(name: str, value: str) -> bool:
    uuid = name == "key" and len(value) == 36 and value.count("-") == 4 and bool(_TELLING.fullmatch(value))
    basic = "auth" in name and re.fullmatch("[A-Za-z0-9+/]{16,}={0,2}", value) and not value.islower()
    return uuid or bool(basic) or _looks_random(value, 10 if "token" in name else 16)


def _closing(text: str, start: int, closer: str) -> int:
    """Where a quoted text ends: at its closer, or else at the end of the line."""
    if closer in _INSIDE:
        inside = _INSIDE[closer].match(text, start)
        return inside.end() if inside else start
    stop = len(text) if len(closer) == 3 and closer[0] != "\\" and closer != "%22" else _line_end(text, start)
    end = text.find(closer, start, stop)
    return end if end >= 0 else stop


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at, at + 8000)
    return end if end >= 0 else min(len(text), at + 8000)


def _bare_end(text: str, at: int, end: int, way: re.Match[str]) -> int:
    """Where a value without quotes ends: before the next pair, and before what closes a call."""
    stop = _STOPS.search(text, at + 1, end)
    end = stop.start() if stop is not None else end
    if way["cell"]:
        return at + len(text[at : _line_end(text, at)].split(way["cell"].strip())[0].rstrip())
    while end > at + 1 and text[end - 1] in (
        ",;" if way["space"] is not None else ",;)]}|" if text[at] == "<" else ",;)]}>|"
    ):
        end -= 1
    return end


# Command lines: options whose next word is a secret, and tools with short options of their own for one.

_TOOLS: dict[str, str] = {
    tool: option for row in _LISTS["tools"]["words"] for option, *tools in [row.split()] for tool in tools
}
_TOOL = Expression(rf"(?<![A-Za-z0-9_.-])(?:{'|'.join(sorted(map(re.escape, _TOOLS), key=len, reverse=True))})[ \t]")
_SHELL_WORD = Expression(r"'[^'\n]*'|\"(?:[^\"\\\n]|\\.)*\"|[^\s'\"]+|[\"']|\n")
_CALL = Expression(
    r"((?:login|BasicAuth|set_api_key|set_token)\(\s{0,8}(?P<user>[rbfu]?[\"'][^\"'\n]{1,400}[\"']\s{0,8},\s{0,8})?"
    r"(?:(?:key|token|api_key)\s{0,4}=\s{0,4})?[rbfu]?([\"']))(?P<value>[^\"'\n]{1,400})(?=\3)"
)


def _secret_words(words: Sequence[str]) -> dict[int, str]:
    """What to write in the place of the words that are secret by the words before them."""
    found: dict[int, str] = {}
    tool = ""
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if before.startswith("-") and not set("= ") & set(before) and not word.startswith("--"):
            level = max(secrecy(before), DOUBTFUL if before in {"--key", "-key"} else PLAIN)
            secret = (
                level and not _is_nothing(word, is_password_name(before)) and (level == SECRET or _looks_random(word))
            )
            if secret or _is_hex_key(before, word):
                found[at] = MASK
                continue
        elif (
            secrecy(before) == SECRET
            and _SETTERS.intersection(words[max(0, at - 4) : at - 1])
            and not _is_nothing(word)
        ):
            found[at] = MASK
            continue
        shown = _of_tool(_TOOLS[tool], words[max(0, at - 4) : at], word) if tool else None
        if shown is not None:
            found[at] = shown
        elif word.rpartition("/")[2] in _TOOLS:
            tool = word.rpartition("/")[2]
    return found


def _of_tool(options: str, before: Sequence[str], word: str) -> str | None:
    """What to write for a word of a tool: `-p*` joins its secret, `-u:` has it behind a user, `login` asks for it."""
    for option in options.split(","):
        flag, kind = (option[:-1], option[-1]) if option[-1] in "*:%;" else (option, "")
        kind = "," if kind == ";" else kind
        if flag == "login":
            if "login" in before and not word.startswith("-") and len(word) >= 6 and re.search("[0-9]", word):
                return MASK
        elif kind == "*":
            if word.startswith(flag) and len(word) > len(flag) and not word.startswith("--"):
                return flag + MASK if not _is_nothing(word[len(flag) :]) else None
        elif kind:
            if before[-1:] == [flag] or (len(flag) == 2 and word.startswith(flag) and kind in word):
                head, mark, rest = word.partition(kind)
                return head + mark + MASK if rest and not _is_nothing(rest) else None
        elif (
            before[-1:] == [flag]
            and not _is_nothing(word)
            and not re.fullmatch(r"[0-9.:/\[\]a-z-]*:[0-9]+(?:/\w+)?|\d+", word)
        ):
            return MASK  # `docker run -p 8080:80` publishes a port
    return None


def _mask_commands(text: str) -> str:
    """Lines of shell in a text: the same for the words of each."""
    if _TOOL.search(text) is None:
        return text
    lines = []
    for line in text.split("\n"):
        parts, done = [], 0
        words = list(_SHELL_WORD.finditer(line))
        for at, shown in _secret_words([word[0].strip("\"'") for word in words]).items():
            quote = words[at][0][0] if words[at][0][0] in "\"'" and len(words[at][0]) > 1 else ""
            parts += [line[done : words[at].start()], quote + shown + quote]
            done = words[at].end()
        lines.append("".join([*parts, line[done:]]))
    return "\n".join(lines)


def _called(found: re.Match[str]) -> str:
    plain = _is_nothing(found["value"]) or (found["user"] is None and len(found["value"]) < 6)
    return found[0] if plain else found[1] + MASK


# Sections of configs whose every value is a secret: `secrets:`, `[credentials]`.

_HEADS = rf"(?:[\w.-]{{0,60}}[._-])?(?:{'|'.join(sorted(_SECTIONS))})"
_SECTION = Expression(
    rf"(?im)^([ \t]{{0,40}})(?:([\"']?{_HEADS}[\"']?[ \t]{{0,40}}:[ \t]{{0,40}}\r?\n)((?:\1[ \t]+[^\n]*\n?|[ \t]*\n)+)|"
    rf"(\[\[?[ \t]{{0,4}}{_HEADS}[ \t]{{0,4}}\]\]?[ \t]{{0,40}}\r?\n)((?:[ \t]*[^\[\s][^\n]*\n?|\s+)+))"
)
_ROW = Expression(
    r"(?m)^([ \t]*(?:- )?[\"']?([\w.-]+)[\"']?[ \t]*[:=][ \t]*[\"']?)([^\s\"'#]+(?:[^\"'\n#]*[^\s\"'#])?)"
)


def _row(found: re.Match[str]) -> str:
    shown = found[2].lower() in _SHOWN or _is_nothing(found[3]) or found[3][0] in "[{|>"
    return found[0] if shown or secrecy(found[2]) else found[1] + MASK  # one with a secret's name is masked by that


# All of it


def mask_text(text: str) -> str:
    """The text with every secret replaced by `***`: `API_KEY=...`, `--api-key ...`, URLs, known token forms."""
    if len(text) < 5:
        return text
    named = _STEMS.search(text.lower()) is not None
    if named and "\n" in text:
        text = _SECTION.sub(
            lambda found: (
                "".join(found.group(1, 2) if found[2] else found.group(1, 4)) + _ROW.sub(_row, found[3] or found[5])
            ),
            text,
        )
    text = _CALL.sub(_called, _mask_commands(text))
    if "://" in text:
        text = _HOOK.sub(_hook, _USER.sub(_user, text))
    if "@" in text:
        text = _BARE_USER.sub(_bare_user, text)
    if named:
        text = _mask_pairs(text)
    return _mask_forms(_SCHEME.sub(_scheme, text))


def mask_cut(text: str, longest: int) -> str:
    """The first `longest` characters of a text, masked. The rest of a long text is never read."""
    if len(text) <= longest:
        return mask_text(text)[:longest]
    read = text[: longest + _MARGIN]
    masked = mask_text(read)
    if len(read) < len(text):
        masked = masked[: max(0, len(masked) - _EDGE)]
    return masked[:longest]


def mask_value(name: str, value: str) -> str:
    """The value of a variable or a setting, masked by its name or by its form."""
    named = is_secret_name(name) and not _is_nothing(value)
    return MASK if value and (named or _is_hex_key(name, value)) else mask_text(value)


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line's words with secrets masked, the word that follows `--api-key` included."""
    words = [word[: LONGEST_WORD + _MARGIN] for word in arguments]
    secret = _secret_words(words)
    return tuple(secret[at] if at in secret else _argument(word) for at, word in enumerate(words))


def _argument(word: str) -> str:
    """One word of a command line; `--name=value` is a secret's to its end, whatever is in it."""
    name, equals, value = word.partition("=")
    if equals and value and not set(name) & set(" \t\n\"'?&/:;{") and is_secret_name(name):
        return word if _is_nothing(value) else name + equals + MASK
    return mask_cut(word, LONGEST_WORD)
