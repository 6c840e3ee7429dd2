"""Secrets in a recording and its reports, and the modes of its files: small runs, every byte searched."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from attack.case import Attempt
from attack.secrets import ALNUM, HEX, ISSUED, leaves, of

LEAKS, MODES = "secrets in a recording and its reports", "file modes"

PROGRAM = """
import os, signal, sys, time
import torch

def push(url, token):
    raise RuntimeError(f"cannot push to {{url}}: 401 for Authorization: Bearer {{token}}")

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
end = time.monotonic() + 2.5
while time.monotonic() < end:
    loss = model(torch.ones(8, 4)).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()  # push("{comment}")
    time.sleep(0.02)
if os.environ["DIE"] == "signal":
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)
try:
    push("https://bob:{password}@git.local/x", "{bearer}")
except RuntimeError as error:
    client = dict(api_key="{source}", sig="{signature}")
    raise ValueError("failed: " + " ".join(sys.argv)) from error
"""

REPORTS = (
    ("text", "--verbose"), ("json",), ("html",), ("markdown",), ("sarif",), ("json", "--share"),
    ("html", "--share"),
)  # fmt: skip


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Runs that die by an exception and by a signal, under the umasks 000 and 022."""
    rng = Random(seed)
    for umask, death in ((0o000, "exception"), (0o000, "signal"), (0o022, "exception")):
        place = scratch / f"{umask:03o}-{death}"
        place.mkdir()
        yield from _run(place, rng, umask, death)


def _run(place: Path, rng: Random, umask: int, death: str) -> Iterator[Attempt]:
    secrets = {
        "password of a URL in the source": of(ALNUM, 14)(rng),
        "bearer token in the source": of(ALNUM, 30)(rng),
        "key in a line of the source": of(ALNUM, 24)(rng),
        "signature in a line of the source": of(ALNUM, 43)(rng),
        "token in a comment of the source": ISSUED["GitHub classic"](rng),
        "--hf-token X": ISSUED["Hugging Face"](rng),
        "--api-key=X": of(HEX, 40)(rng),
        "SAS in an argument": of(ALNUM, 43)(rng) + "%3D",
        "redis in an argument": of(ALNUM, 12)(rng),
        "github_pat_ in an argument": ISSUED["GitHub fine-grained"](rng),
        "AccountKey in an argument": of(ALNUM + "+/", 86)(rng) + "==",
        "JSON in an argument": of(ALNUM, 20)(rng),
        "header in an argument": of(ALNUM, 30)(rng),
        "WANDB_API_KEY": of(HEX, 40)(rng),
        "HF_ENDPOINT": of(ALNUM, 12)(rng),
        "a folder's name": ISSUED["GitLab"](rng),
        "140 kB argument": ISSUED["Slack bot"](rng),
    }
    value = dict(secrets)
    home = place / f"work-{value['a folder' + chr(39) + 's name']}"
    home.mkdir()
    (home / "train.py").write_text(
        PROGRAM.format(
            password=value["password of a URL in the source"],
            bearer=value["bearer token in the source"],
            source=value["key in a line of the source"],
            signature=value["signature in a line of the source"],
            comment=value["token in a comment of the source"],
        )
    )
    (home / "told.sh").write_text(f"cat >> {place / 'told.json'}\n")
    folder = place / "recording"
    words = [
        "--hf-token", value["--hf-token X"], f"--api-key={value['--api-key=X']}",
        f"https://a.blob.core.windows.net/c?sv=2022&sr=b&sig={value['SAS in an argument']}",
        f"--cache=redis://:{value['redis in an argument']}@cache:6379/0", value["github_pat_ in an argument"],
        f"AccountName=x;AccountKey={value['AccountKey in an argument']};EndpointSuffix=core.windows.net",
        json.dumps({"lr": 0.1, "secretKey": value["JSON in an argument"]}),
        "-H", f"Authorization: Bearer {value['header in an argument']}",
        "x" * 60_000 + " " + value["140 kB argument"] + " " + "y" * 60_000,
    ]  # fmt: skip
    environment = {
        **os.environ,
        "DIE": death,
        "WANDB_API_KEY": value["WANDB_API_KEY"],
        "HF_ENDPOINT": f"https://bob:{value['HF_ENDPOINT']}@hub.local",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [
        sys.executable, "-m", "gpudoctor", "run", "--recording", str(folder), "--quiet",
        "--on-finding", f"sh {home / 'told.sh'}", "--", sys.executable, str(home / "train.py"), *words,
    ]  # fmt: skip
    start = f"{umask:03o}, {death}"
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, timeout=120, umask=umask)
    own = done.stderr.decode(errors="replace").partition("gpudoctor")[2]
    yield from _looked_for(f"{start}: the report after the run", own, secrets)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            yield from _looked_for(f"{start}: {path.name}", text, secrets)
            mode = stat.S_IMODE(path.stat().st_mode)
            yield Attempt(MODES, f"{start}: {path.name}", None if mode == 0o600 else f"it is {mode:04o}")
    mode = stat.S_IMODE(folder.stat().st_mode)
    yield Attempt(MODES, f"{start}: the folder", None if mode == 0o700 else f"it is {mode:04o}")
    told = place / "told.json"
    yield Attempt(LEAKS, f"{start}: --on-finding ran", None if told.exists() else "it was told of nothing")
    yield from _looked_for(f"{start}: what --on-finding got", told.read_text() if told.exists() else "", secrets)
    names = {path.name.partition("-")[0] for path in folder.iterdir()}
    wanted = {"rank"} | ({"fault", "live"} if death == "signal" else set())
    yield Attempt(LEAKS, f"{start}: recorded", None if wanted <= names else f"only {sorted(names)}")
    for words_of in REPORTS:
        shown = subprocess.run(
            [sys.executable, "-m", "gpudoctor", "report", str(folder), "--format", *words_of],
            cwd=place, env=environment, capture_output=True, timeout=120,
        )  # fmt: skip
        text = (shown.stdout + shown.stderr).decode(errors="replace")
        where = f"{start}: {' '.join(words_of)}"
        if shown.returncode not in {0, 1, 3}:
            yield Attempt(LEAKS, where, f"exit code {shown.returncode}: {text[-200:]}")
        yield from _looked_for(where, text, secrets)


def _looked_for(where: str, text: str, secrets: dict[str, str]) -> Iterator[Attempt]:
    for what, secret in secrets.items():
        left = leaves(text, secret)
        yield Attempt(LEAKS, f"{where}: {what}", None if left is None else f"it holds {left}")
