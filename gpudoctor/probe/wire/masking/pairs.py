"""Names and their values: `API_KEY=...`, `"token": "..."`, `--password ...`, `password: ...`, `X-Api-Key: ...`.

The text is read once, from one secret name to the next; what is masked is not read again.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .forms import MASK, Expression, is_basic, is_uuid, listed, looks_random, turns
from .names import LONGEST, PASSWORDS, PLAIN, STEMS, STRONG, WEAK, is_password_name, secrecy, small
from .values import BLOCK, OPEN, WINDOW, Found, block, closing, cookies, header, is_nothing, line_end

_NAMES = Expression(r"[A-Za-z0-9_.$-]{2,}")
_AFTER = Expression(
    r"(?P<close>\\{0,3}[\"'`]|&quot;|%22)?[\])]{0,2}"
    r"(?P<type>[ \t]{0,8}:[ \t]{0,8}(?:typing\.)?(?:Optional|Final|Annotated|Union|SecretStr|str|bytes)\b"
    r"[\[\]A-Za-z_, |.]{0,60}(?=[ \t]{0,8}=))?"
    r"(?P<sep>[ \t]{0,8}(?:=>|->|:=|==|!=|=(?!=)|:(?!:)|%3[DdAa])[ \t]{0,8}|[ \t]{1,8})"
)
_MEANT = Expression(
    r"(?:\\{0,3}[\"'`])?(?:[ \t]{0,8},)?\s{0,40}(?:-\s{0,8})?(?:\\{0,3}[\"'])?(?i:value|default)"
    r"(?:\\{0,3}[\"'])?[ \t]{0,8}[:=][ \t]{0,8}"
)
"""Between a name that is itself a value and its value: `- name: TOKEN`, and on the next line `value: ...`."""
_SECOND = Expression(r"\\{0,3}[\"'][ \t]{0,8},[ \t]{0,8}(?=[rbfu]?\\{0,3}[\"'])")
_TAGGED = Expression(r">([^<>\n]{1,4000})</")
_PROSE = Expression(
    r"(?i)[ \t](?:key|token|secret|provided|is|was|used|given|value|supplied|entered|id)\b"
    r"(?=[ \t]{0,4}[:=]|[ \t][^ ])"
)
_BEFORE = Expression(r"([A-Za-z]{1,23}) \Z")
_CELL = Expression(
    r"[|\u2502\u2503][ \t]{0,60}([^|\u2502\u2503\s][^|\u2502\u2503\n]{3,400}?)(?=[ \t]{0,60}[|\u2502\u2503])"
)

_WRAPPED = Expression(r"(?:str|bytes|bytearray|SecretStr|SecretBytes|Secret|Token|Password|quote|repr)\(\s{0,4}")

_BARE = Expression(r"[^\s\"'`]+(?:[\"'`](?=[A-Za-z0-9!#-])[^\s\"'`]+)*")
_NEXT = Expression(r"(?:[&;,]|%26|\\u0026)(?:amp;)?[A-Za-z_][A-Za-z0-9_. -]{0,60}(?:[=:]|%3D)")
_ESCAPES = Expression(r"\\[nrt]|\\u0026|%26|</|\x1b")
_CALLER = Expression(
    r"(?:setdefault|set|putenv|setenv|setattr|add_header|insert|update|header|set_secret|put)\(\s{0,8}"
    r"(?:[\"'][\w.-]{0,40}[\"']\s{0,4},\s{0,4})?[\"']?$"
)
_SETTER = Expression(
    r"(?:^|[\s;&|])(?:set|setenv|modify|config|setx|put|login|ENV|ARG)[ \t]{1,8}(?:[\w./:-]{1,60}[ \t]{1,8})?$"
)

_CODE = Expression(
    r"(?:await )?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[]|"
    r"(?:args|self|cls|cfg|config|conf|os|settings|opts?|options|env|environ|params|kwargs|request|secrets|st|ctx|"
    r"FLAGS|hparams|flags|tokenizer|model|torch|wandb|hf|api|client|this|process|var|local|module|data|each|"
    r"credentials|creds|parser|namespace|user|vault|github|inputs|Values)(?:\.[A-Za-z_]\w*)+[,;)\]}:]*$"
)
"""Expressions: `os.environ[...]`, `get_token()`, `args.api_key`."""
_IDENTIFIER = Expression(r"[A-Za-z_][A-Za-z_]*[0-9]?[,;)\]}:]*$")


def mask_pairs(text: str, contained: bool = False) -> str:
    """The text without the values of secret names; what is in a container already has none of its own."""
    parts: list[str] = []
    done, seen = 0, len(text) if contained else 0
    judged = names = 0
    for word in _NAMES.finditer(text):
        if word.start() < done or not STEMS.search(small(word[0])):
            continue
        names += 1
        if judged > _MOST_PAIRS or names > _MOST_STEMS:
            return "".join([*parts, text[done : word.start()], _HARSH.sub(rf"\1{MASK}", text[word.start() :])])
        pair = _Pair(text, word, seen)
        if pair.level == PLAIN or (text[pair.end : pair.end + 1] or " ") not in _FOLLOWS:
            continue
        judged += 1
        start, end, shown = pair.value()
        seen = max(seen, pair.seen)
        if end > start:
            parts += [text[done:start], shown]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


_MOST_PAIRS, _MOST_STEMS = 8_000, 40_000
"""Names that are judged one by one. A text with more of them is not one for people: all are masked."""
_HARSH = Expression(rf"(?i)((?:{STEMS.pattern})[A-Za-z0-9_.-]{{0,60}}[\"'\]>)\\]{{0,4}}[\s=:,>-]{{1,8}})\S+")


_FOLLOWS = frozenset(" \t\r\n=:\"'`\\]),>&%-!|")
"""What may follow a name and begin the way to its value."""


class _Pair:
    """A secret name in a text, and where its value is."""

    def __init__(self, text: str, word: re.Match[str], seen: int) -> None:
        self.text = text
        self.seen = seen
        """Up to where containers have been read."""
        self.end = word.start() + len(word[0].rstrip(".-$"))
        self.start = word.end() - len(word[0].lstrip(".$"))
        if text[max(0, self.start - 1) : self.start] == "\\" and text[self.start] in "nrtu":
            self.start += 5 if text.startswith("u00", self.start) else 1  # an escape in front: `\nTOKEN=`, `\u0026sig=`
        self.name = text[max(self.start, self.end - LONGEST) : self.end]
        self.level = secrecy(self.name)
        self.dashed = self.name.startswith("-")
        if self.level == PLAIN and self.name in {"key", "Key", "KEY", "--key"}:
            before = text[max(0, self.start - 1) : self.start]
            self.level = WEAK if before in {"?", "&", "-"} or self.dashed else PLAIN
        if text[self.start - 1 : self.start] == " " or text[self.end : self.end + 1] == " ":
            self._spaced()
        self.password = self.level != PLAIN and is_password_name(self.name)

    def _spaced(self) -> None:
        """Names of two words in prose: `API key: ...`, `access token is ...`."""
        text, name = self.text, self.name.lower()
        if name in {"key", "token", "secret", "string"} and text[self.start - 1 : self.start] == " ":
            before = _BEFORE.search(text, max(0, self.start - 24), self.start)
            level = secrecy(f"{before[1]}_{name}") if before else PLAIN
            if before and level == STRONG and name != "token":
                self.level, self.name = STRONG, f"{before[1]} {name}"
            elif before and level == PLAIN and name == "token":  # "the next token"
                self.level = PLAIN
        for _ in range(2):
            if self.level == PLAIN:
                break
            word = _PROSE.match(text, self.end)
            if word is None:
                break
            self.end = word.end()
            self.name += word[0]

    # -- where the value is

    def value(self) -> Found:
        """Start and end of what is to be replaced, and the text instead; an empty piece when nothing is."""
        text, end = self.text, self.end
        follows = text[end : end + 1]
        if follows == "=" and text[end + 1 : end + 2] not in {"=", ">", " ", "\t"}:  # the common way, quickly
            return self._at(end + 1, "=", code=False)
        if follows == ">":
            tagged = _TAGGED.match(text, end)
            if tagged is not None and not is_nothing(tagged[1]) and (self.level == STRONG or looks_random(tagged[1])):
                return tagged.start(1), tagged.end(1), MASK
        meant = _MEANT.match(text, end)
        if meant is not None and (meant[0][:1] in "\"'`\\," or "\n" in meant[0] or "value=" in meant[0]):
            return self._at(meant.end(), "=", code="default" in meant[0])
        second = _SECOND.match(text, end)
        if second is not None and self._takes_second():
            return self._at(second.end(), ",", code=False)
        after = _AFTER.match(text, end)
        if after is None:
            return end, end, ""
        sep = after["sep"]
        if not sep.strip():
            return self._spaced_value(after.end(), bool(after["close"]))
        code = bool(after["type"]) or (sep != sep.strip() and "=" in sep) or "==" in sep or "!=" in sep
        return self._at(after.end(), sep, code=code, closed=bool(after["close"]))

    def _takes_second(self) -> bool:
        """Whether a quoted name and the string behind it are a pair: `("--token", "x")`, `putenv("X", "y")`."""
        head = self.text[max(0, self.start - 80) : self.start]
        letters = self.name.isupper() and "_" in self.name
        header = self.name.lower().startswith("x-") or self.name.lower() == "authorization"
        return self.dashed or letters or header or bool(_CALLER.search(head))

    def _spaced_value(self, at: int, closed: bool) -> Found:
        """The value after white space alone: of an option, of `set NAME`, a quoted one after a password."""
        text, nothing = self.text, (at, at, "")
        if closed or at >= len(text):
            return nothing
        line = text.rfind("\n", max(0, self.start - 80), self.start) + 1 or max(0, self.start - 80)
        before = text[line : self.start]
        if self.dashed:
            return nothing if text[at] == "-" else self._at(at, " ", code=False)
        if text[at] in "|\u2502\u2503" and self.level == STRONG:
            cell = _CELL.match(text, at)
            if cell is None or is_nothing(cell[1], password=self.password):
                return nothing
            # `| token | count |` is the head of a table; nobody heads one `wandb_api_key`.
            secret = self._compound() or any(map(str.isdigit, cell[1]))
            return (cell.start(1), cell.end(1), MASK) if secret else nothing
        if _SETTER.search(before) or (self.name == "password" and self._netrc(before, at)):
            return self._at(at, " ", code=False)
        words = self.name.split()
        if text[at] in "\"'`" and self.password and self.level == STRONG:
            return self._at(at, " ", code=False)
        value = _BARE.match(text, at, at + WINDOW)
        if value is not None and self.level == STRONG and len(words) >= 1 and looks_random(value[0].strip(".,;:"), 12):
            return self._at(at, " ", code=False)
        return nothing

    def _netrc(self, before: str, at: int) -> bool:
        """`machine api.wandb.ai login user password ...`, on one line or on a line each."""
        if "machine " in before or "login " in before:
            return True
        return not before.strip() and len(self.text[at : line_end(self.text, at)].split(None, 1)) == 1

    def _at(self, at: int, sep: str, *, code: bool, closed: bool = False) -> Found:
        """The value that begins at a place."""
        text, nothing = self.text, (at, at, "")
        if at >= len(text):
            return nothing
        if self.name.lower().endswith("authorization"):
            return header(text, at)
        if "cookie" in self.name.lower() and ":" in sep:
            return cookies(text, at)
        opens = BLOCK.match(text, at) if ":" in sep else None
        if opens is not None:
            return block(text, self.start, opens.end())
        if text[at] in "[({" and not text.startswith(("{{", "{%"), at):
            return self._container(at)
        wrapped = _WRAPPED.match(text, at)
        opened = OPEN.match(text, wrapped.end() if wrapped is not None else at)
        if opened is not None:
            return self._quoted(opened)
        bare = _BARE.match(text, at, at + WINDOW)
        if bare is None:
            return nothing
        end = self._bare_end(at, bare.end(), sep, code)
        if end == at or not self._hides(text[at:end], sep, code, text[end : end + 1], closed):
            return nothing
        if end == at + WINDOW:  # a long one is judged by its head, and masked to its end
            whole = _BARE.match(text, at)
            end = self._bare_end(at, whole.end(), sep, code) if whole else end
        return at, end, MASK

    def _quoted(self, opened: re.Match[str]) -> Found:
        text, start = self.text, opened.end()
        closer = opened[1] + opened[2]
        end = closing(text, start, closer)
        value = text[start:end]
        nothing = (start, start, "")
        if is_nothing(value, password=self.password) or self._known_word(value):
            return nothing
        return (start, end, MASK) if self.level == STRONG or self._weak(value) else nothing

    def _weak(self, value: str) -> bool:
        """Whether the value of a doubtful name is a secret by its looks."""
        if self.name.lower() == "key" and is_uuid(value):
            return True
        if "auth" in self.name.lower() and is_basic(value):
            return True
        if "token" not in self.name.lower():
            return looks_random(value)
        mixed = any(map(str.isupper, value)) and any(map(str.islower, value)) and any(map(str.isdigit, value))
        return looks_random(value, 10) or (mixed and len(value) >= 10)

    def _known_word(self, value: str) -> bool:
        """Whether the value is itself a name of the vocabulary: `type="password"`, `token_type: "bearer"`."""
        if self.name == "token" and len(value) < 8 and value.strip("\u2581\u0120#@ ").isalpha():
            return True  # a piece of text
        return (
            value.isalpha()
            and (value.lower() in PASSWORDS or value.lower() in {"bearer", "basic", "token"})
            and (not self.password)
        )

    def _bare_end(self, at: int, end: int, sep: str, code: bool) -> int:
        """Where a value without quotes ends: before the next pair, and before what closes a call."""
        text = self.text
        chunk = text[at:end]
        if "&" in chunk or ";" in chunk or "," in chunk or "%" in chunk or "\\" in chunk:
            following = _NEXT.search(text, at + 1, end)
            end = following.start() if following is not None else end
        if "=" in sep and text[self.start - 1 : self.start] in {"?", "&"}:
            for mark in "&#":
                cut = text.find(mark, at, end)
                end = cut if cut > at else end
        if "\\" in chunk or "%" in chunk or "</" in chunk or "\x1b" in chunk:
            escape = _ESCAPES.search(text, at + 1, end)
            end = escape.start() if escape is not None else end
        closers = ",;)]}|" if text[at] == "<" else ",;)]}>|"
        while end > at + 1 and text[end - 1] in closers and (code or sep != " " or text[end - 1] in ",;"):
            end -= 1
        return end

    def _hides(self, value: str, sep: str, code: bool, ends: str, closed: bool) -> bool:
        """Whether a bare word after a secret's name is its value."""
        if is_nothing(value, password=self.password):
            return False
        if self.level == WEAK:
            return self._weak(value)
        if sep == " ":
            return True
        if _CODE.match(value) and (code or not self.dashed):
            return False
        if value[0] in "/~" and self.name.lower() in {"pwd", "oldpwd"}:
            return False
        lively = any(map(str.isdigit, value)) or not value.isalpha()
        if ends == ")" or code:  # source text, whose secrets are in quotes; or a line of an INI file
            if _IDENTIFIER.match(value) and (len(value) < 12 or turns(value) < 0.2):
                return self.password and self._leads() and ends in {"", "\n", "\r"} and not secrecy(value)
            return looks_random(value, 8) or turns(value) >= 0.2 or (lively and (self._leads() or self._compound()))
        if _IDENTIFIER.match(value) and secrecy(value) and value.lower() not in PASSWORDS and ends == ",":
            return False
        if ":" in sep and not closed:
            return self._after_colon(value, lively)
        return True

    def _after_colon(self, value: str, lively: bool) -> bool:
        """A line of YAML or of a header against a colon in prose."""
        if self.name.isupper() or "_" in self.name or "-" in self.name or not self.name.islower():
            plain = self.name.isalpha() and self.name.istitle()
            return not plain or lively or self.password or self._leads()
        if self._leads() and self.name not in {"token", "key"}:
            return True
        if self.name == "token":
            return looks_random(value, 8) or (len(value) >= 8 and any(map(str.isdigit, value)))
        return (lively and len(value) >= 8) or looks_random(value, 8) or (self.password and lively)

    def _compound(self) -> bool:
        """Whether the name has several words: `wandb_api_key`, not `token`."""
        return not self.name.isalpha() or self.name.lower() != self.name

    def _leads(self) -> bool:
        """Whether the name is the first word of its line."""
        before = self.text[max(0, self.start - 200) : self.start].rpartition("\n")[2]
        return not before.strip(" \t-+>|#;/*")

    # -- values of other shapes

    def _container(self, at: int) -> Found:
        """A list or a mapping: every string in it that is not a key."""
        region = _REGION.match(self.text, at)
        if at < self.seen or region is None:
            return at, at, ""
        self.seen = region.end()
        masked = _STRING.sub(lambda found: found[1] + MASK if self._in_container(found[2]) else found[0], region[0])
        return (at, region.end(), mask_pairs(masked, True)) if masked != region[0] else (at, at, "")

    def _in_container(self, value: str) -> bool:
        if is_nothing(value) or secrecy(value) == STRONG:
            return False
        return self.level == STRONG or "auth" in self.name.lower() or looks_random(value)


_REGION = Expression(r"[\[({](?:[^\])}\"']|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'){0,2000}")
_STRING = Expression(r"([\"'])((?:(?!\1)[^\\\n]|\\.)+)(?=\1\s{0,4}[^:\s]|\1\s{0,4}\Z)")


# Sections of configs whose every value is a secret: `secrets:`, `[credentials]`.

_SECTIONS = listed("sections")
_HEADS = rf"(?:[\w.-]{{0,60}}[._-])?(?:{'|'.join(sorted(_SECTIONS))})"
_INDENTED = Expression(
    rf"(?im)^([ \t]{{0,40}})([\"']?{_HEADS}[\"']?[ \t]{{0,40}}:[ \t]{{0,40}}\r?\n)((?:\1[ \t]+[^\n]*\n?|[ \t]*\n)+)"
)
_TABLE = Expression(
    rf"(?im)^([ \t]{{0,40}})(\[\[?[ \t]{{0,4}}{_HEADS}[ \t]{{0,4}}\]\]?[ \t]{{0,40}}\r?\n)"
    r"((?:[ \t]*[^\[\s][^\n]*\n?|\s+)+)"
)
_ROW = Expression(
    r"(?m)^([ \t]*(?:- )?[\"']?([\w.-]+)[\"']?[ \t]*[:=][ \t]*[\"']?)([^\s\"'#]+(?:[^\"'\n#]*[^\s\"'#])?)"
)
_SHOWN = listed("entries_shown")


def is_secret_entry(parents: Collection[str], name: str) -> bool:
    """Whether an entry of sections of these names is a secret by them: not the `user` or the `host` in them."""
    return not _SECTIONS.isdisjoint(parent.lower() for parent in parents) and name.lower() not in _SHOWN


def mask_sections(text: str) -> str:
    """The text without the values of such sections; each ends where its indentation or its table ends."""
    for section in (_INDENTED, _TABLE):
        text = section.sub(lambda found: found[1] + found[2] + _ROW.sub(_masked, found[3]), text)
    return text


def _masked(row: re.Match[str]) -> str:
    shown = row[2].lower() in _SHOWN or is_nothing(row[3]) or row[3][0] in "[{|>"
    return row[0] if shown or secrecy(row[2]) else row[1] + MASK  # one with a secret's name is masked by that
