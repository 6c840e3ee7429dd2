"""The files in which projects name versions, one reader a format."""

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from gpudoctor.model.cuda import numbers
from gpudoctor.model.records import frozen
from gpudoctor.vitals.configs.config_text import load_toml
from gpudoctor.vitals.packages import normalise
from gpudoctor.vitals.source.notebook import read_notebook


@frozen
class RequiredPackage:
    """One package that a file asks for."""

    name: str
    wanted: str
    line: int
    prose: bool = False
    """Whether a sentence of a README says so."""


Reader = Callable[[str], Iterator[RequiredPackage]]

_WHEEL = re.compile(r"(?:^|/)([A-Za-z0-9_.]+)-(\d[^-/]*)-[^/]*\.whl")
_CONDA = re.compile(r"(?:[\w./-]+::)?([A-Za-z][\w.-]*)\s*(.*)")
_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch"}
_IMAGE = re.compile(r"(?:\s|/)pytorch/pytorch:v?(\d+(?:\.\d+)+)")
_INSTALL = re.compile(r"\b(pip3?|conda|mamba|micromamba)\s+install\s+([^&|;\n]+)")
_TYPED = re.compile(
    r"(?:(?:[-*+$>%!#]|\d{1,3}\.)\s{0,8}){0,4}`{0,3}[$!]?\s{0,8}(?:sudo\s{1,8})?(?:python3?\s{1,8}-m\s{1,8})?"
    r"(pip3?|conda|mamba|micromamba)\s{1,8}install\s{1,8}([^&|;`\n]+)"
)
"""A command that a manual tells its reader to type: `$ pip install torch==1.7.1`."""
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
    r"\b(at least|minim\w+|newer|higher|later|greater|above|upwards?|latest|more recent)\b|이상|以上", re.I
)
_LOCKED = re.compile(r'^\[\[package\]\]\s+name = "([^"]+)"\s+version = "(\d[^"]*)"', re.MULTILINE)
_SET_UP = re.compile(r"(set_?up|install|init|env|environment|create_env|requirements)([-_]\w+)?\.sh")
"""Scripts that make the environment of a project."""
_PINS = re.compile(r"requirement|constraint|(?<![a-z])(reqs?|deps|dependencies|packages|pip|freeze)(?![a-z])")
"""Names of lists for pip."""
_DENIED = re.compile(r"\b(not|cannot|no longer)\b|n't\b", re.IGNORECASE)


def formats(path: str) -> Reader | None:
    """The reader of a file, by its name; None for a file in which no project names versions."""
    name = os.path.basename(path).lower()
    in_folder = os.path.basename(os.path.dirname(path)).lower() == "requirements"
    if name.endswith(".txt") and (in_folder or _PINS.search(name)):
        return requirements
    if re.fullmatch(r"(conda[-_.]?)?(env|environment)([-_.].*)?\.ya?ml", name):
        return environment
    if name.startswith("dockerfile") or name.endswith(".dockerfile"):
        return dockerfile
    if is_manual(path):
        return manual
    if name.endswith(".ipynb"):
        return notebook
    return shell if _SET_UP.fullmatch(name) else lock if is_lock(path) else _BY_NAME.get(name)


def is_lock(path: str) -> bool:
    """Whether a file holds the releases that a project was last installed with, whatever else admits more."""
    return os.path.basename(path) in {"uv.lock", "poetry.lock", "pdm.lock"}


def lock(text: str) -> Iterator[RequiredPackage]:
    """The packages of uv, Poetry and PDM; the newest where several platforms have their own."""
    newest: dict[str, re.Match[str]] = {}
    for item in _LOCKED.finditer(text):
        before = newest.get(normalise(item[1]))
        if before is None or numbers(before[2]) < numbers(item[2]):
            newest[normalise(item[1])] = item
    for name, item in newest.items():
        yield RequiredPackage(name=name, wanted=f"=={item[2]}", line=text.count("\n", 0, item.start(2)) + 1)


def is_manual(path: str) -> bool:
    """Whether a file is a README, which may name versions in the commands that it tells its reader to type."""
    return re.fullmatch(r"readme(\.(md|rst|txt))?", os.path.basename(path).lower()) is not None


_LISTED = re.compile(r"([\w.-]+)\s+(\d[\w.+]*)(\s+[\w.]+){0,2}")
"""`torch  1.4.0  pypi_0  pypi`: name, version, build and channel."""


def requirements(text: str) -> Iterator[RequiredPackage]:
    """A file of pip: `torch==1.7.1+cu110  # comment`, a wheel's address, or what `conda list` and `pip list` print.

    The list of a conda environment under this name, `- pytorch=1.4.0=py3.7_cuda10`, is read as conda reads it.
    """
    for number, line in enumerate(text.splitlines(), 1):
        words = re.split(r"\s#|^#|\s--", line.strip())[0].strip().rstrip("\\").strip()
        if listed := _LISTED.fullmatch(words):
            yield from _conda(f"{listed[1]}={listed[2]}", number)
        elif words and not words.startswith("-"):
            yield from _pip(words, number)
        elif words.startswith("- ") and not words.endswith(":"):
            yield from _conda(words[2:].strip(" '\""), number)


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


def dockerfile(text: str) -> Iterator[RequiredPackage]:
    """The base image of PyTorch, and the packages that its lines install."""
    values: dict[str, str] = {}
    for number, line in _joined(text):
        command, _, rest = line.partition(" ")
        if command.upper() in {"ARG", "ENV"}:
            values |= dict(re.findall(r"\b(\w+)=[\"']?([^\"'\s]*)", rest))
        filled = _filled(line, values)
        image = _IMAGE.search(filled) if command.upper() == "FROM" else None
        if image:
            yield RequiredPackage(name="torch", wanted=f"=={image[1]}", line=number)
        for tool, words in _INSTALL.findall(filled) if command.upper() == "RUN" else ():
            read = _pip if tool.startswith("pip") else _conda
            for word in words.split():
                if not word.startswith(("-", "$", ".", "/")):
                    yield from read(word.strip("\"'"), number)


def manual(text: str) -> Iterator[RequiredPackage]:
    """The one release of a package that a README's install commands name; two of them are a choice."""
    yield from shell(text)
    yield from _sentences(text)


def shell(text: str) -> Iterator[RequiredPackage]:
    """The one release of a package that the install commands of a script name; two of them are a choice."""
    lines = ((number, line.lstrip()) for number, line in _joined(text, comments=True))
    return (item for item in _installed(lines) if item.wanted.startswith("=="))


def notebook(text: str) -> Iterator[RequiredPackage]:
    """The versions that a notebook's own cells install; two of one package are a choice."""
    return _installed(read_notebook(text).commands, bare=True)


def _installed(lines: Iterable[tuple[int, str]], *, bare: bool = False) -> Iterator[RequiredPackage]:
    """What these commands install, of packages that have one version in all of them; `bare`: none counts as one."""
    found: dict[str, list[RequiredPackage]] = {}
    for number, line in lines:
        typed = _TYPED.match(line)
        read = _pip if typed is not None and typed[1].startswith("pip") else _conda
        for word in typed[2].split("#")[0].split() if typed is not None else ():
            if not word.startswith(("-", "$", ".", "/", "<", "[", "http", "git+")):
                for item in read(word.strip("\"'"), number):
                    if item.wanted or bare:  # `-c pytorch` names a channel
                        found.setdefault(item.name, []).append(item)
    for items in found.values():
        if items[0].wanted and len({item.wanted for item in items}) == 1:
            yield items[0]


def _sentences(text: str) -> Iterator[RequiredPackage]:
    """The newest torch that a README's sentences name; where one is a lower bound, only that bound."""
    told: list[tuple[tuple[int, ...], RequiredPackage]] = []
    lines = text.splitlines()
    least = any("minim" in line.lower() for line in lines if line.lstrip().startswith("|"))
    for number, line in enumerate(lines, 1):
        if _TYPED.match(line.lstrip()):
            continue
        bare = re.sub(r"https?://[^\s)\]>]*", "", line).lstrip(" \t#*-+>|`[")
        for match in _SENTENCE.finditer(bare):
            if match.start() and not _NEEDED.search(bare):
                continue  # a sentence about a release of PyTorch, not about what the project needs
            between = match["between"]
            upwards = (
                match["after"]
                or re.search(r"[>≥]", between)
                or (_UPWARDS.search(bare) and not _DENIED.search(bare))
                or (least and line.lstrip().startswith("|"))
            )
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


def _filled(line: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{?(\w+)(?::-[^}]*)?\}?", lambda match: values.get(match[1], match[0]), line)


def _joined(text: str, *, comments: bool = False) -> Iterator[tuple[int, str]]:
    """Instructions with their continued lines, and the line each begins on; lines after `#` with `comments`."""
    first, parts = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("#") and not comments:
            continue
        first = first or number
        parts += " " + bare.removesuffix("\\") if parts else bare.removesuffix("\\")
        if not bare.endswith("\\"):
            yield first, parts
            first, parts = 0, ""
    if parts:
        yield first, parts


def _pip(words: str, line: int) -> Iterator[RequiredPackage]:
    """One requirement as pip reads it."""
    from packaging.requirements import InvalidRequirement, Requirement

    wheel = _WHEEL.search(words)
    if wheel:
        yield RequiredPackage(name=normalise(wheel[1]), wanted=f"=={wheel[2].replace('%2B', '+')}", line=line)
        return
    try:
        requirement = Requirement(words)
        counts = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    except (InvalidRequirement, ValueError, KeyError):
        if re.match(r"[\w.-]+=\d", words):
            yield from _conda(words, line)
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
