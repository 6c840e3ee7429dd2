"""Builds the documentation site: `make site`.

python docs/site_builder.py                  write build/site-source, run the examples, build build/site
python docs/site_builder.py --no-pictures    the same without the runs: pictures are left out

The pages are those of docs/. This program adds a page for each command: its text in docs/commands and its help.
It adds the README's neighbours and pictures of real runs. A link to a file outside of docs/ becomes a page that
shows the file if it is a short text, else plain code. MkDocs then checks links and anchors; a warning ends the
build.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import generate
import pictures
import yaml

from gpudoctor.cli.parser import build_parser

DOCS = Path(__file__).parent
ROOT = DOCS.parent
SOURCE = ROOT / "build" / "site-source"
NEIGHBOURS = {
    "checks/README.md": "plugin-checks.md",
    "rules/README.md": "plugin-rules.md",
    "CHANGELOG.md": "changelog.md",
    "README.zh-CN.md": "zh.md",
}
"""Pages that are not in docs/, and their names in the site."""
LARGEST_SHOWN = 64 * 1024
"""A linked file of more bytes has no page of its own."""
SHOWN = {".py": "python", ".sh": "bash", ".sbatch": "bash", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
"""Files that get a page, and their language."""
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command and its parser."""
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise LookupError("the parser has no commands")


def write(source: Path, *, with_pictures: bool, progress: Callable[[str], None]) -> None:
    """Write every page into `source`, which is made anew.

    Raises `LookupError` for a command without a page and for a link to a file that is not there, and
    `subprocess.CalledProcessError` for a picture whose command failed.
    """
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    generate.write()
    drawn = pictures.draw(source / "pictures", progress) if with_pictures else set()
    pages = {path.relative_to(DOCS).as_posix(): path for path in DOCS.glob("*.md")}
    pages.pop("cli.md")
    pages |= {path.name: path for path in (DOCS / "pages").glob("*.md")}
    pages |= {f"checks/{path.name}": path for path in (DOCS / "checks").glob("*.md")}
    pages["checks/index.md"] = pages.pop("checks/README.md")
    pages |= {name: ROOT / path for path, name in NEIGHBOURS.items()}
    pages |= {f"commands/{path.name}": path for path in (DOCS / "commands").glob("*.md")}
    placed = {path.resolve(): name for name, path in pages.items()}
    placed[DOCS / "cli.md"] = "commands/index.md"
    placed[ROOT / "README.md"] = "index.md"
    helps = {name: generate.help_lines(parser) for name, parser in commands().items()}
    missing = [name for name in helps if f"commands/{name}.md" not in pages]
    if missing:
        raise LookupError(f"docs/commands has no page for {', '.join(missing)}")
    for name, path in pages.items():
        text = path.read_text("utf-8")
        command = name.removeprefix("commands/").removesuffix(".md")
        if name.startswith("commands/") and command in helps:
            text = "\n".join([text.rstrip(), "", "## Every flag", "", *helps[command]])
        text = _with_pictures(text, name, drawn)
        _put(source / name, _linked(text, path, name, placed, source))
    index = ["# Commands", "", "| command | what it does |", "|---|---|"]
    index += [f"| [gpudoctor {name}]({name}.md) | {_summary(parser)} |" for name, parser in commands().items()]
    _put(source / "commands/index.md", "\n".join(index))


def _summary(parser: argparse.ArgumentParser) -> str:
    return (parser.description or "").split("\n")[0]


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip() + "\n", "utf-8")


def _with_pictures(text: str, page: str, drawn: set[str]) -> str:
    """The page with its `<!-- picture NAME: words -->` replaced; without it where none was drawn."""
    up = "../" * page.count("/")

    def shown(found: re.Match[str]) -> str:
        name, words = found[1], found[2]
        if name not in drawn:
            return ""
        if name.endswith(".html"):
            return (
                f'<iframe class="report" src="{up}pictures/{name}" title="{words}" '
                'style="width:100%;height:44rem;border:1px solid #8884"></iframe>\n\n'
                f'<a href="{up}pictures/{name}">{words}</a>'
            )
        return f"![{words}]({up}pictures/{name})"

    return re.sub(r"<!-- picture (\S+): (.*?) -->", shown, text)


def _linked(text: str, path: Path, page: str, placed: dict[Path, str], source: Path) -> str:
    """The text with its links to files bent to where the site has them."""

    def bent(found: re.Match[str]) -> str:
        words, address, anchor = found[1], found[2], found[3] or ""
        if re.match(r"[a-z]+:", address) or "pictures/" in address:
            return found[0]
        target = (path.parent / address).resolve()
        if not target.exists():
            raise LookupError(f"{_named(path)} has a link to {address}, which is not there")
        name = placed.get(target) or placed.get(target / "README.md")
        if name is None:
            name = _file_page(target, source)
        if name is None:
            return words if words.startswith("`") else f"{words} (`{_named(target)}`)"
        return f"[{words}]({os.path.relpath(name, Path(page).parent)}{anchor})"

    parts = re.split(r"(```.*?```)", text, flags=re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(bent, part) for part in parts)


def _named(target: Path) -> str:
    return target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else target.name


def _file_page(target: Path, source: Path) -> str | None:
    """A page that shows a short file of the repository; None for a folder, data or a long file."""
    language = SHOWN.get(target.suffix)
    if language is None or not target.is_file() or target.stat().st_size > LARGEST_SHOWN:
        return None
    name = f"files/{_named(target)}.md"
    if not (source / name).exists():
        text = target.read_text("utf-8")
        _put(source / name, f"# {_named(target)}\n\n````{language}\n{text.rstrip()}\n````")
    return name


def configuration(source: Path, site: Path, **changes: Any) -> Path:
    """The configuration with every page in its navigation, and these changes; returns the file, beside `source`."""
    read = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    listed = {
        "@commands": ["commands/index.md", *(f"commands/{name}.md" for name in commands())],
        "@checks": ["checks/index.md", *_by_topic(source)],
    }
    for entry in read["nav"]:
        for title, value in entry.items():
            entry[title] = listed.get(value, value) if isinstance(value, str) else value
    shown = sorted(path.relative_to(source).as_posix() for path in source.glob("files/**/*.md"))
    if shown:
        read["nav"].append({"Files": shown})
    read |= {"docs_dir": str(source), "site_dir": str(site), **changes}
    written = source.parent / "mkdocs.yml"
    written.write_text(yaml.safe_dump(read, sort_keys=False), "utf-8")
    return written


def _by_topic(source: Path) -> list[dict[str, list[str]]]:
    """The pages of the catalogue below the letters of their codes, in the order of the index."""
    groups: dict[str, list[str]] = {}
    for code in re.findall(r"\[([A-Z]+\d+)\]\(", (source / "checks/index.md").read_text("utf-8")):
        groups.setdefault(code.rstrip("0123456789"), []).append(f"checks/{code}.md")
    return [{topic: pages} for topic, pages in groups.items()]


def build(source: Path, site: Path, **changes: Any) -> list[str]:
    """Run MkDocs over the pages; returns its warnings. A site with one was not built. `changes` are of mkdocs.yml."""
    written = configuration(source, site, **changes)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(written)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an announcement on standard error
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    warnings = [line for line in done.stderr.splitlines() if line.startswith(("WARNING", "ERROR"))]
    return warnings or ([done.stderr] if done.returncode else [])


def main() -> int:
    """Write the pages and build the site."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-pictures", action="store_true", help="leave the runs out")
    chosen = parser.parse_args()

    def progress(words: str) -> None:
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()

    write(SOURCE, with_pictures=not chosen.no_pictures, progress=progress)
    site = SOURCE.parent / "site"
    warnings = build(SOURCE, site)
    for line in warnings:
        sys.stderr.write(f"{line}\n")
    if not warnings:
        progress(f"open {(site / 'index.html').relative_to(ROOT)}")
    return 1 if warnings else 0


if __name__ == "__main__":
    sys.exit(main())
