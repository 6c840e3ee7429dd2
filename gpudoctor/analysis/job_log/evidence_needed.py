"""Which evidence would decide where a log shows only consequences."""

import re

from gpudoctor.analysis.job_log.consequences import ABORTED, PEER
from gpudoctor.analysis.job_log.failing_rank import failing_rank
from gpudoctor.analysis.job_log.first_cause import FirstCause, LogRole
from gpudoctor.lang import say
from gpudoctor.model.signs.job_log import JobLog
from gpudoctor.text import ranks

_LOCAL_RANK = re.compile(r"local_rank: (\d+)")


def evidence_needed(log: JobLog, cause: FirstCause) -> tuple[str, ...]:
    """Sentences, the most telling evidence first; at least one."""
    found: list[str] = []
    who = failing_rank(log)
    if who is not None and who.words:
        names = ranks(who.ranks)
        found.append(
            say(
                "{words} The whole output of {names} would decide: torchrun --log-dir logs --tee 3.",
                words=who.words,
                names=names,
            )
        )
    cascade = cause.of(LogRole.CASCADE)
    failed = [_LOCAL_RANK.search(item.text) for item in cascade]
    local = sorted({int(item[1]) for item in failed if item})
    printed = any(item.first and item.rank in log.ranks for item in log.exits)  # its output is here
    if local and not found and not printed:
        names = ", ".join(map(str, local[:4]))
        found.append(
            say("The output of local rank {names} would decide: torchrun --tee 3 --log-dir logs keeps it.", names=names)
        )
    silent = sorted(set(range(log.world or 0)) - set(log.ranks)) if log.ranks and log.world else []
    if silent and len(silent) < 9:
        found.append(say("Rank {ranks} printed nothing here: read its own log.", ranks=", ".join(map(str, silent))))
    kinds = {item.kind for item in cascade}
    nodes = sorted({item.node for item in cascade if item.node})
    if kinds & {PEER, ABORTED}:
        found.append(
            say("A rank lost its connection to another one: the log of the rank that left first would decide.")
        )
    where = say(" of {nodes}", nodes=nodes[0]) if len(nodes) == 1 else say(" of each node")
    found.append(
        say("The kernel's log{where} would show a kill for memory: dmesg -T | grep -i 'killed process'.", where=where)
    )
    return tuple(found)
