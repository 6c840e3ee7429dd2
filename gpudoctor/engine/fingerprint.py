"""A finding's fingerprint: the same finding in the next run, though lines have moved."""

import hashlib

from gpudoctor.model import Finding, Setting


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
