"""`gpudoctor init`: a settings section with comments, in the file that the project has already."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli.output import show, write_file
from gpudoctor.errors import UsageError
from gpudoctor.lang import rendered, say, template

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry

EPILOG = template("""\
examples:
  gpudoctor init                    [tool.gpudoctor] in pyproject.toml, else a new gpudoctor.toml
  gpudoctor init --print            show what would be written, write nothing
What a file has stays as it is. A second run changes nothing.""")
OWN, PROJECT = "gpudoctor.toml", "pyproject.toml"
_TEMPLATE = template(
    "# Settings of gpudoctor. Each key may be left out. `gpudoctor explain CODE` prints a "
    'check and its thresholds.\n\n# The lowest severity that gives exit code 1: "error", '
    '"warning", "note" or "never".\nfail-on = "error"\n\n# The checks that run: '
    "codes, topics or names. An empty list runs all of them (`gpudoctor list`).\nselect = "
    "[]\n\n# Findings of an old project that are known. Write the file with: gpudoctor check "
    '--write-baseline FILE\n# baseline = "gpudoctor-baseline.json"\n\n# Findings that are '
    "silenced and still counted, each with its reason.\n# In a script, one line does the "
    'same: `# gpudoctor: ignore[CODE] reason`.\n# [{table}ignore]\n# {code} = "why it '
    'does not apply here"\n\n# Findings that are silenced in some files.\n# '
    '[{table}per-file-ignores]\n# "legacy/*.py" = ["{topic}"]\n\n# Thresholds of '
    "this project.\n# [{table}thresholds]\n# {code}.{threshold} = {value}\n"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `init`."""
    parser.usage = "gpudoctor init [options] [FOLDER]"
    parser.epilog = EPILOG
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="the project (default: this folder)")
    parser.add_argument("--print", dest="show", action="store_true", help="show what would be written, write nothing")


def run(arguments: argparse.Namespace) -> int:
    """Write what is missing, and say what was written and what was there."""
    folder = Path(arguments.folder)
    if not folder.is_dir():
        raise UsageError("{folder}: no such folder; name the project's folder", folder=folder)
    _settings(folder, arguments.show)
    return 0


def _settings(folder: Path, only_show: bool) -> None:
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.engine.settings import read_settings

    own, project = folder / OWN, folder / PROJECT
    registry = load_registry()
    if own.is_file():
        read_settings(own, registry)
        show(say("{own}: it is there already; nothing was changed\n", own=own))
        return
    if not project.is_file():
        _put(own, "", section("", registry), only_show)
        return
    # The `tool` table of a pyproject.toml. Raises `UsageError` for a file that is none.
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        tool = tomllib.loads(project.read_bytes().decode("utf-8")).get("tool", {})
    except OSError as error:
        raise UsageError("{path}: cannot be read: {reason}", path=project, reason=error.strerror or error) from None
    except ValueError as error:
        raise UsageError("{path}: not valid TOML: {error}; correct it first", path=project, error=error) from None
    before = tool if isinstance(tool, dict) else {}
    if "gpudoctor" in before:
        show(say("{project}: [tool.gpudoctor] is there already; nothing was changed\n", project=project))
        return
    _put(
        project,
        project.read_bytes().decode("utf-8"),
        "[tool.gpudoctor]\n" + section("tool.gpudoctor.", registry),
        only_show,
    )


def section(table: str, registry: "Registry") -> str:
    """The keys with comments; their examples are of the first check with a threshold."""
    code, check = next((code, check) for code, check in registry.checks.items() if check.thresholds)
    first = check.thresholds[0]
    topic = str(code).rstrip("0123456789")
    return rendered(say(_TEMPLATE, table=table, code=code, topic=topic, threshold=first.name, value=first.default))


def _put(path: Path, before: str, added: str, only_show: bool) -> None:
    """Append to a file, or make it; its line ends and its mode stay."""
    if only_show:
        show(f"# {path}\n{added}")
        return
    newline = "\r\n" if "\r\n" in before else "\n"
    gap = "" if not before else newline if before.endswith("\n") else 2 * newline
    mode = path.stat().st_mode if path.exists() else None
    text = before + gap + added.replace("\n", newline)
    if newline == "\n":
        write_file(path, text, "init")
    else:
        path.write_bytes(text.encode("utf-8"))
    if mode is not None:
        os.chmod(path, mode & 0o7777)
    show(
        say("{path}: {before}\n", path=path, before=say("settings were added at its end") if before else say("written"))
    )
