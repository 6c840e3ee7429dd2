"""The words of everything that a user reads: short sentences, fixes that begin with a verb, no private vocabulary.

The texts are the real ones: manual pages and thresholds of the registry, the titles and steps of the rules, the
messages of the checks, the help of each command. A text is a template: a value in braces counts as one word.
"""

import argparse
import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.cli import build_parser
from gpudoctor.engine.registry import load_registry

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = load_registry()
CODES = sorted(
    code for code, check in REGISTRY.checks.items() if check.__module__.startswith("gpudoctor_checks.")
)
LONGEST = 20
"""Words of a sentence. A piece of code in backticks is one word."""
_SENTENCE = re.compile(
    r"(?<=[.!?])\s+(?=[A-Z`\"('0-9/]|torch|gpudoctor|accelerate|axolotl|transformers|statvfs)"
)
_ITEM = re.compile(r"\n\s*\n|\n\s*- ")
