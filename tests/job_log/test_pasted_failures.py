"""Failures as people paste them into threads: as Markdown, and of programs that print in their own words."""

import pytest
from log_causes import HEAD, named, raised, root_of, steps

BEFORE, AFTER = steps(1, 12), steps(13, 60)

PASTED = {
    "**RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB**": "MEM009",
    "**RuntimeError:** CUDA out of memory. Tried to allocate 2.00 GiB": "MEM009",
    "`RuntimeError:` CUDA out of memory. Tried to allocate 2.00 GiB": "MEM009",
    "> RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB": "MEM009",
    "> FloatingPointError: Minimum loss scale reached (0.0001). Try a lower learning rate, using clipping": "NUM006",
    "`terminate called after throwing 'thrust::system_error'  what():  helpers.cuh(456): out of memory`": "MEM009",
    "`./fitter: error while loading shared libraries: libdnn.so.3: cannot open shared object file`": "ENV015",
    "> > Segmentation fault (core dumped)": "FAIL006",
    "**Killed**": "FAIL002",
    "`Segmentation fault (core dumped)`": "FAIL006",
}
LINES = {
    "MEM009": [
        "F0301 10:11:12.345 4242 syncedmem.cpp:56] Check failed: error == cudaSuccess (2 vs. 0)  out of memory",
        "F0301 10:11:12.345 4242 syncedmem.cpp:45] Check failed: (cudaMalloc(&room, size)) == cudaSuccess (2 vs. 0)",
        "[10:11:12] src/storage/./pooled_storage_manager.h:62: Memory allocation failed.",
        "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to "
        "allocate 96.00M. That was not possible. There are 12.00M free.",
        "ERROR    You do not have enough GPU memory available to train the selected model at these settings.",
        "    0 Cuda malloc failed",
        "FATAL [default] Check failed: [error == cudaSuccess] out of memory",
    ],
    "FAIL003": [
        "F0301 10:11:12.345 4242 syncedmem.cpp:55] Check failed: error == cudaSuccess (4 vs. 0)  unspecified launch "
        "failure"
    ],
    "FAIL009": [
        'E external/xla/cuda_driver.cc:628] failed to get PTX kernel "shift" from module: CUDA_ERROR_NOT_FOUND: named',
        "F0301 10:11:12.345 4242 syncedmem.cpp:57] Check failed: error == cudaSuccess (11 vs. 0)  invalid argument",
        "F0301 10:11:12.345 4242 math.cpp:91] Check failed: error == cudaSuccess (30 vs. 0)  unknown error",
        "[10:11:12] src/./stream.h:115: Check failed: err == CUBLAS_STATUS_SUCCESS (1 vs. 0) Create handle failed",
        "[10:11:12] src\\storage\\pooled_storage_manager.h:119: cudaMalloc failed: unknown error",
        "E39999: Inner Error!",
        "BoosterError: src/updater_gpu.cu: 279: invalid argument",
        "Launch kernel failed: Default/Reshape-op12",
        "Kernel launch failed | Error Number: 4 CUDNN_STATUS_INTERNAL_ERROR",
        "InternalError: Blas GEMM launch failed : a.shape=(64, 32), b.shape=(32, 32), m=64, n=32, k=32",
        "E tensorflow/stream_executor/cuda/cuda_blas.cc:428] failed to run cuBLAS routine: "
        "CUBLAS_STATUS_EXECUTION_FAILED",
    ],
    "ENV009": [
        "[enforce fail at C:\\build\\c10\\core\\impl\\alloc_cpu.cpp:81] data. DefaultCPUAllocator: not enough memory: "
        "you tried to allocate 147456 bytes.",
        "E tensorflow/stream_executor/cuda/cuda_driver.cc:868] failed to alloc 4294967296 bytes on host: "
        "CUDA_ERROR_INVALID_VALUE: invalid argument",
        "the loader failed (os error 1455)",
    ],
    "ENV017": [
        "/usr/include/python3.10/pyconfig.h:3:12: fatal error: x86_64-linux-gnu/python3.10/pyconfig.h: No such file "
        "or directory",
        "/usr/bin/ld: cannot find -lcuda",
    ],
    "FAIL006": [
        "ASSERTION_FAILED (net-train[5.5.4~1-e1]:SetPriors():net-train.cc:32) Assertion failed: (a == b)",
        "KALDI_ASSERT: at net-train.cc:32, failed: a == b",
        "fitter: ./src/room.c:36: check_error: Assertion `0' failed.",
        "/Library/Caches/Sources/MPSCore/Types/MPSNDArray.mm:724: failed assertion `bytes of NDArray > 2**32'",
        "Assertion failed: (size == 3), function back, file back_mps.m, line 130.",
        "[2026-03-01 10:11:12] Error: Floating-point exception",
    ],
    "FAIL018": [
        "run.pl: job failed, log is in exp/fit/train.log",
        "run.pl: 32 / 32 failed, log is in exp/fit/logdir/stats.*.log",
        "Exception: process 0 terminated with exit code 1",
        "wandb: Waiting for W&B process to finish... (failed 1). Press Control-C to abort syncing.",
        "[core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
        "queue.pl: job failed with status 255, log is in exp/log/subset.log",
    ],
    "FAIL002": ["Exited with code 137"],
    "ENV004": ["F0301 ./core/launch.h:174] Check failed: err == hipSuccess (98 vs. 0)"],
    "FAIL008": ["RuntimeError: use_libuv was requested but PyTorch was build without libuv support"],
}
GOES_ON = ("MEM009", "FAIL003", "FAIL009", "ENV009", "ENV017", "FAIL006", "FAIL018")


@pytest.mark.parametrize("line", PASTED)
def test_markdown_round_a_line(tmp_path, line):
    assert named(tmp_path, f"{BEFORE}{line}\n\nCould someone help me with this?\nThank you!\n") == PASTED[line]


def test_a_quoted_traceback(tmp_path):
    text = "".join(f"> {line}\n" for line in raised("RuntimeError: CUDA out of memory. Tried").splitlines())
    assert named(tmp_path, f"It stops so:\n\n{text}\nWhat can I do?\n") == "MEM009"


@pytest.mark.parametrize(("code", "line"), [(code, line) for code, lines in LINES.items() for line in lines])
def test_words_of_programs(tmp_path, code, line):
    assert named(tmp_path, f"{BEFORE}{line}\n") == code


@pytest.mark.parametrize("line", [line for code in GOES_ON for line in LINES[code]])
def test_a_training_that_goes_on(tmp_path, line):
    assert root_of(tmp_path, f"{BEFORE}{line}\n{AFTER}") is None


@pytest.mark.parametrize(
    "line",
    [
        "**Epoch 3 finished, 0 workers were killed**",
        "`loss` is 0.31 and `lr` is 0.01",
        "> python fit.py --resume",
        "Check passed: error == cudaSuccess (0 vs. 0)",
        "run.pl: 32 / 32 done, log is in exp/fit/logdir/stats.*.log",
        "the test says that the assertion `0' did not fail",
    ],
)
def test_lines_that_are_no_failure(tmp_path, line):
    assert root_of(tmp_path, f"{BEFORE}{line}\n{AFTER}{line}\n") is None


THREAD = (
    "Exception in thread Thread-2 (results_loop):\n" + HEAD + '  File "/opt/env/lib/python3.10/threading.py", '
    "line 1016, in _bootstrap_inner\n    self.run()\n"
    '  File "/opt/env/lib/python3.10/site-packages/batchgenerators/augmenter.py", line 103, in results_loop\n'
    "    raise RuntimeError(said)\n"
    "RuntimeError: One or more background workers are no longer alive. Exiting.\n"
)


def test_a_thread_of_a_library_that_says_what_died(tmp_path):
    assert named(tmp_path, BEFORE + THREAD) == "DATA010"
    assert root_of(tmp_path, BEFORE + THREAD + AFTER) is None
    assert root_of(tmp_path, BEFORE + THREAD.replace("One or more background workers", "Some senders")) is None


def test_workers_of_a_validation(tmp_path):
    assert named(tmp_path, raised("RuntimeError: Some background workers are no longer alive")) == "DATA010"
