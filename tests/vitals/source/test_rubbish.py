"""Whatever a file holds: never an exception, always within time."""

import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudoctor.model.signs.source import Known, Source, Unknown
from gpudoctor.vitals.source import read_source

SCRIPT = (Path(__file__).parents[3] / "examples" / "train_crops.py").read_text(encoding="utf-8")

TOKENS = [
    "for", "while", "if", "else:", "def f(self, *a, k=1, **b):", "class C(C):", "return", "yield", "x", "self", "x.y", "loss",
    "model", ".backward()", ".step()", "optimizer", "loader", "(", ")", "[", "]", "{", "}", ":", "=", "+=", "%", "==", "in", "not",
    "and", "or", "0", "1", "'a'", "f'{x}'", "\n", "\n    ", "\n        ", ",", "lambda:", "import torch", "from a import *",
    "with", "as", "try:", "except:", "global x", "nonlocal x", "del", "*", "**", "@", "async", "await", "match x:", "case _:", "->",
    "torch.no_grad()", "print(x)", "range(3)", "DataLoader(x)", "args", "parse_args()", "\\", "#", "'''", ":=", ".", ";", "None",
]  # fmt: skip


def read_text(text: str) -> Source:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "main.py")
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        source = read_source([path], {str(path): ["--accumulate", "3"]})
    for script in source.scripts:
        for loop in script.loops:
            for event in list(loop.events)[:500]:
                event.thing(event.node)
                assert event.period is None or isinstance(event.period, Known | Unknown)
    return source


@given(st.lists(st.sampled_from(TOKENS), max_size=60))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_token_soup(tokens: list[str]) -> None:
    read_text(" ".join(tokens))


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("latin-1")))
@settings(max_examples=40, deadline=None)
def test_any_text(text: str) -> None:
    read_text(text)


@given(st.integers(0, 10**9), st.integers(1, 12))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_scripts(seed: int, mutations: int) -> None:
    """Lines and words swapped, dropped and doubled; what still parses is interpreted."""
    chance = random.Random(seed)
    lines = SCRIPT.split("\n")
    for _ in range(mutations):
        place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        kind = chance.randrange(4)
        if kind == 0:
            lines[place], lines[other] = lines[other], lines[place]
        elif kind == 1:
            indent = len(lines[place]) - len(lines[place].lstrip())
            lines[place] = " " * indent + lines[other].strip()
        elif kind == 2:
            lines.insert(place, lines[place])
        else:
            names = ["model", "loss", "loader", "args", "torch", "step", "self", "x", "3", "None", "kwargs"]
            lines[place] = lines[place].replace(chance.choice(names), chance.choice(names))
    read_text("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "+".join(["a"] * 3000),
        "x = " + ".a".join(["x"] * 2) + ".b" * 900,
        "f" + "(1)" * 900,
        "\n".join(" " * i + "if x:" for i in range(95)) + " pass",
        "\n".join(f"def f{i}(): return f{i + 1}()" for i in range(600)) + "\nf0()",
        "\n".join(f"def f{i}(x): f{i + 1}(x); f{i + 1}(x)" for i in range(60)) + "\nfor i in y: f0(i)",
        "from dataclasses import dataclass\n@dataclass\nclass Node:\n a: 'Node' = None\n b: 'Node' = None\n"
        " lr: float = 0.1\ndef f(x: Node): y = x.lr\n",
        "\n".join(f"class C{i + 1}(C{i}): pass" for i in range(400)),
        "class A(A): pass\nclass B(A, B): pass\nA().x()",
        "x = {}\n" + "\n".join(f"x['k{i}'] = {i}" for i in range(3000)),
        "if a: pass\n" + "elif b: pass\n" * 800,
        "x = x = x\n" * 500 + "for x in x:\n x = x\n x.append(x)",
        "match x:\n case {'a': [1, *r], **z} if y: pass\n case C(a=1) | None: pass",
    ],
)
def test_programs_that_are_hard_on_readers(text: str) -> None:
    start = time.process_time()
    read_text(text)
    assert time.process_time() - start < 3
