"""Rules on the topic: node."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.named_nodes import NodesDetail
from gpudoctor.model import Finding, Remedy, answers
from gpudoctor_rules.remedies import remedy


@answers(
    "NODE001", "NODE002", "NODE003", "NODE004", "NODE005", "NODE006", "NODE007", "NODE008", "NODE009", "NODE013",
    "NODE014", "NODE015", "NODE016", "NODE017", "NODE018",
)  # fmt: skip
def leave_out(finding: Finding) -> Iterator[Remedy]:
    """The job without the nodes that the finding accuses."""
    detail = finding.detail_of(NodesDetail)
    hosts, why = ",".join(detail.hosts), finding.name.replace("-", " ")
    if hosts:
        yield remedy(
            f"{finding.code}-leave-out",
            f"--exclude={hosts}",
            f"sbatch --exclude={hosts} job.sbatch   # or srun --exclude={hosts}; start the job without them",
            f"scontrol update NodeName={hosts} State=DRAIN Reason='gpudoctor {finding.code}: {why}'"
            "   # Slurm's administrator",
            f"kubectl cordon {detail.spaced}   # Kubernetes",
            references=(
                "https://slurm.schedmd.com/scontrol.html",
                "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/",
            ),
        )
