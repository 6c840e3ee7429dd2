"""A text for every wording of every check, in log_samples.txt: in the form in which the library prints it."""

from pathlib import Path

SAMPLES: dict[tuple[str, str], str] = {}
for _row in (Path(__file__).parent / "log_samples.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n"):
    _wording, _text = _row.split("\t", 1)
    _code, _kind = _wording.split(" ")
    SAMPLES[_code, _kind] = _text.replace("⏎", "\n")
