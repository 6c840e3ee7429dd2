"""Work on catalogues: `python -m gpudoctor.lang missing data -o data.po`, `... merge data.po`, `... check`.

docs/translating.md is the guide.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from gpudoctor.lang.choice import ENGLISH, LANGUAGES
from gpudoctor.lang.extract import SourceTemplate, faults, templates
from gpudoctor.lang.po import CatalogueEntry, read_po, written_po

_GROUPS = ("gpudoctor.checks", "gpudoctor.rules")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 1 if something is missing or wrong."""
    parser = argparse.ArgumentParser(prog="python -m gpudoctor.lang", description="Work on catalogues.")
    parser.add_argument("--lang", default="zh", choices=sorted(set(LANGUAGES) - {ENGLISH}))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    missing = commands.add_parser("missing", help="write what is untranslated as a PO file; no topic: count it")
    missing.add_argument("topics", nargs="*", metavar="TOPIC")
    missing.add_argument("-o", "--output", metavar="FILE")
    missing.set_defaults(run=_missing)
    merge = commands.add_parser("merge", help="put translations where they belong; refuses faulty ones")
    merge.add_argument("files", nargs="+", metavar="FILE")
    merge.set_defaults(run=_merge)
    check = commands.add_parser("check", help="name faulty and stale translations")
    check.set_defaults(run=_check)
    arguments = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)


def packages() -> list[Path]:
    """The folders of gpudoctor and of its plugins' packages."""
    names = [entry.module.partition(".")[0] for group in _GROUPS for entry in entry_points(group=group)]
    found = [Path(__file__).resolve().parent.parent]
    for name in dict.fromkeys(names):
        spec = find_spec(name)
        found += [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    return found


@cache
def wanted() -> dict[str, tuple[Path, SourceTemplate]]:
    """Every template of every package; one that several have belongs to the first."""
    every: dict[str, tuple[Path, SourceTemplate]] = {}
    for package in packages():
        for found in templates(package):
            every.setdefault(found.template, (package, found))
    return every


def entries(language: str) -> Iterator[tuple[Path, CatalogueEntry]]:
    """Every entry of a language's catalogues with its file."""
    for package in packages():
        for path in sorted((package / "lang" / language).glob("*.po")):
            yield from ((path, entry) for entry in read_po(path.read_text(encoding="utf-8")))


def untranslated(language: str) -> list[SourceTemplate]:
    """The templates without a translation."""
    known = {entry.source for _, entry in entries(language) if entry.translation and not entry.fuzzy}
    return [found for template, (_, found) in wanted().items() if template not in known]


def _missing(arguments: argparse.Namespace) -> int:
    left = untranslated(arguments.lang)
    if not arguments.topics:
        counts: dict[str, int] = {}
        for found in left:
            counts[found.topic] = counts.get(found.topic, 0) + 1
        for topic, number in sorted(counts.items()):
            _print(f"{number:5} {topic}")
        _print(f"{len(left):5} in all")
        return bool(left)
    chosen = [found for found in left if found.topic in arguments.topics]
    text = written_po((CatalogueEntry(found.template, "", (found.place,)) for found in chosen), arguments.lang)
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
        _print(f"{len(chosen)} entries in {arguments.output}")
    else:
        _print(text)
    return 0


def _merge(arguments: argparse.Namespace) -> int:
    known = {entry.source: entry for _, entry in entries(arguments.lang)}
    refused = 0
    for name in arguments.files:
        for entry in read_po(Path(name).read_text(encoding="utf-8")):
            if not entry.translation:
                continue
            wrong = faults(entry.source, entry.translation)
            if entry.source not in wanted():
                wrong = ["has no such template in the source"]
            if wrong:
                refused += 1
                _print(f"refused: {entry.source}\n         {entry.translation}\n         {'; '.join(wrong)}")
            else:
                known[entry.source] = entry
    _write(arguments.lang, known)
    return bool(refused)


def _write(language: str, known: dict[str, CatalogueEntry]) -> None:
    """Write the catalogues anew, in the order of the source; stale entries are dropped."""
    files: dict[Path, list[CatalogueEntry]] = {}
    for template, (package, found) in wanted().items():
        if template in known:
            path = package / "lang" / language / f"{found.topic}.po"
            entry = known[template]
            files.setdefault(path, []).append(CatalogueEntry(template, entry.translation, (found.place,), entry.fuzzy))
    for path, listed in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written_po(listed, language), encoding="utf-8")


def _check(arguments: argparse.Namespace) -> int:
    wrong = 0
    for path, entry in entries(arguments.lang):
        found = faults(entry.source, entry.translation) if entry.translation else []
        if entry.source not in wanted():
            found = ["is stale: the source has no such template"]
        if found:
            wrong += 1
            _print(f"{path.name}: {entry.source}\n    {entry.translation}\n    {'; '.join(found)}")
    return bool(wrong)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
