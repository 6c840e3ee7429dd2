"""`--share`: a report that can be pasted anywhere. Paths, homes, host and user names and serial numbers go.

Every text of the report is rewritten (`strings.rewrite`), so a new field is covered the day it is added.
In doubt a text loses too much rather than too little; names of checks, codes and units are ours and stay.
"""

import getpass
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from gpudoctor.model import Evidence, Finding, LogDetail, LogLine, Report, Setting, SourceSpan
from gpudoctor.model.records import frozen, replace
from gpudoctor.report.printable import printable
from gpudoctor.report.strings import rewrite, texts

USER, HOST, SECRET_ID, ADDRESS = "<user>", "<host>", "<id>", "<address>"

_NOBODY = frozenset({"root", "nobody", "user", "ubuntu", "localhost", "none", "unknown", "shared", "public", "default"})
"""Accounts and host names that name nobody."""

_USER_KEYS = re.compile(r"(^|[_.-])(USER|USERNAME|LOGNAME|ACCOUNT|OWNER)$", re.IGNORECASE)
_HOST_KEYS = re.compile(
    r"(^|[_.-])(HOST|HOSTNAME|HOSTS|HOSTFILE|NODENAME|NODELIST|NODE_LIST|NODE|ADDR|ADDRESS|ENDPOINT|DOMAIN|"
    r"SUBMIT_HOST|CLUSTER_NAME|SSH_CONNECTION|SSH_CLIENT|DISPLAY)$",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)(\s*[=:]\s*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;]+)")

_SEGMENT = r"[^\s/\\'\"`<>|:*?,;()\[\]{}=]+"
_PUBLIC_URL = re.compile(r"https?://[^\s'\"`<>)\]]+", re.IGNORECASE)
_OTHER_URL = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30})://([^\s'\"`<>,;)\]]+)", re.IGNORECASE)
_QUOTED_PATH = re.compile(r"(['\"`])((?:/|~[\w.-]*/|[A-Za-z]:[\\/]|\\\\)[^'\"`\n]*)\1")
_WINDOWS_PATH = re.compile(rf"(?:\\\\|(?<![A-Za-z])[A-Za-z]:[\\/]+)(?:{_SEGMENT}[\\/]+)*({_SEGMENT})?[\\/]*")
_HOME_PATH = re.compile(r"~[\w.-]*(?:/[^\s'\"`<>|:*?,;()\[\]{}=]+)+/?")
_ABSOLUTE_PATH = re.compile(rf"(?<![\w.<>/\\~-])/+(?:{_SEGMENT}/+)*({_SEGMENT})/*")
_RELATIVE = re.compile(r"(?<![^\s\\'\"`<>|:*?,;()\[\]{}=])[^\s\\'\"`<>|:*?,;()\[\]{}=/]+/[^\s\\'\"`<>|:*?,;()\[\]{}=]+")
_FILE = re.compile(
    r".\.(?:py|pyi|ipynb|json|jsonl|ya?ml|toml|ini|cfg|conf|txt|csv|log|sh|sbatch|slurm|out|err|pt|pth|ckpt|bin|so|whl|"
    r"safetensors|parquet|h5|npz?|tar|gz|zip|lock|md|env)\b"
)
_SYSTEM = re.compile(
    r"^/(?:dev/(?:shm/?(?:$|torch_)|(?:null|infiniband|nvidia[\w-]*|dri|kfd)\b)|proc\b|sys\b|etc\b|run\b|"
    r"tmp/?$|s?bin\b|usr/(?:s?bin|lib\w*|include|share)\b|usr/local/(?:cuda[\w.-]*|nvidia)\b|lib\w*\b|boot\b|"
    r"var/(?:log|run|lib/docker)\b)"
)
"""Places that every machine has; they tell nothing of this one and a remedy needs them."""

_HOME = re.compile(
    rf"(?:/(?:home|Users|data/home|nfs/home|export/home|users|mnt/home|gpfs/home|scratch|work)/"
    rf"|[A-Za-z]:[\\/]+Users[\\/]+)({_SEGMENT})",
    re.IGNORECASE,
)
_TILDE_USER = re.compile(r"(?<![\w/])~([a-z_][\w.-]*)/")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\b")
_SYSLOG_HOST = re.compile(
    r"^(?:[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,+Z-]+) "
    r"([A-Za-z0-9][\w.-]*) (?=[\w./-]+(?:\[\d+\])?:)",
    re.MULTILINE,
)
_SLURM_HOSTS = re.compile(
    r"\b(?:srun|slurm\w*): [^:\n]{1,20}: ([A-Za-z][\w.-]*): |\bON ([A-Za-z][\w.-]*) CANCELLED|"
    r"(?<![\w.-])([A-Za-z][\w.-]*\[[\d,]*\d-\d[\d,-]*\])"
)
"""A node as srun and Slurm's daemons name it, and a range of nodes."""
_UUID = re.compile(r"\b(GPU-|MIG-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_SHORT_UUID = re.compile(
    r"\b(GPU|MIG)-(?:GPU-)?(?=[0-9a-f-]*\d)[0-9a-f]{4,}(?:-[0-9a-f]*)*(?:/\d+/\d+)?\b", re.IGNORECASE
)
_SERIAL = re.compile(
    r"\b(serial(?:[ _-]?(?:number|no\.?|num))?|s/n|board[ _-]?id|asset[ _-]?tag)(\s{0,8}(?:is|[:=#])?\s{0,8})"
    r"(?=[\w-]{0,60}\d)([A-Z0-9][A-Z0-9-]{4,})",
    re.IGNORECASE,
)
_SERIAL_KEY = re.compile(r"serial|uuid|asset|machine.?id|guid", re.IGNORECASE)
_MAC = re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5,}\b", re.IGNORECASE)
_GUID = re.compile(r"\b[0-9a-f]{4}(?::[0-9a-f]{4}){3}\b|\b0x[0-9a-f]{16}\b", re.IGNORECASE)
_IPV4 = re.compile(
    r"(?<![\w.=-])(?<!version )(?<!driver )(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}"
    r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?![\w.]\d|\w)"
)
_IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9a-f:]*\d)(?=[0-9a-f:]*::|(?:[0-9a-f]+:){7})[0-9a-f]{1,4}:[0-9a-f:]+(?![\w:])", re.IGNORECASE
)


@frozen
class HiddenNames:
    """Names to take out besides those that the report itself gives away."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()

    @classmethod
    def of_this_machine(cls) -> "HiddenNames":
        """Who runs this process, and where; whatever cannot be asked is left out."""
        users = [os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")]
        with suppress(OSError, KeyError, ImportError):  # no entry for this uid, as in many containers
            users.append(getpass.getuser())
        hosts = [socket.gethostname(), os.environ.get("HOSTNAME", ""), os.environ.get("SLURMD_NODENAME", "")]
        homes = [os.path.expanduser("~"), os.environ.get("HOME", "")]
        return cls(
            users=_known(users),
            hosts=_known(hosts),
            homes=tuple(home for home in dict.fromkeys(homes) if len(home) > 1),
        )


def shareable(report: Report, identity: HiddenNames | None = None) -> Report:
    """The report without paths, home folders, host and user names, serial numbers, UUIDs and addresses.

    `identity` is that of this machine unless given. Paths are cut to their base names; places that every
    machine has (/dev/shm, /proc) stay, and so do web addresses unless they hold a name.
    """
    scrubber = _Scrubber(report, identity or HiddenNames.of_this_machine())
    return rewrite(_without_structure(report), scrubber.scrub)


class _Scrubber:
    """Takes everything that identifies out of one text after another."""

    def __init__(self, report: Report, identity: HiddenNames) -> None:
        listed = [printable(text) for text in texts(report)]
        users, hosts = list(identity.users), [*identity.hosts, report.subject.host]
        hosts += [report.run.node] if report.run else []
        hosts += [node.name for node in report.preflight.nodes] if report.preflight else []
        hosts += [moment.node for moment in report.log.moments] if report.log else []
        for text in listed:
            users += _HOME.findall(text) + _TILDE_USER.findall(text)
            hosts += _SYSLOG_HOST.findall(text)
            hosts += filter(None, chain(*_SLURM_HOSTS.findall(text)))
        findings = [item.finding for item in report.findings] + [item.finding for item in report.silenced]
        # What settings and logs give under a name: a user, an account, a node.
        settings = (item for finding in findings for item in finding.evidence if isinstance(item, Setting))
        pairs = [(item.key, item.value) for item in settings]
        pairs += chain(*(item.detail.values for item in findings if isinstance(item.detail, LogDetail)))
        users += [value for key, value in pairs if _USER_KEYS.search(key)]
        hosts += [value for key, value in pairs if _HOST_KEYS.search(key) and re.fullmatch(r"[\w.-]+", value)]
        users += [os.path.basename(home.rstrip("/\\")) for home in identity.homes]
        hosts += [host.partition(".")[0] for host in hosts]
        self._users, self._hosts = _names(users), _names(hosts)
        # Paths that stand in fields of their own: found in messages too, also when they hold spaces.
        paths = [*report.subject.targets]
        for finding in findings:
            paths += [item.path for item in finding.evidence if isinstance(item, SourceSpan | Setting) and item.path]
        paths += [edit.path for item in report.findings for remedy in item.remedies for edit in remedy.edits]
        self._paths = _literal([path for path in paths if len(_base(path)) < len(path)])
        self._homes = _literal(identity.homes)

    def scrub(self, text: str) -> str:
        """The text without anything that identifies."""
        kept: list[str] = []

        def keep(match: re.Match[str]) -> str:
            kept.append(match[0])
            return f"\0{len(kept) - 1}\0"

        text = printable(text)
        # Identifiers first: they hold characters that look like parts of paths and of addresses.
        text = _UUID.sub(lambda match: (match[1] or "") + SECRET_ID, text)
        text = _SERIAL.sub(lambda match: match[1] + match[2] + SECRET_ID, text)
        text = _PUBLIC_URL.sub(keep, text)
        text = _ASSIGNED.sub(_assignment, text)
        text = _EMAIL.sub(f"{USER}@{HOST}", text)
        text = self._without_paths(text)
        text = _MAC.sub(ADDRESS, text)
        text = _GUID.sub(ADDRESS, text)
        text = _IPV4.sub(ADDRESS, text)
        text = _IPV6.sub(ADDRESS, text)
        text = re.sub("\0(\\d+)\0", lambda match: re.sub(r"//[^/@\s]*@", "//", kept[int(match[1])]), text)
        # Behind the names: `gpu-a100-08` may be a node.
        return _SHORT_UUID.sub(lambda match: f"{match[1]}-{SECRET_ID}", self._without_names(text))

    def _without_paths(self, text: str) -> str:
        text = _OTHER_URL.sub(_address_end, text)
        text = _QUOTED_PATH.sub(lambda match: match[1] + _base(match[2]) + match[1], text)
        if self._paths:
            text = self._paths.sub(lambda match: _base(match[0]), text)
        if self._homes:
            text = self._homes.sub("~", text)
        text = _WINDOWS_PATH.sub(lambda match: match[1] or "", text)
        text = _HOME_PATH.sub(lambda match: _base(match[0]), text)
        text = _ABSOLUTE_PATH.sub(lambda match: _base(match[0]), text)
        return _RELATIVE.sub(_file_name, text)

    def _without_names(self, text: str) -> str:
        if self._hosts:
            text = self._hosts.sub(HOST, text)
        return self._users.sub(USER, text) if self._users else text


def _without_structure(report: Report) -> Report:
    """The report with the fields that are a path or a host as a whole replaced; a pattern might miss those."""
    subject = replace(
        report.subject,
        host="",
        title=_base(report.subject.title) if report.subject.title in report.subject.targets else report.subject.title,
        targets=tuple(map(_base, report.subject.targets)),
    )

    def bare(finding: Finding) -> Finding:
        return replace(finding, evidence=tuple(map(_bare, finding.evidence)))

    findings = tuple(
        replace(
            item,
            finding=bare(item.finding),
            remedies=tuple(
                replace(remedy, edits=tuple(replace(edit, path=_base(edit.path)) for edit in remedy.edits))
                for remedy in item.remedies
            ),
        )
        for item in report.findings
    )
    silenced = tuple(replace(item, finding=bare(item.finding)) for item in report.silenced)
    launch = tuple(replace(row, path=_base(row.path or ""), told={}, variables={}) for row in report.launch)
    return replace(report, subject=subject, findings=findings, silenced=silenced, launch=launch)


def _bare(evidence: Evidence) -> Evidence:
    if isinstance(evidence, SourceSpan):
        return replace(evidence, path=_base(evidence.path))
    if isinstance(evidence, LogLine):
        return replace(evidence, origin=_base(evidence.origin) if "/" in evidence.origin else evidence.origin)
    if isinstance(evidence, Setting):
        value = evidence.value
        if _USER_KEYS.search(evidence.key):
            value = USER
        elif _HOST_KEYS.search(evidence.key):
            value = HOST
        elif _SERIAL_KEY.search(evidence.key):
            value = SECRET_ID
        return replace(evidence, value=value, path=None if evidence.path is None else _base(evidence.path))
    return evidence


def _assignment(match: re.Match[str]) -> str:
    """`USER=alice` and the like, in a command or a log line."""
    key, between, value = match[1], match[2], match[3]
    if "=" in between and _USER_KEYS.search(key):
        return key + between + USER
    if "=" in between and _HOST_KEYS.search(key):
        return key + between + HOST
    if _SERIAL_KEY.search(key) and any(map(str.isdigit, value)):
        return key + between + SECRET_ID
    return match[0]


def _address_end(match: re.Match[str]) -> str:
    """An address with its scheme and its last part."""
    last = re.split(r"[/\\|:*?({}=\[]", match[2].rstrip("/"))[-1]
    return f"{match[1]}://.../{last}"


def _file_name(match: re.Match[str]) -> str:
    """A path to a file without its folders; other words with a slash in them are no path."""
    name = match[0].rpartition("/")[2]
    return name if _FILE.search(name) else match[0]


def _base(path: str) -> str:
    """The last component, whatever the separator; a place that every machine has stays whole."""
    if _SYSTEM.match(path):
        return path
    return re.split(r"[\\/]+", path.rstrip("\\/"))[-1] or path[:1]


def _known(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def _names(names: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that finds the names as whole words, longest first; None without a name.

    A short name without a digit is a part of ordinary words, too (`vm` of `total-vm`): it must stand alone.
    """
    words = {name for name in names if len(name) > 1 and name.lower() not in _NOBODY and not name.isdigit()}
    if not words:
        return None
    listed = "|".join(map(_one_name, sorted(words, key=lambda name: (-len(name), name))))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{listed})(?![A-Za-z0-9])", re.IGNORECASE)


def _one_name(name: str) -> str:
    prefix, bracket, _ = name.partition("[")
    if bracket:  # a range of nodes, and each of them
        return re.escape(prefix) + r"(?:\[[\d,-]+\]|\d+)"
    return rf"(?<![\w.-]){re.escape(name)}(?![\w-])" if re.fullmatch("[A-Za-z]{2,3}", name) else re.escape(name)


def _literal(paths: Iterable[str]) -> re.Pattern[str] | None:
    ordered = sorted(set(filter(None, paths)), key=lambda path: (-len(path), path))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None
