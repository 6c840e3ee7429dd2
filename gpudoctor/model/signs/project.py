"""Versions that a project asks for: requirement files, environment files, READMEs."""

import os
import re
from collections.abc import Mapping

from gpudoctor.model.cuda import dotted, numbers
from gpudoctor.model.records import frozen

_PART = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*([^,\s]+)")
_BOTTOMS = frozenset({"==", "===", "~=", ">=", ">"})
"""Signs that name a release below which none is admitted."""
_MANY = 99_999
"""Stands for "any further number" in the last place of a version that is only compared."""


@frozen
class Asked:
    """One line of a project's file that asks for a package."""

    name: str
    wanted: str
    """Version specifiers (PEP 440), `==1.7.1` or `>=1.6,<2`; "" for any version."""
    path: str
    line: int
    folder: str
    """The project's folder: the file's own, or the one above `requirements/`."""
    prose: bool = False
    """Whether a README says so in a sentence: what the project means, and no rule for a tool."""

    def admits(self, version: str) -> bool:
        """Whether a release meets the specifiers; local parts and pre-release letters do not count."""
        have = numbers(version)
        return not have or all(_meets(have, sign, other) for sign, other in _PART.findall(self.wanted))

    def older(self, version: str) -> bool:
        """Whether it admits a release before a version; a line without any bound says nothing about age."""
        bounds = [numbers(other) for sign, other in _PART.findall(self.wanted) if sign in _BOTTOMS]
        least = max(bounds, default=numbers(self.newest or ""))
        return bool(least) and _meets(least, "<", version)

    @property
    def newest(self) -> str | None:
        """A version to compare with in place of the newest release that is admitted; None without a bound."""
        tops = [top for sign, other in _PART.findall(self.wanted) if (top := _top(sign, other))]
        return dotted(min(tops)) if tops else None


@frozen
class ProjectVersions:
    """What a project's files ask for, by the folder that a script or config lies in."""

    folders: Mapping[str, tuple[Asked, ...]]
    """Folder to the lines of its own files and of those above it, nearest folder first."""

    def of(self, path: str, name: str) -> tuple[Asked, ...]:
        """The lines about one package that count for a file: those of the nearest folder that has any."""
        return self._nearest(path, name, prose=False)

    def told(self, path: str, name: str) -> tuple[Asked, ...]:
        """What the READMEs' sentences say about one package: those of the nearest folder that has any."""
        return self._nearest(path, name, prose=True)

    def _nearest(self, path: str, name: str, *, prose: bool) -> tuple[Asked, ...]:
        lines = self.folders.get(os.path.dirname(path), ())
        found = [asked for asked in lines if asked.name == name and asked.prose is prose]
        return tuple(asked for asked in found if asked.folder == found[0].folder)


def _meets(have: tuple[int, ...], sign: str, other: str) -> bool:
    wanted = numbers(other)
    if not wanted:
        return True
    size = max(len(have), len(wanted))
    one, two = (version + (0,) * (size - len(version)) for version in (have, wanted))
    if sign in {"==", "===", "!="}:
        same = have[: len(wanted)] == wanted if other.endswith("*") else one == two
        return same is not (sign == "!=")
    if sign == "~=":
        return one >= two and have[: len(wanted) - 1] == wanted[:-1]
    return {"<": one < two, "<=": one <= two, ">": one > two, ">=": one >= two}[sign]


def _top(sign: str, other: str) -> tuple[int, ...]:
    """The greatest version that one specifier admits; () when it sets no upper bound."""
    wanted = numbers(other)
    if not wanted:
        return ()
    if sign in {"==", "==="}:
        return (*wanted, _MANY) if other.endswith("*") else wanted
    if sign == "<=":
        return wanted
    if sign == "~=":
        return (*wanted[:-1], _MANY)
    if sign != "<" or not any(wanted):
        return ()
    last = max(place for place, number in enumerate(wanted) if number)
    return (*wanted[:last], wanted[last] - 1, _MANY)
