"""Broken requirements inside the training stack, read from the metadata of what is installed."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import words
from gpudoctor.lang import say
from gpudoctor.model import Severity
from gpudoctor.model.cuda import numbers
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.packages import Distribution, Packages

STACK = words(
    "torch torchvision torchaudio torchdata torchmetrics torchao triton xformers flash-attn transformers "
    "tokenizers huggingface-hub safetensors accelerate peft trl datasets"
) | words(
    "diffusers sentence-transformers timm optimum bitsandbytes deepspeed lightning pytorch-lightning liger-kernel numpy"
)
"""Packages whose versions a training depends on; a conflict elsewhere is pip's business."""

_ASKED_AT_IMPORT = {"transformers": frozenset({"tokenizers", "huggingface-hub", "safetensors", "numpy"})}
"""Requirements that a package checks itself when it is imported (`dependency_versions_check.py`)."""

_COMPANIONS = frozenset({"torchvision", "torchaudio"})
"""Compiled against one release of torch: another series has other symbols."""


@frozen
class Broken:
    """One package that does not meet what others of the stack require of it."""

    name: str
    have: str | None
    """Installed version, None when it is not installed."""
    wishes: tuple[tuple[Distribution, str], ...]
    """Who requires it, and the version specifiers ("" for any version); only the wishes that are not met."""
    severity: Severity
    breaks: str | None
    together: str
    """What every package of the stack asks of it, joined."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def broken_requirements(packages: Packages) -> Iterator[Broken]:
    """Requirements within the stack that installed versions do not meet; optional ones are left out."""
    wishes = _wishes(packages)
    unmet: dict[str, list[tuple[Distribution, str]]] = {}
    for by, name, wanted in wishes:
        found = packages.distributions.get(name)
        if found is None or not _meets(found.version, wanted):
            unmet.setdefault(name, []).append((by, wanted))
    for name, broken in unmet.items():
        have = packages.version(name)
        verdicts = [_judge(packages, by.name, name, wanted, have) for by, wanted in broken]
        severity, breaks = max(verdicts, key=lambda verdict: verdict[0].rank)
        yield Broken(
            name=name,
            have=have,
            wishes=tuple(broken),
            severity=severity,
            breaks=breaks,
            # One that has to change itself has no say: its next release asks for something else.
            together=",".join(
                dict.fromkeys(wanted for by, other, wanted in wishes if other == name and by.name not in unmet)
            ).strip(","),
        )


def _wishes(packages: Packages) -> list[tuple[Distribution, str, str]]:
    """Requirer, required, specifiers: for this environment's Python, extras left out."""
    from packaging.markers import default_environment
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    surroundings = {str(key): str(value) for key, value in default_environment().items()} | {"extra": ""}
    series = ".".join(str(part) for part in numbers(packages.python)[:2])
    surroundings |= {"python_version": series, "python_full_version": packages.python}
    found: list[tuple[Distribution, str, str]] = []
    for name in sorted(STACK & set(packages.distributions)):
        by = packages.distributions[name]
        for line in by.requires:
            named = _NAME.match(line)
            if named and canonicalize_name(named[0]) not in STACK:
                continue  # most lines are; parsing a whole requirement is slow
            try:
                requirement = Requirement(line)
                wanted = requirement.marker is None or requirement.marker.evaluate(surroundings)
            except (InvalidRequirement, ValueError, KeyError):
                continue
            required = canonicalize_name(requirement.name)
            if wanted and required in STACK and requirement.url is None:
                found.append((by, required, str(requirement.specifier)))
    return found


def _meets(version: str, wanted: str) -> bool:
    """Whether a version is one of those wanted. A vendor's pre-release of 2.6.0 counts as 2.6.0."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        specifiers, parsed = SpecifierSet(wanted), Version(version)
    except (InvalidSpecifier, InvalidVersion):
        return True  # not a version that can be judged
    if specifiers.contains(parsed, prereleases=True):
        return True
    return parsed.is_prerelease and specifiers.contains(parsed.base_version, prereleases=True)


def _judge(packages: Packages, by: str, name: str, wanted: str, have: str | None) -> tuple[Severity, str | None]:
    """An error only where the import or the first use is known to fail."""
    if have is None and "torch" not in packages.distributions:
        return Severity.NOTE, None  # without torch scripts are only looked at here, nothing trains
    if name in _ASKED_AT_IMPORT.get(by, ()):
        return Severity.ERROR, say("import {package} raises ImportError", package=by)
    pinned = {numbers(part[2:])[:2] for part in wanted.replace(" ", "").split(",") if part.startswith("==")}
    if by in _COMPANIONS and name == "torch" and have is not None and pinned and numbers(have)[:2] not in pinned:
        return Severity.ERROR, say("import {package} fails: it was compiled against another torch", package=by)
    return Severity.WARNING, None
