"""The table of stack classes: which library frame means which phase of a training loop.

A row matches a frame by a part of its file's path and the last part of its function's name: names are qualified
from Python 3.11 on and bare before.
"""

import json
from importlib.resources import files

from gpudoctor.model.records import frozen


@frozen(kw_only=False)
class StackClass:
    """One row."""

    kind: str
    phase: str
    paths: tuple[str, ...]
    """Of which the frame's path holds one, with `/` between folders; empty for the user's own files."""
    names: tuple[str, ...] = ()
    """Functions; empty for every function of the file. One that ends with `*` is a beginning."""
    keeps: tuple[str, ...] = ()
    """Phases of inner frames that change nothing: what happens in an evaluation is evaluation. `*` is all."""


def _table() -> tuple[StackClass, ...]:
    """The rows of `stack_classes.json`; those with `about` say what the next ones are."""
    rows: list[dict[str, str]] = json.loads(files(__package__).joinpath("stack_classes.json").read_text("utf-8"))
    lists = ("paths", "names", "keeps")
    return tuple(
        StackClass(row["kind"], row["phase"], *(tuple(row.get(name, "").split()) for name in lists))
        for row in rows
        if "kind" in row
    )


TABLE = _table()

EVALUATION_NAMES = (
    r"(run_|do_|_)?(eval|evaluate|evaluation|validate|validation|val|test)"
    r"(_(epoch|model|loop|step|one_epoch|loader|set|loss|pass|phase|losses|metrics))?|estimate_loss"
)
"""Functions of the user's own code that evaluate, by the names that people give them."""

WAITING_PARENTS = (
    ("torch/multiprocessing/spawn.py", "join"),
    ("elastic/agent/", "_invoke_run"),
    ("elastic/agent/", "run"),
    ("multiprocessing/popen_fork.py", "poll"),
    ("/subprocess.py", "wait"),
    ("/subprocess.py", "communicate"),
)
"""Path and function of frames of a process that only waits for the ranks it has started."""

WORKER_LOOP = ("torch/utils/data/_utils/worker.py", "_worker_loop")
"""The frame that makes a process a loader worker."""
