"""Job scripts, manifests, YAML and Python sources that are small and come to much."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from attack.case import Attempt
from attack.hostile.commands import run, warm, why_broken

GROUP = "job scripts and sources"
TRAIN = (
    "import torch\nmodel = torch.nn.Linear(2, 2)\nfor batch in loader:\n    loss = model(batch)\n    loss.backward()\n"
)


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Each text as a file that check reads."""
    warm()
    dice = random.Random(seed)
    for number, (name, file, text) in enumerate([*_jobs(dice), *_manifests(), *_yaml(), *_python(dice)]):
        folder = scratch / f"s{number}"
        folder.mkdir()
        (folder / file).write_text(text, encoding="utf-8", errors="surrogateescape")
        (folder / "train.py").touch()
        outcome = run(
            ["check", file, "--fail-on", "never", *dice.choice([["--format", "json"], [], ["--verbose"]])], folder
        )
        yield Attempt(group=GROUP, name=name, broken=why_broken(outcome, (0, 2, 3)))
        shutil.rmtree(folder)


def _jobs(dice: random.Random) -> Iterator[tuple[str, str, str]]:
    launch = "torchrun --nproc_per_node=8 train.py $X\n"
    scripts = {
        "doubled 22 times": "X=aaaa\n" + "X=$X$X\n" * 22, "doubled 60 times": "X=a\n" + "X=$X$X\n" * 60, "doubled in quotes": "X=a\n" + 'X="${X}${X}"\n' * 40,
        "doubled by +=": "X=a\n" + "X+=$X\n" * 40, "ten names": "".join(f"A{i + 1}=$A{i}$A{i}$A{i}\n" for i in range(40)).replace("A0", "HOME"),
        "arrays doubled": "A=(a b)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 40, "arrays grow": "A=(a b)\n" + 'A+=("${A[@]}")\n' * 40, "defaults nested": "X=" + "${Y:-" * 200 + "a" + "}" * 200 + "\n",
        "defaults doubled": "".join(f"X{i}=${{Y{i}:-$X{i - 1}$X{i - 1}}}\n" for i in range(1, 50)), "exports doubled": "export X=a\n" + "export X=$X$X\n" * 40,
        "words doubled": 'X="a b"\n' + 'X="$X $X"\n' * 30 + "torchrun train.py $X $X $X\n", "for loops": "for i in " + "a " * 100_000 + "; do torchrun train.py; done\n",
        "here-documents": "cat <<A <<B <<C <<D\n" * 3000 + "x\n" * 3000, "an open here-document": "cat <<EOF\n" + "x\n" * 100_000, "substitutions nested": "X=" + "$(" * 5000 + "a" + ")" * 5000 + "\n",
        "backticks": "X=" + "`" * 10_001 + "\n", "substitutions open": "X=$(" * 20_000, "brackets": "(" * 50_000, "braces": "{ " * 50_000, "quotes": "'" * 50_001, "double quotes": '"$(' * 20_000,
        "arithmetic nested": "X=$((" + "(" * 90 + "1" + ")" * 90 + "))\n", "arithmetic of names": "Y=" + "(" * 150 + "\nX=$(($Y$Y$Y 1))\n", "arithmetic grows": "X=9\n" + "X=$((X*X))\n" * 60,
        "arithmetic by zero": "X=$((1/0)) Y=$((5%0))\n", "minus": "X=$((" + "-" * 190 + "1))\n", "digits": "X=$((" + "9" * 190 + "*" + "9" * 5 + "))\n", "blanks": "torchrun" + " " * 200_000 + "train.py\n",
        "continuations": "torchrun " + "\\\n   " * 50_000 + "train.py\n", "comments": "# x\n" * 300_000, "ifs": "if true; then\n" * 20_000, "a million lines": "echo a\n" * 600_000,
        "calls itself": "bash odd.sh\n" * 1000, "sources itself": ". odd.sh\nsource odd.sh\nsh odd.sh\n" * 500, "bash -c nested": "bash -c " + "'bash -c \"bash -c " * 20 + "x\n",
        "long word": "torchrun " + "a" * 1_000_000 + "\n", "many words": "torchrun train.py " + "--a b " * 200_000 + "\n", "many exports": "".join(f"export V{i}={i}\n" for i in range(50_000)) + "bash x.sh\n" * 2000,
        "SBATCH lines": "#SBATCH --gres=gpu:" + "9" * 5000 + "\n#SBATCH --time=" + "9-" * 2000 + "\n#SBATCH --mem=" + "9" * 5000 + "T\n", "SBATCH many": "#SBATCH --x=y\n" * 100_000,
        "PBS": "#PBS -l select=" + "9" * 5000 + ":ncpus=" + "8:" * 5000 + "\n", "globs": "torchrun " + "*" * 10_000 + " " + "?[a-z]" * 5000 + "\n", "no text": "\udcff\udcfe" * 5000, "redirections": "torchrun train.py " + ">a <b 2>&1 " * 30_000 + "\n",
        "pipes": "torchrun train.py" + " | tee a" * 30_000 + "\n", "ands": "torchrun train.py" + " && torchrun train.py" * 3000 + "\n", "functions": "f() {\n" * 20_000, "cases": "case $X in a) torchrun train.py;;\n" * 10_000,
    }  # fmt: skip
    for name, text in scripts.items():
        yield f"job script: {name}", "odd.sh", "#!/bin/bash\n#SBATCH --gres=gpu:8\n" + text + launch
    alphabet = [
        "$X",
        "${X}",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "\\",
        "\n",
        " ",
        "X=",
        "((",
        "))",
        "<<E",
        "E\n",
        "${X:-",
        "}",
        "A=(",
        "${A[@]}",
        ";",
        "&&",
        "|",
        ">",
        "#",
        "torchrun train.py",
        "srun",
        "bash -c",
        "export",
    ]
    for number in range(8):
        yield f"job script: dice {number}", "odd.sh", "#!/bin/bash\n" + "".join(dice.choices(alphabet, k=4000))


def _manifests() -> Iterator[tuple[str, str, str]]:
    head = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n        command: [torchrun, train.py]\n"
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
    )
    merges = "m0: &m0 {k: v}\n" + "".join(
        f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}], k{i}: *m{i - 1}}}\n" for i in range(1, 25)
    )
    for name, text in {
        "laughs": laughs + head, "laughs in memory": laughs + head + "        resources: {limits: {memory: *a11, cpu: *a11, nvidia.com/gpu: *a11}}\n", "laughs in env": laughs + head + "        env: [{name: *a11, value: *a11}]\n",
        "laughs in args": laughs + head + "        args: *a11\n", "merges": merges + head, "a ring": "r: &r [*r]\n" + head, "an anchor in itself": "r: &r {a: *r}\n" + head, "deep lists": head + "x: " + "[" * 3000 + "]" * 3000 + "\n",
        "deep mappings": head + "".join("  " * i + f"k{i}:\n" for i in range(400)), "digits": head + "        resources: {limits: {nvidia.com/gpu: " + "9" * 5000 + "}}\n", "tags": head + "x: !!python/object/apply:os.system [id]\ny: !!binary '%%%'\nz: !!timestamp x\n",
        "keys twice": head + "kind: Pod\nkind: Job\n", "merge of a text": head + "<<: x\n", "containers of texts": head + "        containers: [a, 1, null, [b]]\n", "3,000 containers": head + "      - {name: b, command: [torchrun, train.py]}\n" * 3000,
        "300 documents": (head + "---\n") * 300, "a number as command": head.replace("[torchrun, train.py]", "5"), "dates": head + "x: 2026-99-99\ny: 1:2:3:4\n", "400 kB of text": head + "x: '" + "a" * 400_000 + "'\n",
        "colons": head + "x: " + "a: " * 3000 + "\n", "a shell in it": head.replace("[torchrun, train.py]", "[bash, -c, 'X=aaaa; " + "X=$X$X; " * 40 + "torchrun train.py $X']"),
    }.items():  # fmt: skip
        yield f"manifest: {name}", "odd.yaml", text


def _yaml() -> Iterator[tuple[str, str, str]]:
    head = "learning_rate: 1e-4\nper_device_train_batch_size: 8\nnum_train_epochs: 3\nmodel_name_or_path: gpt2\n"
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
    )
    merges = "m0: &m0 {k: v}\n" + "".join(
        f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}], k{i}: *m{i - 1}}}\n" for i in range(1, 25)
    )
    for name, text in {
        "laughs": head + laughs, "merges": head + merges, "a ring": head + "r: &r [*r]\n", "deep lists": head + "x: " + "[" * 100_000, "deep lists closed": head + "x: " + "[" * 900 + "]" * 900, "deep mappings": head + "".join(" " * i + f"k{i}:\n" for i in range(2000)),
        "digits": head + "seed: " + "9" * 5000 + "\nlr: 1e" + "9" * 400 + "\nx: 0x" + "f" * 5000 + "\n", "tags": head + "x: !!python/object/apply:os.system [id]\ny: !!set {a, b}\nz: !<tag:x> 1\n", "special": head + "a: .nan\nb: -.inf\nc: 1:2:3\nd: 0o77\nnum_workers: .inf\nmax_steps: .nan\n",
        "templates": head + "{% for i in x %}\na: {{ b }}\n" * 3000, "a million keys": head + "".join(f"k{i}: {i}\n" for i in range(250_000)), "questions": head + "? a\n? b\n? [c]\n" * 1000, "200 documents": (head + "---\n") * 200,
        "tabs": head + "\tx: 1\n", "NEL and others": head + "x: a\u0085b\u2028c\n", "an open text": head + 'x: "' + "a\n" * 100_000, "block text": head + "x: |\n" + " a\n" * 300_000, "colons": head + "x: " + "a: " * 10_000,
    }.items():  # fmt: skip
        yield f"YAML: {name}", "odd.yaml", text


def _python(dice: random.Random) -> Iterator[tuple[str, str, str]]:
    for n in (dice.choice([200, 300]), 3000):
        for name, text in {
            "sum": "x = " + " + ".join(["a"] * n), "attributes": "x = a" + ".b" * n, "calls": "x = f" + "()" * n, "elif": "if a:\n    pass\n" + "".join(f"elif a == {i}:\n    b = {i}\n" for i in range(n)),
            "conditions": "x = " + "1 if a else " * n + "2", "not": "x = " + "not " * n + "a", "lambdas": "x = " + "lambda: " * n + "1", "names doubled": "a0 = 'x'\n" + "\n".join(f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, n)),
            "tuples doubled": "a0 = (1,)\n" + "\n".join(f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, n)), "a chain of functions": "\n".join(f"def f{i}():\n    return f{i + 1}()" for i in range(n)) + "\nf0()\n",
            "a chain of classes": "class C0:\n    pass\n" + "\n".join(f"class C{i}(C{i - 1}):\n    pass" for i in range(1, n)), "branches": "def f(a):\n" + "".join(f"    if a == {i}:\n        x = {i}\n" for i in range(n)) + "f(1)\n",
            "with": "with " + ", ".join(f"open('a') as a{i}" for i in range(n)) + ":\n    pass\n", "assignments": " = ".join(f"a{i}" for i in range(n)) + " = 1", "imports": "\n".join(f"import m{i}" for i in range(n)),
        }.items():  # fmt: skip
            yield f"Python: {name} {n}", "odd.py", TRAIN + text + "\n"
    for name, text in {
        "a million lines": "x = 1\n" * 1_000_000, "170,000 lines": "x = 1\n" * 170_000, "brackets": "[[],[]]\n" * 130_000, "calls twice": "\n".join(f"def f{i}(x):\n    f{i + 1}(x)\n    f{i + 1}(x)" for i in range(60)) + "\ndef f60(x):\n    pass\nf0(1)\n",
        "huge values": "a = 'x' * 10**12\nb = [0] * 10**12\nc = 10 ** 10 ** 10\nd = 1 << 10**12\ne = '%1000000000d' % 1\ng = list(range(10**12))\nh = f'{1:1000000000d}'", "digits": "x = " + "9" * 4000 + "\ny = x ** x\nbatch_size = x * x * x",
        "hex digits": "x = 0x" + "f" * 500_000, "a list of 100,000": "x = [" + "1," * 100_000 + "]", "30,000 keys": "x = {" + ",".join(f"'k{i}': {i}" for i in range(30_000)) + "}", "10,000 functions": "\n".join(f"def f{i}(a, b=1):\n    return a + b\n" for i in range(10_000)),
        "10,000 calls": "\n".join(f"x{i} = torch.zeros({i}).cuda().item()" for i in range(10_000)), "19 loops": "".join(" " * i + f"for i{i} in range(10**9):\n" for i in range(19)) + " " * 19 + "loss.backward()\n", "recursion": "def f(x):\n    return f(f(f(x)))\nf(f(f(1)))\n",
        "a class of itself": "class A(A):\n    def f(self):\n        self.f = self\n        return self.f.f.f()\nA().f()\n", "silences": "# gpudoctor: ignore[" + "X," * 100_000 + "]\n" * 3, "comments": "# gpudoctor: ignore[DATA001] x\n" * 20_000,
        "a text of 900 kB": "x = '" + "a" * 900_000 + "'", "text pieces": "x = (" + "'a' " * 100_000 + ")", "format pieces": "x = f'" + "{a}" * 30_000 + "'", "nested formats": "x = " + "f'{" * 100 + "1" + "}'" * 100, "semicolons": "x = 1;" * 50_000, "NUL": "x = 1\0\n",
        "forms": "x = 1\f\n" * 1000, "decorators": "@f\n" * 20_000 + "def g():\n    pass\n", "unicode names": "\n".join(f"{chr(0x4E00 + i)} = {i}" for i in range(5000)), "global": "def f():\n    global " + ", ".join(f"a{i}" for i in range(20_000)) + "\n",
        "match": "match x:\n" + "".join(f"    case {i}:\n        y = {i}\n" for i in range(5000)), "try": "try:\n    x = 1\n" + "except E:\n    pass\n" * 5000, "comprehensions": "x = " + "[a for a in " * 80 + "b" + "]" * 80,
        "argparse": "import argparse\np = argparse.ArgumentParser()\n" + "\n".join(f"p.add_argument('--a{i}', type=int, default={i})" for i in range(5000)) + "\na = p.parse_args()\n",
    }.items():  # fmt: skip
        yield f"Python: {name}", "odd.py", TRAIN + text + "\n"
