"""The lexer of shell scripts: text to simple commands made of literal and expanding pieces."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_HEREDOC = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([^\s;&|<>()'\"]+))")
_ORDINARY = re.compile(r"[^'\"\\$` \t\n;&|()<>]+")
"""Characters that mean nothing but themselves, quoted or not."""
_QUOTED = re.compile(r"[^\"\\$`]+")
_LONG = 4096
"""Characters after which a literal goes on in a new piece: texts that grow by a letter cost their square."""
_EXPANSION = re.compile(r"\$(?:[A-Za-z_]\w*|[@*#?$!0-9-])")


@dataclass(slots=True)
class Piece:
    """A part of a word: literal text or an expansion as written, quoted or not."""

    text: str
    expands: bool = False
    quoted: bool = False


@dataclass(slots=True)
class Command:
    """One simple command before expansion."""

    words: list[list[Piece]] = field(default_factory=list)
    arrays: dict[int, list[list[Piece]]] = field(default_factory=dict)
    """Index of an assignment word to the words of its array."""
    line: int = 0
    start: int = 0
    end: int = 0
    after: str = "\n"
    """The operator that stands before it."""


class Lexer:
    """Cuts a script into commands; an unclosed quote ends at the end of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._heredocs: list[tuple[str, bool]] = []
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._row = 0

    def commands(self) -> Iterator[Command]:
        """Simple commands in order, empty ones left out."""
        current = Command()
        while self._at < len(self._text):
            self._blank()
            operator = self._operator()
            if operator:
                if current.words:
                    yield current
                current = Command(after=operator)
                continue
            if self._redirection(current) or self._at >= len(self._text):
                continue
            if not current.words:
                current.line, current.start = self._line(self._at), self._at
            self._word(current)
            current.end = self._at
        if current.words:
            yield current

    def _line(self, place: int) -> int:
        while self._row + 1 < len(self._starts) and self._starts[self._row + 1] <= place:
            self._row += 1
        return self._row + 1

    def _blank(self) -> None:
        """Skip blanks, continuations and comments."""
        text = self._text
        while self._at < len(text):
            if text[self._at] in " \t":
                self._at += 1
            elif text.startswith("\\\n", self._at):
                self._at += 2
            elif text[self._at] == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            else:
                return

    def _operator(self) -> str:
        """A control operator here, consumed; after a newline the bodies of here-documents too."""
        text = self._text
        for operator in ("&&", "||", ";;", "|&"):
            if text.startswith(operator, self._at):
                self._at += 2
                return operator
        char = text[self._at] if self._at < len(text) else ""
        if char == "&" and text[self._at + 1 : self._at + 2] == ">":
            return ""
        if char and char in "\n;&|()":
            self._at += 1
            if char == "\n":
                self._skip_heredocs()
            return char
        return ""

    def _skip_heredocs(self) -> None:
        for delimiter, dash in self._heredocs:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = min(end + 1, len(self._text))
                if (line.lstrip("\t") if dash else line) == delimiter:
                    break
        self._heredocs.clear()

    def _redirection(self, current: Command) -> bool:
        """A redirection here, consumed with its target; a file descriptor before it is no word."""
        text = self._text
        if self._at >= len(text):
            return False
        match = re.compile(r"\d{0,9}(?:&>>?|<<<|>>|>&|<&|>\||<>|<<-?|[<>])").match(text, self._at)
        if match is None or match[0].endswith("(") or text[match.end() : match.end() + 1] == "(":
            return False
        heredoc = _HEREDOC.match(text, match.end() - len(match[0].lstrip("0123456789")))
        if heredoc and "<<<" not in match[0] and "<<" in match[0]:
            self._heredocs.append((heredoc[2] or heredoc[3] or heredoc[4], bool(heredoc[1])))
            self._at = heredoc.end()
            return True
        self._at = match.end()
        self._blank()
        if self._at < len(text) and text[self._at] not in "\n;&|()<>":
            self._word(Command())
        current.end = max(current.end, 0)
        return True

    def _word(self, into: Command) -> None:
        """One word from here to the next blank or operator."""
        text = self._text
        pieces: list[Piece] = []
        while self._at < len(text):
            char = text[self._at]
            if char == "(" and len(pieces) == 1 and re.fullmatch(r"[A-Za-z_]\w*\+?=", pieces[0].text):
                into.arrays[len(into.words)] = self._array()
                break
            if char in "<>" and text[self._at + 1 : self._at + 2] == "(":
                self._at = self._balanced(self._at + 1, "(", ")")
                pieces.append(Piece("<(...)", expands=True, quoted=True))
                continue
            if char in " \t\n;&|()<>":
                break
            self._piece(pieces)
        if not pieces:  # a lone bracket that no rule takes
            self._at += 1
            return
        into.words.append(pieces)

    def _piece(self, pieces: list[Piece]) -> None:
        text, char = self._text, self._text[self._at]
        if char == "'":
            end = text.find("'", self._at + 1)
            end = len(text) if end < 0 else end
            pieces.append(Piece(text[self._at + 1 : end], quoted=True))
            self._at = end + 1
        elif char == '"':
            self._at += 1
            self._double(pieces)
        elif char == "\\":
            following = text[self._at + 1 : self._at + 2]
            if following and following != "\n":
                _literal(pieces, following)
            self._at += 2
        elif char in "$`" and (found := self._expansion()):
            pieces.append(Piece(found, expands=True))
        else:
            run = _ORDINARY.match(text, self._at)
            _literal(pieces, run[0] if run else char)
            self._at = run.end() if run else self._at + 1

    def _double(self, pieces: list[Piece]) -> None:
        """The inside of double quotes, up to and with the closing one."""
        text = self._text
        pieces.append(Piece("", quoted=True))
        while self._at < len(text) and text[self._at] != '"':
            char = text[self._at]
            if char == "\\" and text[self._at + 1 : self._at + 2] in {'"', "\\", "$", "`", "\n"}:
                following = text[self._at + 1]
                _literal(pieces, "" if following == "\n" else following, quoted=True)
                self._at += 2
            elif char in "$`" and (found := self._expansion()):
                pieces.append(Piece(found, expands=True, quoted=True))
            else:
                run = _QUOTED.match(text, self._at)
                _literal(pieces, run[0] if run else char, quoted=True)
                self._at = run.end() if run else self._at + 1
        self._at += 1

    def _expansion(self) -> str:
        """The expansion that starts here, consumed; "" for a lone dollar."""
        text, start = self._text, self._at
        if text[start] == "`":
            end = text.find("`", start + 1)
            self._at = len(text) if end < 0 else end + 1
        elif text.startswith("$(", start):
            self._at = self._balanced(start + 1, "(", ")")
        elif text.startswith("${", start):
            self._at = self._balanced(start + 1, "{", "}")
        elif match := _EXPANSION.match(text, start):
            self._at = match.end()
        else:
            return ""
        return text[start : self._at]

    def _balanced(self, start: int, opening: str, closing: str) -> int:
        """The place after the bracket that closes the one at `start`, quotes inside respected."""
        text, depth, at = self._text, 0, start
        while at < len(text):
            char = text[at]
            if char == "\\":
                at += 1
            elif char == "'" and opening == "(":
                end = text.find("'", at + 1)
                at = len(text) if end < 0 else end
            elif char == opening:
                depth += 1
            elif char == closing:
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return len(text)

    def _array(self) -> list[list[Piece]]:
        """The words of `NAME=( ... )`."""
        self._at += 1
        inside = Command()
        while self._at < len(self._text):
            self._blank()
            if self._at >= len(self._text):
                break
            char = self._text[self._at]
            if char == ")":
                self._at += 1
                break
            if char in "\n;&|(<>":
                self._at += 1
                continue
            self._word(inside)
        return inside.words


def _literal(pieces: list[Piece], text: str, *, quoted: bool = False) -> None:
    last = pieces[-1] if pieces else None
    if last is not None and not last.expands and last.quoted == quoted and len(last.text) < _LONG:
        last.text += text
    else:
        pieces.append(Piece(text, quoted=quoted))
