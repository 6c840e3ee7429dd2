"""The generated pages are those that the code gives."""

import os
import re
import sys
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import generate  # noqa: E402


def test_no_page_is_stale():
    with patch.dict(os.environ):  # it asks for 80 columns without colours
        assert generate.stale(generate.pages()) == [], "make docs"


def test_every_module_that_a_page_names_exists():
    """gpu-testing.md names a module of torch."""
    there = ["/" + str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")] + ["/cudagraph_trees.py"]
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / name / "README.md" for name in (".", "checks", "rules"))]
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        for name in re.findall(r"`([\w./-]+\.py)\b[^`]*`", page.read_text(encoding="utf-8"))
        if name != "train.py" and not any(path.endswith("/" + name) for path in there)
    ]
    assert missing == []
