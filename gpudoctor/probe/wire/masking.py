"""Secrets out of what is written down or shown: the one definition, for the probe and for everything else.

Standard library only and Python 3.9, for it also runs inside the user's process. A secret shows by its name
(`API_KEY=...`, `--password ...`), by a form that its issuer gave it (`hf_...`), or by its place (`user:password@`).
In doubt a value is masked, but not what training calls so: `max_tokens=4`, `pad_token`. Every expression is linear.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Callable, Collection, Sequence

MASK = "***"
"""What stands where a secret stood."""
LONGEST_WORD = 4000
"""Characters of one word of a command line that are written down."""
_MARGIN, _EDGE = 2000, 300
"""Characters behind a cut that are read, and those before the end of what was read that are not shown."""
_LONGEST = 200
"""Characters of a name, its last ones, and of a value without quotes that are judged."""


class Expression:
    """An expression that is compiled at its first use: most texts need few of them, and a start must be quick."""

    sub: Callable[..., str]

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self.pattern), name)
        setattr(self, name, method)
        return method


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names

PLAIN, DOUBTFUL, SECRET = 0, 1, 2
"""No secret; a secret if the value looks random; a secret whatever the value."""

_PASSWORDS = _words("password passwords passwd passphrase passcode passw pwd pswd psw passwort senha otp")
_NOUNS = _PASSWORDS | _words(
    "secret secrets credential credentials cred creds connectionstring dsn jwt cookie cookies psk authorization webhook"
)
"""Words, or two together, that name a secret."""
_KINDS = _words("key keys token tokens pass pat sk pw auth sig signature sas salt bearer authentication sessionid")
_OWNERS = _words(
    "access account admin agent anthropic api app auth aws azure bearer bind bot ci clearml client cohere comet db "
    "deploy docker encryption es gh github gitlab google hf hub huggingface job kaggle license master mlflow neptune "
    "ngc npm oauth openai private pypi refresh registry root s3 sas secret security service session signing slack "
    "smtp ssh ssl storage studio user vault wandb webhook x"
)
"""Words that make a key or token behind them a credential."""
_OF_TEXT = _words(
    "pad eos bos unk cls sep mask image video audio start end stop begin next last first prev current num max min n "
    "old special prefix suffix sort primary foreign public label text cache dict state query class value type key "
    "column new index metric loss char word sub forward total avg mean fim lang language target host"
)
"""Words that make it a piece of text or a place in data, in an environment variable, too."""
_TAILS = _OWNERS | _words("value val plain raw env b base enc prod dev test old new main default config v id")
"""Words behind a secret's name that change nothing; with others the value must look random: `password_file`."""
_STEM = (
    r"auth|bearer|conn|cookie|cred|dsn|jwt|key|otp|pass|pat\b|psw|pwd|pw\b|psk|secret|sig|sas|salt|senha|sk\b|token|hook|sessionid|"
    r"login|basicauth"
)
_WORD = Expression(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_JOINED = Expression(r"(?<=[a-z])(keys?|tokens?|secret|password|passwd|pwd)(?![a-z])")


def is_secret_name(name: str) -> bool:
    """Whether a variable, option or key is named like a secret: `WANDB_API_KEY`, `--hub-token`, `apiKey`."""
    return _secrecy(name) == SECRET


def is_secret_entry(parents: Collection[str]) -> bool:
    """Whether a section of these names makes its entries secrets: `credentials`."""
    return any(parent[-1:] == "s" and is_secret_name(parent) for parent in parents)


@lru_cache(maxsize=4096)
def _split(name: str) -> list[str]:
    """The words of a name, in small letters: `HF_TOKEN`, `hfToken` and `hftoken` have the same."""
    written = _WORD.findall(name[2:] if name.startswith("-D") else name)  # a property of Java's
    return _JOINED.sub(r"_\1", "_".join(written).lower()).split("_")


@lru_cache(maxsize=4096)
def _secrecy(name: str) -> int:
    """`SECRET`, `DOUBTFUL` or `PLAIN`, by the last of its words that tells, and those behind it."""
    words = ["", *_split(name)]
    for at in range(len(words) - 1, 0, -1):
        owner, word, tail = words[at - 1], words[at], words[at + 1 :]
        noun = word in _NOUNS or owner + word in _NOUNS
        if noun or word in _KINDS:
            shouted = name.rpartition(".")[2].isupper() or (not owner and word in {"token", "auth"})
            if (tail[:1] == ["id"] and not {owner, word} & {"access", "private", "secret"}) or owner in _OF_TEXT:
                return SECRET if noun and not tail else PLAIN  # `token_id`
            if word[-1:] == "s" and not noun and owner not in _OWNERS:
                return PLAIN
            known = (noun or owner in _OWNERS or shouted) and all(word in _TAILS or word.isdigit() for word in tail)
            return SECRET if known else DOUBTFUL
    return PLAIN


# Values

_NOTHING = Expression(
    r"(?i:true|false|none|null|nil|undefined|yes|no|on|off|auto|default|required|optional|redacted|masked|hidden|unset|"
    r"empty|str|int|bool|bytes|string|missing|invalid|expired|wrong|not|is|set|unknown|any|all|disabled|enabled)$|"
    r"[<{\[$`]|%\w+%$|%\(\w+\)s|%s$|[*•.xX#?-]+$|(?i:your|my|the|enter|insert)[-_ ]"
)
"""Values that hold no secret: a switch, a reference or the place for one (`$TOKEN`, `<your key>`)."""
_NUMBER = Expression(r"[-+]?[0-9][0-9_.]*(?:[eE][-+]?[0-9]+)?$")
_TURN = Expression(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[0-9]|(?<=[0-9])[A-Za-z]")


def _is_nothing(value: str, name: str = "password") -> bool:
    """Whether a value of a name is none that could be secret; a number may be a password, but no token."""
    word = value.strip().rstrip(",;)]}.")
    if not word or MASK in word or _NOTHING.match(word) or (word[0] in "/~" and name in {"PWD", "OLDPWD"}):
        return True
    return bool(_NUMBER.match(word)) and len(word) < (5 if _is_password(name) else 9)


def _is_password(name: str) -> bool:
    """Whether a person may have chosen the secret."""
    return not _PASSWORDS.isdisjoint(_split(name))


def _turns(word: str) -> float:
    """How often the class of a word's characters changes: 0.4 a character in random ones, 0.1 in CamelCase."""
    return len(_TURN.findall(word[:64])) / min(64, len(word)) if word else 0.0


def _looks_random(word: str, least: int = 16) -> bool:
    """Whether a word may be a key: long, letters and digits mixed; not a number, a date, a path or a file's name."""
    return len(word) >= least and "." not in word and word.count("/") <= 1 + len(word) // 16 and _turns(word) >= 0.15


# Forms of credentials: those that detect-secrets, gitleaks and trufflehog look for.
_ISSUED = Expression(
    r"(?:(?<![A-Za-z0-9\\])|(?<=\\[nrt])|(?<=%[0-9A-F]{2})|(?<=[0-9]m))(?:"  # also behind an escape
    r"(?:gh[oprsu]_|hf_|api_org_|npm_|r8_|rubygems_|AKCp|lin_api_|rpa_|gsk_|xai-|fw_|pplx-|sk[-_]|NRAK-|LTAI|AK[IL][DT]|"
    r"whsec_|[prs]k_(?:live|test)_|jina_|EAAG|sbp_|pul-|shp(?:at|ss)_|AGE-SECRET-KEY-1|dapi|do[opr]_v1_|xkeysib-|ntn_|"
    r"sgp_|ATBB|aio_|csk-|vercel_blob_rw_|sq[apu]_|bkua_|esecret_|key-|glc_)[A-Za-z0-9]{20,}[\w=-]*|"
    r"(?:github_pat_|HRKU-|PMAK-|tskey-|dckr_[op]at_|gl(?:pat|ptt|dt|rt|sa)[_-]|xox[abeop][-.]|xapp-|AIza|GOCSPX-|ya29\.|"
    r"1//0|nvapi-|pypi-|hv[bs]\.|AT[AC]TT3|dp\.[ps]t\.|f[mo][12]_|pscale_(?:tkn|pw)_|sntrys_|lsv2_[ps][tk]_|pcsk_|tvly-|"
    r"figd_|sha256~|(?:ops_)?eyJ|wandb_v1_|hf_oauth_|tgp_v1_|dt0[cs]01\.|sk-(?:proj|svcacct|ant|or|lf)-|sq0[a-z]{3}-|"
    r"(?:SG|pat)\.[\w-]{16,40}\.)[\w.=-]{16,}(?<!\.)|"
    r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}|\d{8,10}:AA[\w-]{30,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}|"  # bots
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}|(?:SK|AC)[0-9a-f]{32}(?![0-9a-f])|[0-9a-f]{32}-us\d{1,2}|"  # Twilio
    r"[\w~.]{3}\dQ~[\w~.-]{31,34}|(?:AKIA|ASIA|ABIA|ACCA|AROA)[0-9A-Z]{12,})"  # Azure, AWS
)
_LONG_WORD = Expression(r"(?<![\w.:=~%/\\-])[\w.:=~%/\\-]{16,}")
"""Only in such a word can be a credential that shows by its form; few words of a log are so long."""
_CHANCE = Expression(
    r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])|(?<![A-Za-z0-9+])(?<!\b_(?=Z))[A-Za-z0-9+]{40,}={0,2}"
)
"""A word without a name or a prefix, as AWS has it; not the name of a function in a library, `_ZN2at...`."""
_PEM = Expression(r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----)(?:[\w+/=:,.\s\\-]*?(?=-----END )|[\w+/=:,.\s\\-]*)")
"""A private key; of one whose end is cut off all that follows."""
_WANDB = Expression(
    r"(?i)(wandb(?![^\n]{0,120}(?:commit|revision|sha|git|hash|digest))[^\n]{0,120}?(?<![\w/@]))[0-9a-f]{40}(?!\w)"
)
_CRYPT = Expression(r"\$(?:2[abxy]|apr1|argon2id?|scrypt|[156y])\$[./A-Za-z0-9$=,+]{20,}")


def mask_tokens(text: str) -> str:
    """The text without credentials that an issuer gave a form: of JSON, it stays JSON."""
    return _LONG_WORD.sub(lambda found: _ISSUED.sub(MASK, found[0]), text)


def _by_chance(found: re.Match[str]) -> str:
    head = found[0][:64]
    kinds = all(re.search(kind, head) for kind in ("[a-z]", "[A-Z]", "[0-9+]"))
    return MASK if kinds and max(map(len, head.split("/"))) >= 16 and _turns(head) >= 0.2 else found[0]


# Addresses and headers: `scheme://user:password@host`, `user:password@host`, webhooks, `Bearer ...`.

_USER = Expression(r"://([^/?#\s\"'<>`|\\]{0,1000}|[^:/?#\s\"'<>`|\\\[]{0,60}:(?![0-9]+[/#])[^?\s\"'<>`|\\:]{1,200})@")
"""Before the host of a URL; a password with a slash in it, too: `://user:pa/ss@host`."""
_HOOK = Expression(
    r"(?i)(://(?:[^\s\"'<>?#]{0,60}[/.])?(?:(?:web)?hooks?(?:\.[\w.]{3,30})?/|bot(?=[0-9]{6})))[^\s\"'<>?#]{8,1000}"
)
_BARE_USER = Expression(
    r"(?<![\w.@:/%+-])(?!sha256:|sha1:|md5:|rank:|cuda:)([A-Za-z_][\w.-]{0,40}:)(?=[^\s@]{0,99}[0-9!#$&*])"
    r"([^\s:@/\"'<>,;(){}\[\]]{6,100})@(?=[A-Za-z0-9-]{1,60}(?:\.[A-Za-z0-9]|:\d|/)|localhost)"
)


def _user(found: re.Match[str]) -> str:
    user, colon, password = found[1].partition(":")
    secret = (password.isdigit() or not _is_nothing(password)) if colon else _looks_random(user)
    return f"://{MASK}@" if secret else found[0]


# Names and their values: `API_KEY=...`, `"token": "..."`, `--password ...`, `name: TOKEN` and `value: ...`.

_NAME = Expression(rf"(?ai)(?<![\w.$-])[\w.$-]*?(?:{_STEM})[\w.$-]*")
_SCHEMES = r"(?:(?i:bearer|basic|token|negotiate|digest|api-?key|key)(?:[ \t]+|%20|\+))?"
_WAY = Expression(
    r"(?:[ \t](?:key|token|secret|provided|is|was|set|to)\b){0,3}\\{0,3}(?:[\"'`]|&quot;|%22)?[\])]{0,2}(?:"
    r"(?P<meant>[ \t,]{0,8}\s{0,40}(?:-\s{0,8})?\\{0,3}[\"']?(?:value|default)\\{0,3}[\"']?[ \t]{0,8}[:=]|"
    r">(?=[^<>\n]{1,4000}</)|[ \t]{0,8},[ \t]{0,8}(?=[rbfu]?\\{0,3}[\"']))|"
    r"(?:[ \t]{0,8}:[ \t]{0,8}(?:typing\.)?(?:Optional|Final|SecretStr|str|bytes)\b[\[\]\w, |.]{0,60}(?==))?"
    r"(?P<sep>[ \t]{0,8}(?:[=-]>|[:=!]?=|:(?!:)|%3[Dd])|[ \t]{1,60}[|\u2502\u2503](?=[ \t]))|(?P<space>(?=[ \t])))"
    rf"[ \t]{{0,60}}(?:(?:str|bytes|Secret\w{{0,5}}|quote|repr)\()?{_SCHEMES}"
    rf"(?:[rbfu]{{0,2}}(?P<quote>\\{{0,3}}(?:\"\"\"|'''|[\"'`])|&quot;|%22){_SCHEMES}"
    r"(?P<quoted>(?:(?!(?P=quote))(?:\\.|[^\\\n])){0,8000})|(?P<bare>[^\s\"'`]{1,200}))?"
)
"""The way from a name to its value."""
_BARE = Expression(r"[^\s\"'`]+")
_LINE = Expression(r"[^\n\"']*")
_STOP = Expression(r"(?:[&;,]|%26|\\u0026)(?:amp;)?[A-Za-z_][\w. -]{0,60}(?:[=:]|%3D)|\\[nrtu]|%26|</|\x1b")
_BOX = Expression(r"[\[(](?![{%])(?:[^\])}\"']|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'){0,2000}")
_ITEM = Expression(
    r"(?<=[\"'])(?![$<{]|[A-Z_]+[\"'])[^\"'\n,]+(?=[\"'])|(?<=[\[(, ])[^\s\"',:\[\](){}]*[0-9][^\s\"',:\[\](){}]*(?!:)"
)
_CODE = Expression(r"(?:await )?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[]|[A-Za-z_]+(?:\.[A-Za-z_]+)+$")
"""Expressions: `os.environ[...]`, `get_token()`, `args.api_key`."""
_SETTER = Expression(r"(?:^|[\s;&|])(?:set|setenv|config|setx|put|ENV|ARG)[ \t]{1,8}(?:[\w./:-]{1,60}[ \t]{1,8})?$")
"""What says that a name's value follows after a space: `aws configure set`, `setenv`."""
_BLOCK = Expression(
    r"([ \t]{0,40})\[{0,2}[\"']?[\w.-]{1,80}[\"']?(?:\]{1,2}|:)[ \t]*\r?\n"
    r"((?:\1[ \t]+[^\n]+\n?|[ \t]*[\w.\"'-]+[ \t]*=[^\n]*\n?)+)"
)
"""A section of a config whose every value is a secret: `secrets:`, `[credentials]`."""
_ROW = Expression(r"(?m)^([ \t]*(?:- )?[\"']?[\w.-]+[\"']?[ \t]*[:=][ \t]*)[^\s\[{|>#][^\n]*")


def _mask_pairs(text: str) -> str:
    """The text without the values of secret names. It is read once, and what is masked is not read again."""
    parts: list[str] = []
    done = 0
    for name in _NAME.finditer(text):
        start, end, shown = _value_of(text, name) if name.start() >= done else (0, 0, "")
        if end > start:
            parts += [text[done:start], shown]
            done = end
    return "".join([*parts, text[done:]])


def _value_of(text: str, found: re.Match[str]) -> tuple[int, int, str]:
    """Where the value of a name lies, and what to write there; an empty piece where it has none that is secret."""
    name = found[0][-_LONGEST:].rstrip(".-$")
    before = text[max(0, found.start() - 80) : found.start()].rpartition("\n")[2]
    spoken = re.search("([A-Za-z]{1,23}) $", before) if name in {"key", "token"} else None
    if spoken and is_secret_name(f"{spoken[1]}_{name}"):
        name = f"{spoken[1]} {name}"  # `API key: ...`
    stop, level = found.start() + len(found[0].rstrip(".-$")), _secrecy(name)
    block = _BLOCK.match(text, found.start() - len(before)) if level == SECRET else None
    if block:
        return block.start(2), block.end(), _ROW.sub(rf"\1{MASK}", block[2])
    way = _WAY.match(text, stop) if level else None
    call = name.endswith(("login", "BasicAuth")) and text[stop + 1 : stop + 2] != "\n"
    if call or (way and way["sep"] and way["bare"] and level == SECRET):
        box = _BOX.match(text, way.start("bare") if way else stop)
        if box:
            return box.start(), box.end(), _ITEM.sub(MASK, box[0])
    if way is None:
        return 0, 0, ""
    sep, quote, space = way["sep"] or "", way["quote"], way["space"] is not None
    at, end = way.span("quoted" if quote else "bare")
    if ":" in sep and not quote and name.lower().endswith(("cookie", "authorization")):
        end = _LINE.match(text, at).end()
    elif not quote:
        end = at + len(_STOP.split(way["bare"] or "", 1)[0].rstrip(".,;:)]}>|"))
    value = text[at:end]
    told = space and (name.startswith("-") or (_SETTER.search(before) and not re.fullmatch("[a-z]+", value)))
    if _is_nothing(value, name) or (not quote and not told and _CODE.match(value)):
        return 0, 0, ""
    if space and not told:
        secret = _is_password(name) if quote else _looks_random(value, 12)
    elif level == DOUBTFUL:
        secret = _looks_random(value, 10 if "token" in name.lower() else 16)
    elif quote or way["meant"] or told:
        secret = value[0] != "-" or not space
    else:
        secret = _hides(name, value, sep, not before.strip(" \t-+>#;/*"))
    if secret and end == at + _LONGEST and not quote:
        end = _BARE.match(text, at).end()
    return (at, end, MASK) if secret else (0, 0, "")


def _hides(name: str, value: str, sep: str, leads: bool) -> bool:
    """Whether a word without quotes behind `=` or `:` is a secret: not one of source text, nor of a sentence."""
    if re.fullmatch("[A-Za-z_]+[0-9]?", value) and len(_TURN.findall(value)) < 3:
        source = sep[0] == " " and "=" in sep and ":" not in sep
        if _secrecy(value) or source:  # `token=hf_token`, `token = x`
            return _is_password(name) and (leads or not value.islower())
    return "=" in sep or leads or bool(re.search("[^a-z]", name) or re.search("[0-9]", value))


# Command lines

_OPTION = r"[ \t](?:[^\n]{0,200}?[ \t])?"
_TOOL = Expression(
    rf"((?<![\w.-])(?:(?:mysql|mysqldump|mysqladmin|mariadb|sshpass|7z){_OPTION}-p|"
    rf"(?:sshpass|(?:docker|podman|helm|skopeo|az|oc)[ \t]+login|mongo|mongosh|twine){_OPTION}-p[ \t]+|"
    rf"(?:curl|https?){_OPTION}(?:-[uUa][ \t]*|--(?:proxy-)?user[ \t=]|--auth[ \t=])[\"']?[^\s:\"']{{1,60}}:|"
    rf"redis-cli{_OPTION}-a[ \t]+|(?:zip|unzip|sqlcmd){_OPTION}-P[ \t]*|"
    r"(?:wandb|comet|hf|huggingface-cli|vault|swanlab)[ \t]+login[ \t]+(?=\S*[0-9])(?=\S{6}))[\"']?)([^\s\"']+)"
)
"""Tools with a short option of their own for a secret."""


def _if_told(found: re.Match[str]) -> str:
    return found[0] if _is_nothing(found[2]) or re.fullmatch(r"[\d.:/-]+(?:tcp|udp)?", found[2]) else found[1] + MASK


# All of it


def mask_text(text: str) -> str:
    """The text with every secret replaced by `***`: `API_KEY=...`, `--api-key ...`, URLs, known token forms."""
    if "-----BEGIN" in text:
        text = _PEM.sub(rf"\1{MASK}", text)
    text = _TOOL.sub(_if_told, text)
    if "://" in text:
        text = _HOOK.sub(rf"\1{MASK}", _USER.sub(_user, text))
    if "@" in text:
        text = _BARE_USER.sub(rf"\1{MASK}@", text)
    text = _WANDB.sub(rf"\1{MASK}", _CRYPT.sub(MASK, _mask_pairs(text)))
    return _CHANCE.sub(_by_chance, mask_tokens(text))


def mask_cut(text: str, longest: int) -> str:
    """The first `longest` characters of a text, masked. The rest of a long text is never read."""
    masked = mask_text(text[: longest + _MARGIN])
    if len(text) > longest + _MARGIN:
        masked = masked[: max(0, len(masked) - _EDGE)]
    return masked[:longest]


def mask_value(name: str, value: str) -> str:
    """The value of a variable or a setting, masked by its name or by its form."""
    level = PLAIN if _is_nothing(value, name) else _secrecy(name)
    return MASK if level == SECRET or (level and _looks_random(value)) else mask_text(value)


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line's words with secrets masked, the word that follows `--api-key` included."""
    line = " ".join(word[: LONGEST_WORD + _MARGIN].replace(" ", "\0") for word in arguments)
    words = [word.replace("\0", " ") for word in _TOOL.sub(_if_told, line).split(" ")]
    return tuple(_argument(words[max(0, at - 2) : at], word) for at, word in enumerate(words[: len(arguments)]))


def _argument(before: Sequence[str], word: str) -> str:
    name, equals, value = word.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name) and is_secret_name(name):
        return word if _is_nothing(value, name) else name + equals + MASK
    told = before and "=" not in before[-1] and (before[-1].startswith("-") or before[0] in {"set", "setenv"})
    if told and not word.startswith("--") and mask_value(before[-1], word) == MASK:
        return MASK
    return mask_cut(word, LONGEST_WORD)
