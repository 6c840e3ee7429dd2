"""Brings the catalogues up to date with the source, with Babel: `make messages`. docs/translating.md is the guide."""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from gpudoctor.lang.catalogue import compile_catalogue, packages, po_path
from gpudoctor.lang.choice import ENGLISH, LANGUAGES
from gpudoctor.lang.extract import METHODS, OPTIONS, faults

_HEADER = """\
msgid ""
msgstr ""
"Language: {language}\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Update, or look only; the exit code is 1 if something is missing or wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m gpudoctor.lang",
        description="Put new texts of the source into the catalogues, drop stale ones, count what is not translated.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="PO files whose translations are taken over")
    parser.add_argument("--check", action="store_true", help="write no catalogue; name what is stale, too")
    parser.add_argument("--defer", action="store_true", help="leave what is not translated to others, in English")
    parser.add_argument("-o", "--output", metavar="FILE", help="write what is not translated, with its places")
    parser.add_argument("--lang", default="zh", choices=sorted(set(LANGUAGES) - {ENGLISH}))
    arguments = parser.parse_args(argv)
    given = {text: its for name in arguments.files for text, its in translations(_read(name)).items()}
    refused = faulty(given)
    catalogues = updated(arguments.lang, {text: its for text, its in given.items() if text not in refused})
    texts = {message.id for catalog in catalogues.values() for message in catalog}
    refused |= {text: f"{text!r}: the source has no such text" for text in given if text not in texts}
    lines = [f"refused: {line}" for line in refused.values()]
    missing, deferred = Catalog(), 0
    for path, catalog in catalogues.items():
        lines += [f"faulty: {line}" for line in faulty(translations(catalog)).values()]
        for message in untranslated(catalog):
            missing.add(message.id, locations=message.locations)
            if arguments.defer:
                message.flags.add("fuzzy")
            deferred += message.fuzzy
        if arguments.check:
            lines += [f"stale: {text!r}" for text in catalog.obsolete]
        else:
            _write(path, catalog, arguments.lang)
            compile_catalogue(path)
    if arguments.output:
        with open(arguments.output, "wb") as file:
            write_po(file, missing, width=0)
    left = len(missing) - deferred
    lines += [f"{deferred} translations are deferred"] if deferred else []
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, f"{left} texts are not translated")))
    return bool(len(lines) > bool(deferred) or left)


def updated(language: str, given: Mapping[str, str]) -> dict[str, Catalog]:
    """The catalogues by path, up to date with the source and with translations that are given.

    What the source no longer has is in their `obsolete`. A package without a PO file, as it is installed from a
    wheel, is left alone.
    """
    paths = {package: path for package in packages() if os.path.isfile(path := po_path(package, language))}
    read = {package: _read(path) for package, path in paths.items()}
    known = {text: its for catalog in read.values() for text, its in translations(catalog).items()} | dict(given)
    for package, catalog in read.items():
        source = Catalog()
        for name, line, text, _, _ in extract_from_dir(package, METHODS, OPTIONS):
            source.add(text, locations=[(name, line)])
        catalog.update(source, no_fuzzy_matching=True)
        for message in catalog:
            if message.id and (message.id in given or not message.string):
                message.string = known.get(str(message.id), "")
                if message.string:
                    message.flags.discard("fuzzy")
    return {paths[package]: catalog for package, catalog in read.items()}


def translations(catalog: Catalog) -> dict[str, str]:
    """Text to translation; what is untranslated or fuzzy is left out."""
    return {str(each.id): str(each.string) for each in catalog if each.id and each.string and not each.fuzzy}


def untranslated(catalog: Catalog) -> Iterator[Message]:
    """What has no translation; one that is marked as fuzzy is deferred."""
    return (each for each in catalog if each.id and (each.fuzzy or not each.string))


def faulty(known: Mapping[str, str]) -> dict[str, str]:
    """A line for each text whose translation changes a field, a number or code, or is set wrongly."""
    wrong = {text: "; ".join(faults(text, its)) for text, its in known.items()}
    return {text: f"{text!r}: {known[text]!r} {what}" for text, what in wrong.items() if what}


def _read(path: str) -> Catalog:
    with open(path, "rb") as file:
        return read_po(file, abort_invalid=True)


def _write(path: str, catalog: Catalog, language: str) -> None:
    """Write a catalogue as it is kept in git: sorted, without places or wrapping, two lines an entry."""
    for message in catalog:
        message.flags &= {"fuzzy"}  # Babel marks what looks like a format
    file = BytesIO()
    write_po(file, catalog, 0, no_location=True, omit_header=True, sort_output=True, ignore_obsolete=True)
    with open(path, "wb") as written:
        written.write(_HEADER.format(language=language).encode() + file.getvalue().replace(b"\n\n", b"\n"))


if __name__ == "__main__":
    sys.exit(main())
