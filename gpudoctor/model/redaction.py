"""Secrets are masked before they reach a sign, a report or a recording: pure functions on names and texts.

Training is full of names that only look secret (`max_tokens`, `pad_token`, `key_padding_mask`, `sort_key`),
and a report that masks those cannot be read. So a name counts word by word and by its neighbours.
"""

import re
from collections.abc import Sequence

MASK = "***"
"""What stands where a secret stood."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

_ALWAYS = _words(
    "secret secrets password passwords passwd passphrase credential credentials apikey apikeys accesskey "
    "secretkey privatekey authtoken accesstoken jwt"
)
"""Words that make a name secret wherever they stand in it."""

_SETTINGS = _words("length len min max policy field file path dir name count size type timeout")
"""Last words that turn a password into a setting about passwords."""

_KEY_OWNERS = _words(
    "api access secret private auth encryption signing ssh account storage service license deploy admin master "
    "wandb openai anthropic comet neptune mlflow huggingface hf aws azure gcp google github gitlab "
    "subscription client webhook"
)
"""Words before KEY that make it a credential in any case of letters."""

_PLAIN_KEYS = _words(
    "sort primary foreign public label image text input output dict state cache group query map metric column "
    "target data feature shard hot num value index partition target video audio caption prompt"
)
"""Words before KEY in an environment variable that name a place in data."""

_PLAIN_TOKENS = _words(
    "pad padding eos bos unk cls sep mask masked special image img video audio speech vision start end stop "
    "begin next last first prev previous current per num max min n new old prefix suffix vocab added add "
    "decoder forced label think thinking target source src tgt by prompt sentinel placeholder each every "
    "word sub subword byte char character tool eot eom sot bot eoh response answer instruction assistant "
    "user system boi eoi patch register class time text visual latent separator delimiter newline space "
    "blank ctc pred predicted input output one single trigger draft total avg mean extra fim infill"
)
"""Words before TOKEN that make it a token of text."""

_SWITCHES = _words("use has with allow enable require requires no is")
"""First words of switches: `use_auth_token=True` holds no secret, and a string there is masked by its form."""

_FORMS = (
    r"hf_[A-Za-z0-9]{20,}",
    r"hf_(?=(?:[A-Za-z]{0,40}\d){3})[A-Za-z0-9]{8,}",
    r"sk-(?=[A-Za-z_-]{0,24}\d)[A-Za-z0-9_-]{16,}",
    r"gh[pousr]_[A-Za-z0-9]{16,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"(?:AKIA|ASIA)[0-9A-Z]{12,}",
    r"AIza[0-9A-Za-z_-]{30,}",
    r"xox[abeprs]-[A-Za-z0-9-]{10,}",
    r"nvapi-[A-Za-z0-9_-]{16,}",
    r"pypi-[A-Za-z0-9_-]{32,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"r8_[A-Za-z0-9]{30,}",
    r"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?",
)
"""Credentials that their issuers gave a form of their own."""

_TOKEN = re.compile(r"(?<![A-Za-z0-9_])(?:" + "|".join(_FORMS) + r")(?![A-Za-z0-9])")
_PEM = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[^-]{0,20000}(-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
)
_URL = re.compile(
    r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{0,20}://)"
    r"(?:[^\s/:@'\"]{0,200}:[^\s/@'\"]{1,500}|[^\s/:@'\"]{16,500})@"
)
_BEARER = re.compile(
    r"(?i)\b(bearer|basic|authorization: token)(\s+)(?!\*{3})"
    r"(?=[A-Za-z._~+/=-]{0,200}\d)[A-Za-z0-9._~+/=-]{8,}"
)
_NAME = re.compile(
    r"(?<![A-Za-z0-9_.])(?P<dashes>-{0,2})(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,80})(?P<close>[\"']?\]?)"
    r"(?P<sep>[ \t]{0,8}[:=][ \t]{0,8}|[ \t]{1,8})"
)
_VALUE = re.compile(
    r"[rbfu]?\"(?P<double>[^\"\n]{1,4000})|[rbfu]?'(?P<single>[^'\n]{1,4000})|(?P<bare>[^\s\"'&;]{1,4000})"
)
_LOGIN = re.compile(r"(\blogin\([^()\n]{0,200}?(?:\b(?:key|token)\s*=\s*)?[\"'])([^\"'\n]{6,})(?=[\"'])")
_REFERENCE = re.compile(r"\$[{(\w]|<[^>]*>$|\{[^}]*\}$|\*{3}$")
"""Quoted values that only name a secret: `"$TOKEN"`, `"<your key>"`, `f"{token}"`."""
_EXPRESSION = re.compile(
    r"(?:True|False|None|true|false|null|none|yes|no|on|off)[,)\]}]*$"
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[]"
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[,)\]}]*$"
    r"|\$[{(\w]|<[^>]*>$|\*{3}|\{"
)
"""Bare values that name or fetch a secret: `os.environ[...]`, `args.api_key`, `$TOKEN`, `<your key>`."""


def is_secret_name(name: str) -> bool:
    """Whether a variable, option or key is named like a secret: `WANDB_API_KEY`, `--hub-token`, `apiKey`."""
    words = [word.lower() for word in _WORD.findall(name)]
    while words and (words[-1].isdigit() or words[-1] in {"value", "str", "v"}) and len(words) > 1:
        words.pop()
    if not words or words[0] in _SWITCHES:
        return False
    if _ALWAYS & set(words):
        # GOOGLE_APPLICATION_CREDENTIALS is a path and still nobody's business; `password_min_length` is not.
        return words[-1] in _ALWAYS or words[-1] not in _SETTINGS
    shouted = name == name.upper()
    before = words[-2] if len(words) > 1 else ""
    if words[-1] == "token":
        return before not in _PLAIN_TOKENS
    if words[-1] in {"key", "keys"}:
        return _is_key(before, shouted=shouted, plural=words[-1] == "keys")
    if words[-2:] == ["key", "id"]:  # AWS_ACCESS_KEY_ID
        return len(words) > 2 and words[-3] in _KEY_OWNERS
    if words[-1] == "tokens":
        return before in {"auth", "access", "api", "refresh"}
    if words[-1] in {"pwd", "pass", "auth"}:  # DB_PWD, SMTP_PASS, NETRC_AUTH; not PWD, `forward_pass`
        return shouted and len(words) > 1
    return words[-1] in {"cookie", "cookies", "dsn"} or words[-2:] == ["connection", "string"]


def mask_text(text: str) -> str:
    """The text with every secret replaced by `***`: `API_KEY=...`, `--api-key ...`, URLs, known token forms."""
    if not text:
        return text
    text = _PEM.sub(rf"\1{MASK}\2", text) if "PRIVATE KEY" in text else text
    text = _URL.sub(rf"\1{MASK}@", text) if "://" in text else text
    text = _TOKEN.sub(MASK, text)
    text = _LOGIN.sub(lambda match: match[1] + MASK, text) if "login(" in text else text
    text = _BEARER.sub(rf"\1\2{MASK}", text)
    return _mask_pairs(text)


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line's words with secrets masked, the word that follows `--api-key` included."""
    masked: list[str] = []
    secret_next = False
    for word in arguments:
        if secret_next and not word.startswith("--"):
            masked.append(MASK)
            secret_next = False
            continue
        masked.append(mask_text(word))
        secret_next = word.startswith("-") and "=" not in word and is_secret_name(word)
    return tuple(masked)


def _is_key(before: str, *, shouted: bool, plural: bool) -> bool:
    if before in _KEY_OWNERS:
        return True
    return shouted and not plural and before not in _PLAIN_KEYS


def _mask_pairs(text: str) -> str:
    """Mask values of secret names, name by name: a value that is none may begin the next pair."""
    parts: list[str] = []
    done = 0
    for name in _NAME.finditer(text):
        if name.start() < done or not is_secret_name(name["name"]):
            continue
        match = _VALUE.match(text, name.end())
        if match is None:
            continue
        value = next(kind for kind in ("double", "single", "bare") if match[kind] is not None)
        if _hides(name, match[value], quoted=value != "bare"):
            parts += [text[done : match.start(value)], MASK]
            done = match.end(value)
    return "".join([*parts, text[done:]])


def _hides(match: re.Match[str], value: str, *, quoted: bool) -> bool:
    """Whether what follows a secret's name is its value."""
    name, sep = match["name"], match["sep"]
    if not sep.strip():  # "--api-key X"; two words of prose are no pair
        return bool(match["dashes"]) and not value.startswith("-") and not _EXPRESSION.match(value)
    if quoted:
        return not _REFERENCE.match(value)
    if _EXPRESSION.match(value):
        return False
    digits = any(char.isdigit() for char in value)
    if ":" in sep and not match["close"] and name.isalpha() and name.islower():
        before = match.string[max(0, match.start() - 200) : match.start()].rpartition("\n")[2]
        leads = not before.strip(" \t-") and name not in {"token", "key"}  # a line of YAML, not prose
        return leads or (digits and len(value) >= 8)
    if "=" in sep and sep != "=":  # "token = first", source text, whose secrets stand in quotes
        return digits and len(value) >= 8
    return True
