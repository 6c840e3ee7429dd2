"""The files in which projects name versions, one reader a format."""

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping

from gpudoctor.model.records import frozen
from gpudoctor.vitals.configs.config_text import load_toml
from gpudoctor.vitals.packages import normalise


@frozen
class RequiredPackage:
    """One package that a file asks for."""

    name: str
    wanted: str
    line: int
    prose: bool = False
    """Whether a sentence of a README says so."""


Reader = Callable[[str], Iterator[RequiredPackage]]

_CONDA = re.compile(r"(?:[\w./-]+::)?([A-Za-z][\w.-]*)\s*(.*)")
_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch"}
_NUMBER = r"(?<!\d)\d{1,3}(?:\.\d{1,3}){0,3}\.(?:\d{1,4}|[xX](?!\w))"
_SENTENCE = re.compile(
    r"(?<![\w.-])(?:py)?torch(?P<between>[\s*_`\[\](){}:,~|=<>≥≤!-]{0,12}(?:versions?|ver\.)?[\s*_`(:>=<≥≤]{0,6}v?)"
    rf"(?P<first>{_NUMBER})(?P<more>(?:\s?(?:/|-|\u2013|~|and|or|to)\s?v?{_NUMBER}){{0,6}})(?P<after>\s?\+(?!cu|cpu|rocm))?",
    re.IGNORECASE,
)
"""PyTorch and a release of it in a sentence: `PyTorch 0.3`, `torch >= 0.4.1`, `PyTorch (0.4.0/1.0.0)`."""
_NEEDED = re.compile(
    r"\b(requir|install|test|depend|prerequisit|need|environment|built|develop|implement|support|us(e|es|ed|ing)\b|"
    r"run|python|cuda)",
    re.IGNORECASE,
)
_UPWARDS = re.compile(
    r"\b(at least|minim\w+|newer|higher|later|greater|above|upwards?|latest|more recent)\b", re.IGNORECASE
)
_PINS = re.compile(r"requirement|constraint|(?<![a-z])(reqs?|deps|dependencies|packages|pip|freeze)(?![a-z])")
"""Names of lists for pip."""


def formats(path: str) -> Reader | None:
    """The reader of a file, by its name; None for a file in which no project names versions."""
    name = os.path.basename(path).lower()
    in_folder = os.path.basename(os.path.dirname(path)).lower() == "requirements"
    if name.endswith(".txt") and (in_folder or _PINS.search(name)):
        return requirements
    if re.fullmatch(r"(conda[-_.]?)?(env|environment)([-_.].*)?\.ya?ml", name):
        return environment
    return manual if is_manual(path) else _BY_NAME.get(name)


def is_manual(path: str) -> bool:
    """Whether a file is a README, which may name a release of PyTorch in a sentence."""
    return re.fullmatch(r"readme(\.(md|rst|txt))?", os.path.basename(path).lower()) is not None


def requirements(text: str) -> Iterator[RequiredPackage]:
    """A file of pip: `torch==1.7.1+cu110  # comment`."""
    for number, line in enumerate(text.splitlines(), 1):
        words = re.split(r"\s#|^#|\s--", line.strip())[0].strip().rstrip("\\").strip()
        if words and not words.startswith("-"):
            yield from _pip(words, number)


def environment(text: str) -> Iterator[RequiredPackage]:
    """A file of conda: `- pytorch=1.7.1`, and pip's own list in it."""
    for number, line in enumerate(text.splitlines(), 1):
        item = re.match(r"\s*-\s+(['\"]?)([^'\"#]+)\1", line)
        if item and not item[2].strip().endswith(":"):
            yield from _conda(item[2].strip(), number)


def pyproject(text: str) -> Iterator[RequiredPackage]:
    """`[project]`'s dependencies, else its extras; Poetry's tables."""
    data = load_toml(text)
    project, poetry = _table(data, "project"), _table(data, "tool", "poetry")
    given = project.get("dependencies", ())
    lines = [item for item in given if isinstance(item, str)] if isinstance(given, list) else []
    found = [item for line in lines for item in _pip(line, _line(text, line))]
    known = {item.name for item in found}
    for extra in _table(project, "optional-dependencies").values():
        for line in extra if isinstance(extra, list) else ():
            found += [item for item in _pip(str(line), _line(text, str(line))) if item.name not in known]
    yield from found
    yield from _named(text, _table(poetry, "dependencies"))


def setup_py(text: str) -> Iterator[RequiredPackage]:
    """`install_requires=` of a setup script where it is written out; the script is not run."""
    tree = ast.parse(text)
    lists = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "install_requires":
            value = lists.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
            for item in value.elts if isinstance(value, ast.List | ast.Tuple) else ():
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield from _pip(item.value, item.lineno)


def manual(text: str) -> Iterator[RequiredPackage]:
    """The newest torch that a README's sentences name; where one is a lower bound, only that bound."""
    told: list[tuple[tuple[int, ...], RequiredPackage]] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"https?://[^\s)\]>]*", "", line).lstrip(" \t#*-+>|`[")
        for match in _SENTENCE.finditer(bare):
            if match.start() and not _NEEDED.search(bare):
                continue  # a sentence about a release of PyTorch, not about what the project needs
            between = match["between"]
            upwards = match["after"] or re.search(r"[>≥]", between) or _UPWARDS.search(bare)
            if re.search(r"[<≤!]", between):
                continue
            named = [match["first"], *re.findall(_NUMBER, match["more"])]
            parts = {word: tuple(int(part) for part in word.lower().split(".") if part != "x") for word in named}
            newest = max(named, key=parts.__getitem__)
            release = ".".join(str(part) for part in parts[newest])
            # `0.3` and `1.x` are all releases that begin so, `0.4.0` is one.
            wanted = f">={release}" if upwards else f"=={release}" + (".*" if len(parts[newest]) < 3 else "")
            told.append((parts[newest], RequiredPackage(name="torch", wanted=wanted, line=number, prose=True)))
    bounds = [item for _, item in told if item.wanted.startswith(">")]
    if bounds:
        yield bounds[0]
    elif told:
        yield max(told, key=lambda pair: pair[0])[1]


def _pip(words: str, line: int) -> Iterator[RequiredPackage]:
    """One requirement as pip reads it."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(words)
        counts = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    except (InvalidRequirement, ValueError, KeyError):
        return
    if counts and requirement.url is None:
        yield RequiredPackage(name=normalise(requirement.name), wanted=str(requirement.specifier), line=line)


def _conda(words: str, line: int) -> Iterator[RequiredPackage]:
    """One requirement as conda reads it: a single `=` admits every release that begins so."""
    match = _CONDA.fullmatch(words)
    if match is None:
        return
    name, rest = match[1].lower(), match[2].strip()
    if rest[:1] in {"<", ">", "!", "~"} or rest.startswith("=="):
        wanted = rest.split()[0]
    else:
        version = re.match(r"=?\s*(\d[\w.]*)", rest)
        wanted = f"=={version[1].rstrip('.')}.*" if version else ""
    yield RequiredPackage(name=_CONDA_NAMES.get(name, normalise(name)), wanted=wanted, line=line)


def _named(text: str, table: Mapping[str, object]) -> Iterator[RequiredPackage]:
    """A table of names to versions, in Poetry's words: `^1.13`, `~1.13`, `1.13.1`, `{version = "^1.13"}`."""
    for name, value in table.items():
        version = value.get("version", "") if isinstance(value, dict) else value
        if isinstance(version, str):
            place = re.search(rf"^\s*[\"']?{re.escape(name)}\b", text, re.MULTILINE)
            line = text.count("\n", 0, place.end()) + 1 if place else 1
            yield RequiredPackage(name=normalise(name), wanted=_poetry(version.strip()), line=line)


def _poetry(version: str) -> str:
    match = re.fullmatch(r"([\^~]?)(\d+(?:\.\d+)*)", version)
    if match is None:
        return "" if version == "*" else version
    parts = [int(part) for part in match[2].split(".")]
    if not match[1]:
        return f"=={match[2]}"
    # A caret admits what keeps the first number that is not zero, a tilde what keeps the second.
    keep = next((place for place, part in enumerate(parts) if part), len(parts) - 1) if match[1] == "^" else 1
    keep = min(keep, len(parts) - 1)
    return f">={match[2]},<{'.'.join(str(part) for part in [*parts[:keep], parts[keep] + 1])}"


def _table(data: Mapping[str, object], *keys: str) -> Mapping[str, object]:
    found: object = data
    for key in keys:
        found = found.get(key, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _line(text: str, words: str) -> int:
    place = text.find(words) if words else -1
    return text.count("\n", 0, place) + 1 if place >= 0 else 1


_BY_NAME: Mapping[str, Reader] = {"pyproject.toml": pyproject, "setup.py": setup_py}
