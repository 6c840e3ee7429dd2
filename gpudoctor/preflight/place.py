"""Who an agent is: its rank, the world, the head's address and port, from the launcher or from flags."""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model.records import frozen

DEFAULT_PORT = 29400
"""The port of the coordinator unless something says another one; the default of torchrun's rendezvous too."""
_FIRST_OF_JOBS, _PORTS_OF_JOBS = 20_000, 10_000
"""Ports for jobs of a scheduler, below the range from which Linux takes ports for outgoing connections."""


@frozen
class RankPlace:
    """An agent's place among the others."""

    rank: int
    world: int
    head: str
    port: int
    """Port of the coordinator; 0 where one agent is alone: any free one."""
    token: str
    """The same for all agents of a job, and for no other job."""
    source: str
    """`torchrun`, `srun`, `mpirun`, `flags`, `RANK and WORLD_SIZE`, or `alone`."""


@frozen
class PlaceFlags:
    """What the command line says of an agent's place."""

    rank: int | None = None
    world: int | None = None
    head: str | None = None
    port: int | None = None


@frozen
class _Said:
    """Rank and world size as one source says them."""

    source: str
    rank: int
    world: int
    names: tuple[str, str]
    """Its names for rank and world size."""


def find_place(flags: PlaceFlags, environment: Mapping[str, str]) -> RankPlace:
    """The agent's place; raises `UsageError` where two sources disagree or one makes no sense."""
    said = list(_sources(flags, environment))
    for one in said:
        _judge(one, said[0])
    several = bool(said) and said[0].world > 1
    return RankPlace(
        rank=said[0].rank if several else 0,
        world=said[0].world if several else 1,
        head=_head(said[0], flags, environment) if several else "127.0.0.1",
        port=_port(said[0], flags, environment) if several else flags.port or 0,
        token=sha256(f"gpudoctor preflight {_job(environment)}".encode()).hexdigest()[:16],
        source=said[0].source if said else "alone",
    )


def _judge(said: _Said, first: _Said) -> None:
    """Raise `UsageError` for a source that makes no sense, or that says something else than the first one."""
    rank, world = said.names
    if not 0 <= said.rank < said.world:
        raise UsageError(
            "{rank_variable} is {rank} and {world_variable} is {world}; ranks go from 0 to {last_rank}: "
            "correct one of them",
            rank_variable=rank,
            rank=said.rank,
            world_variable=world,
            world=said.world,
            last_rank=said.world - 1,
        )
    if (said.rank, said.world) != (first.rank, first.world):
        raise UsageError(
            "two sources disagree: {source} says rank {rank} of {world}, {other} says rank {its} of {its_world}; "
            "correct one of them or unset it",
            source=first.source,
            rank=first.rank,
            world=first.world,
            other=said.source,
            its=said.rank,
            its_world=said.world,
        )


def _sources(flags: PlaceFlags, environment: Mapping[str, str]) -> Iterator[_Said]:
    """What each source says, the most particular one first."""
    if flags.rank is not None or flags.world is not None:
        if flags.rank is None or flags.world is None:
            given, missing = ("--rank", "--world") if flags.world is None else ("--world", "--rank")
            raise UsageError("{given} was given without {missing}; give both", given=given, missing=missing)
        yield _Said(source="flags", rank=flags.rank, world=flags.world, names=("--rank", "--world"))
    torchrun = "TORCHELASTIC_RUN_ID" in environment
    source = "torchrun" if torchrun else say("RANK and WORLD_SIZE")
    if pair := _variables(environment, source, "RANK", "WORLD_SIZE"):
        yield pair
        if torchrun:
            return  # a scheduler that started torchrun counts its own tasks, not torchrun's
    if "SLURM_STEP_ID" in environment or "SLURM_STEP_NODELIST" in environment:
        world = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environment else "SLURM_NTASKS"
        if step := _variables(environment, "srun", "SLURM_PROCID", world):
            yield step
    for rank, world in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        if found := _variables(environment, "mpirun", rank, world):
            yield found
            return


def _variables(environment: Mapping[str, str], source: str, rank: str, world: str) -> _Said | None:
    """What two variables say; None where neither is set, or one belongs to another program."""
    own, all_ranks = _number(environment, rank), _number(environment, world)
    if own is not None and all_ranks is not None:
        return _Said(source=source, rank=own, world=all_ranks, names=(rank, world))
    if rank == "RANK" and own != all_ranks:
        given, missing = (rank, world) if all_ranks is None else (world, rank)
        raise UsageError(
            "{given} is set and {missing} is not; set both, or start gpudoctor by torchrun or srun",
            given=given, missing=missing,
        )  # fmt: skip
    return None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError("{name}={text} is not a whole number; correct or unset it", name=name, text=text) from None


def _head(first: _Said, flags: PlaceFlags, environment: Mapping[str, str]) -> str:
    if flags.head:
        return flags.head
    if head := environment.get("MASTER_ADDR", "").strip():
        return head
    if first.source == "srun":
        nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST") or ""
        if nodes:
            return first_host(nodes)
    raise UsageError(
        "{source} says that there are {world} ranks, and nothing says where rank 0 is; give "
        "--head HOST or set MASTER_ADDR",
        source=first.source,
        world=first.world,
    )


def _port(first: _Said, flags: PlaceFlags, environment: Mapping[str, str]) -> int:
    port = flags.port
    if port is None:
        master = _number(environment, "MASTER_PORT")
        if master is not None:
            # torchrun's own store listens at MASTER_PORT
            port = master + 1 if first.source == "torchrun" else master
        elif first.source == "srun":
            job = re.sub(r"\D", "", environment.get("SLURM_JOB_ID", "0")) or "0"
            step = re.sub(r"\D", "", environment.get("SLURM_STEP_ID", "0")) or "0"
            port = _FIRST_OF_JOBS + (int(job) * 7 + int(step)) % _PORTS_OF_JOBS
        else:
            port = DEFAULT_PORT
    if not 0 < port < 65_536:
        raise UsageError("the coordinator's port would be {port}; give --port between 1 and 65535", port=port)
    return port


def first_host(nodes: str) -> str:
    """The first host of a list as Slurm writes it: `node[03-07,9],login` is `node03`."""
    first = re.match(r"(?:\[[^\]]*\]|[^,\[])*", nodes.strip())
    return re.sub(r"\[([^][,-]*)(?:[,-][^][]*)?\]", r"\1", first[0] if first else "")


def _job(environment: Mapping[str, str]) -> str:
    """What all agents of one job know of it, and those of another one have different."""
    if run := environment.get("TORCHELASTIC_RUN_ID"):
        return f"torchrun {run} {environment.get('TORCHELASTIC_RESTART_COUNT', '')}"
    if job := environment.get("SLURM_JOB_ID"):
        return f"slurm {job} {environment.get('SLURM_STEP_ID', '')}"
    return environment.get("OMPI_MCA_ess_base_jobid") or environment.get("PMIX_NAMESPACE") or ""
