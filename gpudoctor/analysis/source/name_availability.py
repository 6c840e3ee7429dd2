"""Whether a project that asks for an old torch has the names that an edit writes."""

import re

from gpudoctor.analysis.source.target_versions import older_admitted
from gpudoctor.model.cuda import numbers
from gpudoctor.model.patient import Patient
from gpudoctor.model.remedy import ImportEdit, KeywordEdit, Remedy
from gpudoctor.model.signs.project import Asked

_NAMES = {
    "torch.inference_mode": "1.9",
    "torch.autocast": "1.10",
    "torch.amp.autocast": "1.10",
    "torch.set_float32_matmul_precision": "1.12",
    "torch.distributed.all_gather_into_tensor": "1.13",
    "torch.distributed.reduce_scatter_tensor": "1.13",
    "torch.compile": "2.0",
    "torch.func": "2.0",
    "torch.nn.functional.scaled_dot_product_attention": "2.0",
    "torch.nn.attention": "2.3",
    "torch.amp.GradScaler": "2.3",
    "torch.use_deterministic_algorithms": "1.8",
    "torch.linalg": "1.8",
    "torch.outer": "1.7",
    "torch.testing.assert_close": "1.9",
}
"""The torch release that first has a name; those below it too. From the release notes and the documentation."""
_KEYWORDS = {
    "persistent_workers": "1.7",
    "prefetch_factor": "1.7",
    "set_to_none": "1.7",
    "use_reentrant": "1.11",
    "fused": "2.0",
}
"""The torch release whose calls first take a keyword."""
_WORD = re.compile(r"(?<![\w.])torch(?:\.\w+)+")


def too_old(patient: Patient, remedy: Remedy) -> tuple[Asked, str] | None:
    """The project's line that admits a torch without what the edits write, and the release that they need."""
    for edit in remedy.edits:
        for need in sorted(_needs(edit), key=numbers, reverse=True):
            asked = older_admitted(patient, "torch", edit.path, need)
            if asked is not None:
                return asked, need
    return None


def _needs(edit: object) -> set[str]:
    if isinstance(edit, KeywordEdit):
        values = " ".join(value for _, value in edit.set)
        return {_KEYWORDS[name] for name, _ in edit.set if name in _KEYWORDS} | _of_names(values, "")
    if isinstance(edit, ImportEdit):
        return set()  # it imports what another edit of the remedy writes
    return _of_names(getattr(edit, "new_text", ""), getattr(edit, "expected", ""))


def _of_names(new: str, old: str) -> set[str]:
    there = set(_WORD.findall(old))
    return {
        release
        for word in _WORD.findall(new)
        if word not in there
        for name, release in _NAMES.items()
        if word == name or word.startswith(name + ".")
    }
