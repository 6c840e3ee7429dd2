"""`gpudoctor init`: a settings file with comments."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.output import show, write_file
from gpudoctor.errors import UsageError
from gpudoctor.lang import rendered, say, template

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry

EPILOG = template("""\
examples:
  gpudoctor init                    a gpudoctor.toml; the keys go into [tool.gpudoctor] of a pyproject.toml as well
  gpudoctor init --print            show what would be written, write nothing
Where settings are there already, nothing is changed.""")
OWN = "gpudoctor.toml"
_TEMPLATE = template(
    "# Settings of gpudoctor. Each key may be left out. `gpudoctor explain CODE` prints a "
    'check and its thresholds.\n\n# The lowest severity that gives exit code 1: "error", '
    '"warning", "note" or "never".\nfail-on = "error"\n\n# The checks that run: '
    "codes, topics or names. An empty list runs all of them (`gpudoctor list`).\nselect = "
    "[]\n\n# Findings of an old project that are known. Write the file with: gpudoctor check "
    '--write-baseline FILE\n# baseline = "gpudoctor-baseline.json"\n\n# Findings that are '
    "silenced and still counted, each with its reason.\n# In a script, one line does the "
    'same: `# gpudoctor: ignore[CODE] reason`.\n# [ignore]\n# {code} = "why it '
    'does not apply here"\n\n# Findings that are silenced in some files.\n# '
    '[per-file-ignores]\n# "legacy/*.py" = ["{topic}"]\n\n# Thresholds of '
    "this project.\n# [thresholds]\n# {code}.{threshold} = {value}\n"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `init`."""
    parser.usage = "gpudoctor init [options] [FOLDER]"
    parser.epilog = EPILOG
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="the project (default: this folder)")
    parser.add_argument("--print", dest="show", action="store_true", help="show what would be written, write nothing")


def run(arguments: argparse.Namespace) -> int:
    """Write what is missing, and say what was written or was there."""
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.engine.settings import find_settings_file, read_settings

    folder = Path(arguments.folder)
    if not folder.is_dir():
        raise UsageError("{folder}: no such folder; name the project's folder", folder=folder)
    registry = load_registry()
    found = find_settings_file(folder)
    if found is not None and found.parent.samefile(folder):
        read_settings(found, registry)
        show(say("{own}: it is there already; nothing was changed\n", own=found))
        return 0
    text = section(registry)
    if arguments.show:
        show(f"# {folder / OWN}\n{text}")
        return 0
    write_file(folder / OWN, text, "init")
    show(say("{path}: written\n", path=folder / OWN))
    return 0


def section(registry: "Registry") -> str:
    """The keys with comments; their examples are of the first check with a threshold."""
    code, check = next((code, check) for code, check in registry.checks.items() if check.thresholds)
    first = check.thresholds[0]
    topic = str(code).rstrip("0123456789")
    return rendered(say(_TEMPLATE, code=code, topic=topic, threshold=first.name, value=first.default))
