"""Answers DATA009: nearer, and in bigger pieces."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule


class StorageBoundRule(Rule):
    """Nearer, and in bigger pieces."""

    answers = Code("DATA009")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="DATA009-local",
            title="copy the data to a local disk at the start of the job",
            steps=("rsync -a DATA/ $SLURM_TMPDIR/data/   # or /dev/shm where it fits; then read it there",),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.COMMAND,
            uses=frozenset({Resource.DISK}),
        )
        yield Remedy(
            id="DATA009-shards",
            title="shards of 100 MB to 1 GB instead of single files",
            steps=(
                "webdataset, arrow or parquet shards, or one memory-mapped array: read in order, shuffled "
                "in a buffer",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.REWRITE,
            references=("https://github.com/webdataset/webdataset",),
        )
