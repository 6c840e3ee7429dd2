"""Rules on data: items that are made, opened, padded or prepared at too high a price."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import settable
from gpudoctor.analysis.workload import cpus_per_rank, optional, scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Edit, Effort, Facts, Finding, Patient, Remedy, Resource, Unavailable, answers
from gpudoctor.model.job_devices import ranks_here
from gpudoctor.model.signs.source import Known, Source
from gpudoctor_checks.data.dataset_reopens import DatasetReopensDetail
from gpudoctor_rules.remedies import keyword_edit, remedy, script_of

_MOST = 16
"""Processes beyond which preparing a set gains little on common disks; LLaMA-Factory's own examples use as many."""
_FALLBACK = 4
"""Where the machine that will train is not known."""


@answers("DATA002")
def slow_preprocessing(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Tokens made once, by as many processes as there are CPUs; the rest is told in the table."""
    if finding.detail_of(Facts).kind == "tokens":
        cpus = optional(lambda: cpus_per_rank(patient)[0])  # nothing else uses them yet
        processes = max(1, min(_MOST, int(cpus))) if cpus is not None else _FALLBACK
        several = f"num_proc={processes}" if processes > 1 else ""
        also = say(" ({several})", several=several) if several else ""
        how = say("batched=True, {several}", several=several) if several else "batched=True"
        yield remedy(
            "DATA002-pretokenise",
            say("tokenise once, before the training{several}", several=also),
            say("dataset = dataset.map(tokenise, {how})   # cached on disk", how=how),
            'or in the Dataset\'s __init__: self.encoded = tokenizer(texts, truncation=True)["input_ids"]',
            "pad in the collate function, to the batch's longest sample",
            uses=frozenset({Resource.DISK}),
        )


_TRAINER = "transformers.Trainer"


@answers("DATA006")
def padding_waste(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Each batch to its longest sample; or packing."""
    edits = _padding_edits(finding, scripts_given(patient))
    yield remedy(
        "DATA006-dynamic",
        "pad each batch to its longest sample, not every sample to the maximum",
        "tokenizer(texts, truncation=True, max_length=...)   # no padding while tokenising",
        "collate_fn = transformers.DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)",
        "by hand: torch.nn.utils.rnn.pad_sequence(ids, batch_first=True) in the collate function",
        effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
        sets=(("padding", "longest"),),
        edits=edits,
        references=("https://huggingface.co/docs/transformers/pad_truncation",),
    )


def _padding_edits(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """`padding=True` where whole batches meet; no padding where a Trainer's own collator pads later."""
    detail = finding.detail_of(Facts)
    span, how = finding.span, detail.how
    if span is None or not detail.single:
        return ()
    if how in {"collator", "collate"}:
        new = "True"
    elif how == "tokenizer" and _collates(source, span.path):
        new = "False"
    else:
        return ()
    if not settable(source, span, "padding"):
        return ()
    return (keyword_edit(span, set=(("padding", new),)),)


def _collates(source: Source, path: str) -> bool:
    """Whether a Trainer of the script has a tokenizer and no collator of its own: it pads each batch."""
    for script in source.scripts:
        if script.path != path:
            continue
        for call in script.calls:
            if call.name == _TRAINER and "data_collator" not in call.keywords and not call.open_ended:
                given = call.keywords.get("processing_class") or call.keywords.get("tokenizer")
                return given is not None and not (isinstance(given, Known) and given.value is None)
    return False


@answers("DATA011")
def dataset_reopens(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Open once, or map."""
    script = script_of(patient, finding.span)
    detail = finding.detail_of(DatasetReopensDetail)
    call, path = detail.call, detail.path
    calls = script.calls if script is not None else ()
    found = next((item for item in calls if item.span == finding.span and item.name == call), None)
    if call == "numpy.load" and found is not None and not found.keywords and not path.strip("'\"").endswith(".npz"):
        yield remedy(
            "DATA011-map",
            'np.load(..., mmap_mode="c")',
            say('np.load({path}, mmap_mode="c")   # reads only what an item asks for (.npy, not .npz)', path=path),
            # arrays of objects cannot be mapped
            effort=Effort.ONE_LINE,
            references=("https://numpy.org/doc/stable/reference/generated/numpy.load.html",),
        )
    opens = call in {"h5py.File", "lmdb.open", "zipfile.ZipFile", "tarfile.open"}
    yield remedy(
        "DATA011-once",
        "open it on the first item of each worker and keep it" if opens else "load it once and keep it",
        *(
            (
                say("if self._file is None:   # None in __init__: an open file must not cross a fork"),
                f"    self._file = {call}({path}, ...)",
            )
            if opens
            else (say("self._data = {call}({path})   # in __init__; index it in __getitem__", call=call, path=path),)
        ),
        # No edit: what an item changes in place would stay changed.
    )


@answers("DATA012")
def slow_start(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Processes for this machine's CPUs; the cache on."""
    detail = finding.detail_of(Facts)
    if detail.how == "recording":
        yield _store_prepared()
        return
    processes, why = _preparing_processes(patient)
    if detail.kind == "workers" and processes == 1:
        yield _store_prepared()  # one process more would change nothing
        return
    if detail.kind == "workers":
        yield remedy(
            "DATA012-processes",
            f"num_proc={processes}",
            say("{key}={processes}   # {why}", key="num_proc", processes=processes, why=why),
            # A function that draws random numbers, or counts, does so in each process for itself.
            effort=Effort.ONE_LINE,
            sets=(("num_proc", str(processes)),),
            uses=frozenset({Resource.CPU, Resource.HOST_MEMORY}),
            references=("https://huggingface.co/docs/datasets/process#multiprocessing",),
        )
        return
    yield remedy(
        "DATA012-cache",
        "leave the cache of prepared data on",
        "Remove load_from_cache_file=False or disable_caching().",
        "datasets finds changes of the function and of its arguments by itself.",
        effort=Effort.ONE_LINE,
        uses=frozenset({Resource.DISK}),
        references=("https://huggingface.co/docs/datasets/cache",),
    )


def _store_prepared() -> Remedy:
    """For work that a recording saw before the first step, whatever it is."""
    return remedy(
        "DATA012-store",
        "prepare once and store the result; the next start reads it",
        "if not path.exists(): numpy.save(path, prepare())      # or torch.save, datasets' own cache",
        "data = numpy.load(path, mmap_mode='r')                 # there at once, shared by all ranks and workers",
        "what must be prepared each time: multiprocessing.Pool().map, one rank for all of them",
        uses=frozenset({Resource.DISK}),
    )


def _preparing_processes(patient: Patient) -> tuple[int, str]:
    """Processes to prepare the data with and the numbers behind them; the other ranks wait for the cache."""
    try:
        cpus, origin = cpus_per_rank(patient)
    except Unavailable as error:
        return _FALLBACK, say("a start where the CPUs are not known: {error}", error=error)
    return max(1, min(_MOST, int(cpus * ranks_here(patient)))), say(
        "{origin}, at most {most}", origin=origin, most=_MOST
    )
