"""Text of files, logs, names and recordings on a terminal: no character of it may command the terminal."""


def printable(text: str) -> str:
    """The text without control characters: a source line or a log may hold escape sequences or broken bytes.

    Line feeds and tabs stay. A control character becomes its Python escape, a lone surrogate (a file name that
    is no UTF-8) the escape of its byte.
    """
    plain = text.replace("\n", "").replace("\t", "").isprintable()
    return text if plain else "".join(map(_visible, text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """The text on one line: every run of white space is one space."""
    shown = " ".join(text.split())
    return text if shown == text else shown  # a message stays one


def _visible(character: str) -> str:
    code = ord(character)
    if character in "\n\t" or character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:  # os.fsdecode's way to keep a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code in (0x200C, 0x200D):  # joiners shape scripts; other format characters can reorder what a reader sees
        return character
    if character.isspace() and code >= 0xA0:
        return " "
    return f"\\x{code:02x}" if code < 0x100 else character.encode("ascii", "backslashreplace").decode("ascii")
