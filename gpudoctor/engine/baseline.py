"""A baseline: the known findings of an old project, by fingerprint, so that only new ones count."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.model import Finding, Setting, Silenced
from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.read_limits import BASELINE

# A finding's fingerprint: the same finding in the next run, though lines have moved.


def fingerprint(finding: Finding) -> str:
    """32 hex digits from the code, the file and the source text (or the key, or the subject); no line number.

    Equal findings in one file have equal fingerprints: whoever needs them apart counts them.
    """
    parts = [str(finding.code)]
    span = finding.span
    if span is not None:
        parts += [span.path.replace("\\", "/"), " ".join(span.text.split())]
    else:
        parts += [finding.subject]
        parts += [f"{item.path}:{item.key}" for item in finding.evidence if isinstance(item, Setting)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]


SCHEMA = "gpudoctor.baseline/1"


def read_baseline(path: Path) -> Counter[str]:
    """Fingerprints with how often each may appear; `UsageError` when the file is no baseline of ours."""
    try:
        data = load_json(read_text(path, BASELINE))
        if data["schema"] != SCHEMA:
            raise ValueError(data["schema"])
        return Counter({str(item["fingerprint"]): int(item["count"]) for item in data["findings"]})
    except OSError as error:
        raise UsageError(
            "--baseline {path}: cannot be read: {error}", path=path, error=error.strerror or error
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UsageError("--baseline {path}: not a baseline file; --write-baseline makes one", path=path) from error


def baseline_text(findings: Iterable[Finding]) -> str:
    """The baseline file for these findings: sorted and readable, so that its diff can be reviewed."""
    counts: Counter[str] = Counter()
    shown: dict[str, Finding] = {}
    for finding in findings:
        mark = fingerprint(finding)
        counts[mark] += 1
        shown.setdefault(mark, finding)
    entries = [
        {
            "fingerprint": mark,
            "count": counts[mark],
            "code": str(finding.code),
            "path": finding.span.path if finding.span else None,
            "text": finding.span.text if finding.span else finding.subject,
        }
        for mark, finding in shown.items()
    ]
    entries.sort(key=lambda item: (str(item["path"]), str(item["code"]), str(item["fingerprint"])))
    return json.dumps({"schema": SCHEMA, "findings": entries}, indent=1, ensure_ascii=False) + "\n"


def known_from(baseline: Counter[str], finding: Finding) -> Silenced | None:
    """The finding silenced, when the baseline still has one like it to spare; the count goes down."""
    mark = fingerprint(finding)
    if baseline[mark] <= 0:
        return None
    baseline[mark] -= 1
    return Silenced(finding=finding, where="baseline", reason="known when the baseline was written")
