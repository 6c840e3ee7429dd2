"""Logs in one line each, in cases.txt: the first cause of each, and none where the training goes on."""

import re
from pathlib import Path

import pytest
from log_causes import FRAME, HEAD, root_of, steps

PARTS = {
    "{on}": "".join(f"step {number} loss 0.{number} lr 1e-4\n" for number in range(100, 120)),
    "{T}": HEAD + FRAME,
    "{head}": HEAD,
    "{frame}": FRAME,
    "{said}": "".join(f"layer {'abcdefghijklmnopqrstuvwxyz'[n % 26] * (n + 1)} is on the card\n" for n in range(150)),
}


def sections():
    found = {}
    for line in (Path(__file__).parent / "cases.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("==== "):
            rows = found.setdefault(line[5:], [])
        elif found and "\t" in line:
            rows.append(line.split("\t", 1))
    return found


def counted(found):
    return "⏎".join(found[3].replace("{n}", str(n)) for n in range(int(found[1]), int(found[2]) + 1))


def expanded(text):
    text = re.sub(r"\{(\d+)-(\d+)\}([^⏎]*)", counted, text)
    text = re.sub(r"\{(\d+)\*\}([^⏎]*)", lambda found: "⏎".join([found[2]] * int(found[1])), text)
    text = text.replace("⏎", "\n") + "\n"
    for name, part in PARTS.items():
        text = text.replace(name, part)
    return re.sub(r"\{steps (\d+) (\d+)\}", lambda found: steps(int(found[1]), int(found[2])), text)


def read(root, wanted):
    """What was read of that which is wanted."""
    others = wanted[1:]
    if root is None or isinstance(root, str):
        return [root or "-"]
    own = {"frame": root.frame and root.frame.line, "bearing": root.bearing.value}
    kinds = [root.kind] if others and "=" not in others[0] else []
    names = [item.partition("=")[0] for item in others[len(kinds) :]]
    return [root.code, *kinds, *(f"{name}={own[name] if name in own else getattr(root, name)}" for name in names)]


SECTIONS = sections()


@pytest.mark.parametrize("section", SECTIONS)
def test_the_first_cause(section):
    wrong = []
    for wanted, text in SECTIONS[section]:
        *parts, goes_on = [*wanted.removesuffix(" +").split(" "), wanted.endswith(" +")]
        text = expanded(text)
        if read(root_of(text), parts) != parts:
            wrong.append((wanted, read(root_of(text), parts), text))
        if goes_on and root_of(text + steps(500, 540)) is not None:
            wrong.append((wanted, "although the training goes on", text))
    assert not wrong and SECTIONS[section]
