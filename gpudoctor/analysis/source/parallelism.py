"""How a program spreads over several processes: the wrappers around its model, and who reduces gradients."""

from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.syntax import words
from gpudoctor.model.signs.source import Call, Known, Script

DDP = words("torch.nn.parallel.DistributedDataParallel apex.parallel.DistributedDataParallel")
SHARDED = words(
    "torch.distributed.fsdp.FullyShardedDataParallel torch.distributed.fsdp.fully_shard "
    "torch.distributed._composable.fsdp.fully_shard"
)


def wrappers(program: Program, names: frozenset[str]) -> list[tuple[Script, Call]]:
    """Calls that wrap a model so, those behind a switch that is known to be off left out."""
    found = [item for item in program.calls if item[1].name in names] if program.called & names else []
    return [(script, call) for script, call in found if not any(guard.never for guard in call.guards)]


def plain(call: Call, keyword: str, position: int | None = None) -> object:
    """A known argument's value; None when it is not passed or not known."""
    value = call.argument(keyword, position)
    return value.value if isinstance(value, Known) else None
