"""What helps against memory that each step leaves behind, on the device or on the host."""

from collections.abc import Iterator

from gpudoctor.analysis.run.steady_run import script_at
from gpudoctor.analysis.source.retention import Retention, RetentionKind, keeping_at
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, LeakDetail, LeakKind, Patient, Remedy


def remedies(code: Code, inspection: str, finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """What a search has shown to help; else keep numbers, bound collections, and see who holds the memory.

    `inspection` is the way to see that by hand.
    """
    leak = finding.detail_of(LeakDetail)
    if found := list(searched(code, leak, patient)):
        yield from found
        return
    if leak.kind not in (LeakKind.TENSORS, LeakKind.CONTAINER):  # these have no graph
        yield Remedy(
            id=f"{code}-detach",
            title="keep numbers, not tensors with their graph",
            steps=(
                "losses.append(loss.item()) or loss.detach(), at the period at which it is read",
                "outputs = outputs.detach().cpu() for what must be kept; del what is not",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
        )
    yield Remedy(
        id=f"{code}-bound",
        title=say("limit what {container} keeps", container=leak.target)
        if leak.target
        else "limit what is collected",
        steps=(
            "use collections.deque(maxlen=1000) instead of a list, or a cache with a maxsize instead of "
            "a dict. Write to disk what must be complete",
            inspection,
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )


def searched(code: Code, leak: LeakDetail, patient: Patient) -> Iterator[Remedy]:
    """The change that stopped the growth, at its line; or what to do about what holds it."""
    search, place = leak.search, leak.place
    if search is None:
        return
    script = script_at(patient, place.path) if place is not None else None
    keeping = keeping_at(script, place.line) if script is not None and place is not None else None
    if keeping is not None and place is not None:
        yield from _at_line(code, keeping, RetentionKind(search.keep), f"{place.path}:{place.line}")
    elif search.holder:
        yield _of_holder(code, search.holder)


def _at_line(code: Code, keeping: Retention, keep: RetentionKind, where: str) -> Iterator[Remedy]:
    new = keeping.written(keep) if keep in (RetentionKind.DETACHED, RetentionKind.NUMBER) else ""
    if new:
        number = keep is RetentionKind.NUMBER
        wait = (say("on a GPU .item() waits for it: at the period at which it is read"),) if number else ()
        yield Remedy(
            id=f"{code}-{'number' if number else 'detach'}",
            title=say("keep {value} ({place})", value=new, place=where),
            steps=(
                say("replace what {container} keeps with {value}", container=keeping.target, value=new),
                *wait,
            ),
            applicability=Applicability.UNSAFE,  # a backward pass elsewhere may read what is kept
            effort=Effort.ONE_LINE,
            edits=keeping.edits(keep),
        )
    yield Remedy(
        id=f"{code}-bound",
        title=say("limit what {container} keeps ({place})", container=keeping.target, place=where),
        steps=(
            say("del {container}[:-1000] after it, or collections.deque(maxlen=1000)", container=keeping.target)
            if keeping.how == "list"
            else say(
                "let go of what {container} no longer needs, or write it to disk", container=keeping.target
            ),
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )


_HOLDERS = {
    "hooks": (
        "hooks", say("register the hook once"),
        (say("handle = module.register_forward_hook(hook)   # once; handle.remove() when it is done"),),
    ),
    "reference": (
        "cycles", say("break the reference cycle"),
        (say("backward(create_graph=True) makes one of a parameter and its gradient; "
             "torch.autograd.grad does not"),
         say("or gc.collect() once an epoch")),
    ),
    "profiler": (
        "schedule", say("use a profiler schedule that ends (repeat=1)"),
        ("schedule=torch.profiler.schedule(wait=1, warmup=1, active=5, repeat=1)",),
    ),
    "what": (
        "workers", say("let the workers keep less"),
        (say("arrays instead of lists of objects in the data set; no cache that grows in __getitem__"),),
    ),
}  # fmt: skip
"""First word of what holds it: word of the remedy's id, title, steps."""


def _of_holder(code: Code, holder: str) -> Remedy:
    first = next((word for word in _HOLDERS if holder.startswith((word, f"a {word}"))), "")
    name, title, steps = _HOLDERS.get(
        first, ("bound", say("bound {holder}", holder=holder), (say("let go of what is no longer needed"),))
    )
    return Remedy(
        id=f"{code}-{name}",
        title=title,
        steps=steps,
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )
