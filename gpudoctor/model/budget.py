"""What one rank may use of the machine: shared by checks and rules that count loader workers and threads."""

from gpudoctor.model.patient import Patient
from gpudoctor.model.unavailable import optional


def ranks_here(patient: Patient) -> int:
    """Training processes on this node: what the scheduler or the launch line says, else 1."""
    job = optional(lambda: patient.job)
    if job is None:
        return 1
    asked = [launch.ranks_per_node for launch in job.launches if launch.ranks_per_node]
    return max([job.ranks_per_node or 1, *asked])


def cpus_per_rank(patient: Patient) -> tuple[float, str]:
    """CPUs that one rank may use and where the number comes from; raises `Unavailable` without a host."""
    job = optional(lambda: patient.job)
    ranks = ranks_here(patient)
    if job is not None and job.cpus_per_task and ranks == (job.ranks_per_node or 1):
        return float(job.cpus_per_task), f"{job.cpus_per_task} CPUs a task from the scheduler"
    if job is not None and job.cpus_granted:
        return job.cpus_granted / ranks, f"{job.cpus_granted:g} CPUs from the scheduler for {_ranks(ranks)}"
    budget = _cpus(patient)
    return budget / ranks, f"{budget:g} CPUs for {_ranks(ranks)}"


def _cpus(patient: Patient) -> float:
    """CPUs that quota and affinity allowed a run, where one was recorded (on whichever machine), else here."""
    recorded = optional(lambda: patient.recording.machine_facts.get("cpus"))
    return float(recorded) if isinstance(recorded, int | float) and recorded > 0 else patient.host.cpu_budget


def _ranks(ranks: int) -> str:
    return "1 process" if ranks == 1 else f"{ranks} processes"
