"""Answers DATA002 slow-preprocessing."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule, Unavailable
from gpudoctor.model.budget import cpus_per_rank

_MOST = 16
"""Processes beyond which preparing a set gains little on common disks."""


class SlowPreprocessingRule(Rule):
    """Whole arrays; or once, before the training."""

    answers = Code("DATA002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kind = finding.fact("kind")
        if kind == "pixels":
            yield _VECTORISE
        elif kind == "tokens":
            yield _pretokenise(processes_for(patient))
        elif kind == "text":
            yield _BINARY
        else:
            yield _ONCE


_VECTORISE = Remedy(
    id="DATA002-vectorise",
    title="one operation on the whole array instead of a loop over its cells",
    steps=(
        "out = np.where(image > threshold, 255, 0)   # all cells at once",
        "np.asarray(picture) reads all pixels of a PIL image at once; no getpixel",
        "what cannot be written so: numba.njit, or on the GPU over the whole batch",
    ),
    applicability=Applicability.DISPLAY_ONLY,
    effort=Effort.SMALL_EDIT,
)
_BINARY = Remedy(
    id="DATA002-binary",
    title="write the numbers to binary files once, and load those",
    steps=(
        "np.save(path.with_suffix('.npy'), np.loadtxt(path).astype(np.float32)) once, before the training",
        "np.load(path.with_suffix('.npy'), mmap_mode='r') in __getitem__",
    ),
    applicability=Applicability.DISPLAY_ONLY,
    effort=Effort.SMALL_EDIT,
    uses=frozenset({Resource.DISK}),
)
_ONCE = Remedy(
    id="DATA002-once",
    title="Compute once what is the same in every epoch, and the random part on the whole batch",
    steps=(
        "np.save(path, decoded) once, np.load(path, mmap_mode='r') in __getitem__: nothing is unpacked again",
        "a set that fits into memory: decode it in __init__ into one array or tensor, index that",
        "random changes: torchvision.transforms.v2 on the batch, or numpy on whole arrays, no loop over cells",
    ),
    applicability=Applicability.DISPLAY_ONLY,
    effort=Effort.SMALL_EDIT,
    uses=frozenset({Resource.DISK}),
)


def _pretokenise(processes: int) -> Remedy:
    several = f"num_proc={processes}" if processes > 1 else ""
    how = f"batched=True, {several}" if several else "batched=True"
    return Remedy(
        id="DATA002-pretokenise",
        title=f"tokenise once, before the training{f' ({several})' if several else ''}",
        steps=(
            f"dataset = dataset.map(tokenise, {how})   # cached on disk",
            'or in the Dataset\'s __init__: self.encoded = tokenizer(texts, truncation=True)["input_ids"]',
            "pad in the collate function, to the batch's longest sample",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        uses=frozenset({Resource.DISK}),
    )


def processes_for(patient: Patient) -> int:
    """Processes to prepare a set with: this machine's CPUs, which nothing else uses yet."""
    try:
        return max(1, min(_MOST, int(cpus_per_rank(patient)[0])))
    except Unavailable:
        return 4
