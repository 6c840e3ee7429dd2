"""What is told of data and its loaders, without computation."""

from gpudoctor.model import Applicability, Effort, Resource, advise, where
from gpudoctor_checks.data.eval_loader_misuse import EvalLoaderMisuseDetail
from gpudoctor_checks.data.loader_dead import LoaderDeadDetail
from gpudoctor_checks.data.slow_preprocessing import SlowPreprocessingDetail

ADVICE = (
    advise(
        "DATA002-vectorise",
        "replace the loop over cells by one operation on the whole array",
        "out = np.where(image > threshold, 255, 0)   # all cells at once",
        "np.asarray(picture) reads all pixels of a PIL image at once; no getpixel",
        "what cannot be written so: numba.njit, or on the GPU over the whole batch",
        when=where(SlowPreprocessingDetail, lambda work: work.kind == "pixels"),
    ),
    advise(
        "DATA002-binary",
        "write the numbers to binary files once, and load those",
        "np.save(path.with_suffix('.npy'), np.loadtxt(path).astype(np.float32)) once, before the training",
        "np.load(path.with_suffix('.npy'), mmap_mode='r') in __getitem__",
        when=where(SlowPreprocessingDetail, lambda work: work.kind == "text"),
        uses=frozenset({Resource.DISK}),
    ),
    advise(
        "DATA002-once",
        "Compute once what is the same in every epoch, and the random part on the whole batch",
        "np.save(path, decoded) once, np.load(path, mmap_mode='r') in __getitem__: nothing is unpacked again",
        "a set that fits into memory: decode it in __init__ into one array or tensor, index that",
        "random changes: torchvision.transforms.v2 on the batch, or numpy on whole arrays, no loop over cells",
        when=where(SlowPreprocessingDetail, lambda work: work.kind not in ("pixels", "text", "tokens")),
        uses=frozenset({Resource.DISK}),
    ),
    advise(
        "DATA005-smaller",
        "copy bytes, convert on the device",
        "images as uint8: x.to(device, non_blocking=True).float().div_(255)   # a quarter of float32",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "DATA005-prefetch",
        "copy the next batch on a second stream while this one is trained",
        "stream = torch.cuda.Stream(); with torch.cuda.stream(stream): next_x = next_x.to(device, non_blocking=True)",
        "torch.cuda.current_stream().wait_stream(stream) before it is used; pin_memory=True in the loader",
    ),
    advise(
        "DATA009-local",
        "copy the data to a local disk at the start of the job",
        "rsync -a DATA/ $SLURM_TMPDIR/data/   # or /dev/shm where it fits; then read it there",
        effort=Effort.COMMAND,
        uses=frozenset({Resource.DISK}),
    ),
    advise(
        "DATA009-shards",
        "store shards of 100 MB to 1 GB instead of single files",
        "webdataset, arrow or parquet shards, or one memory-mapped array: read in order, shuffled in a buffer",
        effort=Effort.REWRITE,
        references=("https://github.com/webdataset/webdataset",),
    ),
    advise(
        "DATA010-main",
        "run it once with num_workers=0: the error then comes with its stack",
        "DataLoader(..., num_workers=0)   # until the item that fails is found",
        effort=Effort.ONE_LINE,
    ),
    advise(
        "DATA010-timeout",
        "set DataLoader(..., timeout=120), so that a hang becomes an error",
        "DataLoader(..., timeout=120)",
        "fork after threads were started (OpenCV, tokenizers, CUDA) hangs: multiprocessing_context='spawn'",
        when=where(LoaderDeadDetail, lambda worker: worker.hangs),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "DATA010-memory",
        "use fewer workers and prefetch_factor=1",
        "each worker keeps prefetch_factor batches; data sets as arrays, not as lists of objects",
        when=where(LoaderDeadDetail, lambda worker: not worker.hangs),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "DATA006-group",
        "build batches of similar length, or pack the texts",
        "TrainingArguments(train_sampling_strategy='group_by_length')   # transformers 5",
        "TrainingArguments(group_by_length=True)                        # before transformers 5",
        "language models: packing=True in TRL's SFTConfig, or join texts and cut them into blocks",
    ),
    advise(
        "DATA007-gather",
        "gather the predictions and cut them to the length of the set",
        "predictions = gathered[: len(dataset)]   # the repeats are at the end",
        "or evaluate on one rank; with accelerate: accelerator.gather_for_metrics(...)",
        when=where(EvalLoaderMisuseDetail, lambda loader: loader.sampler),
    ),
)
