"""Messages of libraries, drivers and shells by family: the code of each, and none if the training goes on."""

import pytest
from log_causes import named, raised, root_of, steps

RAISED = {
    "RuntimeError: No HIP GPUs are available": "ENV001",
    "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!": "ENV001",
    "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable": "GPU007",
    "RuntimeError: Unable to initialize backend 'tpu': UNAVAILABLE: No TPU Platform available.": "ENV001",
    "RuntimeError: CUDA error: system has unsupported display driver / cuda driver combination": "ENV003",
    "RuntimeError: HIP error: invalid device function": "ENV004",
    "RuntimeError: Triton Error [CUDA]: device kernel image is invalid": "FAIL017",
    "RuntimeError: FlashAttention backward for head dim > 192 requires A100/A800 or H100/H800": "ENV004",
    "ValueError: Couldn't instantiate the backend tokenizer from one of: a library, a slow tokenizer": "ENV005",
    "Exception: data did not match any variant of untagged enum ModelWrapper at line 7 column 3": "ENV005",
    "ValueError: Tokenizer class NewTokenizer does not exist or is not currently imported.": "ENV005",
    "OSError: [WinError 8] Not enough memory resources are available": "ENV009",
    "ray.exceptions.ObjectStoreFullError: Failed to put object in object store": "ENV009",
    "OSError: [WinError 112] There is not enough space on the disk": "ENV011",
    "ray.exceptions.OutOfDiskError: Local disk is full": "ENV011",
    "RuntimeError: File /out/last.pt cannot be opened.": "ENV011",
    "AssertionError: libcuda.so cannot found!": "ENV015",
    "RuntimeError: Configured CUDA binary not found at /opt/libbitsandbytes_cuda128.so": "ENV015",
    "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/main.c', '-I/usr/include/python3.10', '-lcuda']' "
    "returned non-zero exit status 1.": "ENV017",
    "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'": "ENV017",
    "RuntimeError: HIP error: out of memory": "MEM009",
    "RuntimeError: Triton Error [CUDA]: out of memory": "MEM009",
    "RuntimeError: level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)": "MEM009",
    "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM.": "MEM009",
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.": "MEM009",
    "RuntimeError: miopenStatusInternalError": "FAIL009",
    "RuntimeError: HIP error: the operation cannot be performed in the present state": "FAIL009",
    "RuntimeError: CUDA error (/src/flash_fwd_launch_template.h:91): invalid argument": "FAIL009",
    "RuntimeError: all elements of input should be between 0 and 1": "FAIL003",
    "tensorflow.errors_impl.InvalidArgumentError: indices[0,3] = 50257 is not in [0, 50257)": "FAIL003",
    "jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: Connect": "FAIL004",
    "XlaRuntimeError: UNAVAILABLE: failed to connect to all addresses; last error: refused": "FAIL007",
    "OSError: [Errno 99] Cannot assign requested address": "FAIL007",
    "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to": "FAIL007",
    "RuntimeError: Distributed package doesn't have MPI built in.": "FAIL008",
    "RuntimeError: Tensors must be CUDA and dense": "FAIL013",
    "RuntimeError: Placeholder storage has not been allocated on MPS device!": "FAIL013",
    "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()": "FAIL013",
    "RuntimeError: FlashAttention only support fp16 and bf16 data type": "FAIL013",
    "RuntimeError: Invalid magic number; corrupt file?": "FAIL014",
    "_pickle.UnpicklingError: pickle data was truncated": "FAIL014",
    "RuntimeError: Missing key in checkpoint state_dict: model.head.weight.": "FAIL014",
    "ValueError: Can't find 'adapter_config.json' at '/out/last'": "FAIL014",
    "OSError: Can't load tokenizer for 'mine'. If you were trying to load it from the hub": "FAIL014",
    "botocore.exceptions.NoCredentialsError: Unable to locate credentials": "FAIL015",
    "botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the GetObject operation": "FAIL015",
    "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: x": "FAIL015",
    "datasets.exceptions.DatasetNotFoundError: Dataset 'a/b' doesn't exist on the Hub or cannot be accessed.": "FAIL015",
    "IsADirectoryError: [Errno 21] Is a directory: '/data'": "FAIL016",
    "PermissionError: [WinError 32] The process cannot access the file": "FAIL016",
    "EOFError: Compressed file ended before the end-of-stream marker was reached": "FAIL016",
    "datasets.exceptions.DataFilesNotFoundError: No (supported) data files found in /data/x": "FAIL016",
    "torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode: Could not guard on an expression": "FAIL017",
    "RuntimeError: Python 3.12+ not yet supported for torch.compile": "FAIL017",
    "RuntimeError: Unexpected result nan (message='found NaN in local forward loss calculation')": "NUM002",
    "FloatingPointError: invalid value (nan) encountered in jit(div)": "NUM002",
    "torch._C._LinAlgError: linalg.svd: failed because the input matrix contained non-finite values.": "NUM002",
    "ValueError: No slot '2' specified on host 'localhost'": "CFG010",
    "RuntimeError: Early stopping conditioned on metric `val_loss` which is not available.": "CFG010",
    "RuntimeError: connect() timed out. Original timeout was 1800000 ms.": "FAIL007",
    "RuntimeError: [/src/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:30857: Connection refused": "FAIL007",
    "ImportError: Extension horovod.torch has not been built: mpi_lib.so not found": "ENV017",
    "RuntimeError: It looks like your module has parameters that were not used in producing the loss": "FAIL012",
}
PRINTED = {
    "Failed to initialize NVML: GPU access blocked by the operating system": "ENV001",
    "Unable to open /dev/kfd read-write: Permission denied": "ENV001",
    "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file for gfx1010": "ENV004",
    "torchrun : The term 'torchrun' is not recognized as the name of a cmdlet.": "FAIL020",
    "'python' 不是内部或外部命令": "FAIL020",
    "/opt/luajit: /opt/trepl/init.lua:389: module 'cudnn' not found:No LuaRocks module found": "ENV005",
    "/opt/torch/bin/luajit: not enough memory": "ENV009",
    "/opt/luajit: /opt/lua/torch/File.lua:259: write error: wrote 0 blocks instead of 1 at THDiskFile.c:320": "ENV011",
    "node7:42:43 [0] NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000": "FAIL008",
    "OMP: Error #15: Initializing libiomp5.dylib, but found libomp.dylib already initialized.": "ENV015",
    "THCudaCheck FAIL file=/tmp/THC/THCStorage.cu line=41 error=2 : out of memory": "MEM009",
    "Memory access fault by GPU node-1 (Agent handle: 0x55d) on address 0x7f3. Reason: unknown.": "FAIL003",
    "[E ProcessGroupNCCL.cpp:475] Process group watchdog thread terminated with exception: CUDA error: an illegal "
    "memory access was encountered": "FAIL003",
    "2026-03-01 10:11:12.3: F external/xla/rendezvous.cc:127] Termination timeout for `acquire clique` of 40 seconds "
    "exceeded.": "FAIL004",
    "node7:42:43 [0] init.cc:900 NCCL WARN Mismatched collective detected, please check your calls": "FAIL004",
    "zsh: bus error  python fit.py": "FAIL005",
    "zsh: segmentation fault  python fit.py": "FAIL006",
    "zsh: illegal hardware instruction  python fit.py": "FAIL006",
    "Windows fatal exception: access violation": "FAIL006",
    "Process finished with exit code -1073741819 (0xC0000005)": "FAIL006",
    "Fatal Python error: Cannot recover from stack overflow.": "FAIL006",
    "2026-03-01 10:11:12.3: F tensorflow/core/device_event_mgr.cc:223] Unexpected Event status: 1": "FAIL006",
    "F0301 10:11:12.345678 4242 thing.cc:77] Check failed: status.ok() is false": "FAIL006",
    "The library was compiled to use AVX instructions, but these aren't available on your machine.": "FAIL006",
    "ssh: connect to host node8 port 22: Connection refused": "FAIL007",
    "pdsh@node7: node8: ssh exited with exit code 255": "FAIL007",
    "node8: Host key verification failed.": "FAIL007",
    "[E301 10:11:12.345678901 socket.cpp:957] [c10d] The client socket has timed out after 900s while trying to "
    "connect to (node7, 29500).": "FAIL007",
    "[E socket.cpp:957] [c10d] The client socket has failed to connect to any network address of (node7, 2950)": "FAIL007",
    "[E socket.cpp:435] [c10d] The server socket has failed to listen on any local network address.": "FAIL007",
    "ssh: Could not resolve hostname node8: Name or service not known": "FAIL007",
    "ORTE was unable to reliably start one or more daemons.": "FAIL007",
    "node7:42:43 [0] bootstrap.cc:195 NCCL WARN Bootstrap Root : mismatch in rank count from procs 4 : 2": "FAIL008",
    "node7:42:43 [0] shm.h:28 NCCL WARN Call to shm_open failed : No such file or directory": "FAIL008",
    "node7:42:43 [0] NCCL WARN NET/OFI Request 0x7f completed with error. RC: 113. Error: 4107 (No route)": "FAIL008",
    "[17.1] [node7:42 :0] ib_mlx5_log.c:177 UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB": "FAIL008",
    "node7:42:43 [0] net.cc:493 NCCL WARN NET/Socket : peer x message truncated : receiving 10 bytes instead of 5": "FAIL004",
    "[rank3]:[F301 10:11:12.345 ProcessGroupNCCL.cpp:1557] [PG ID 0 Rank 3] Terminating the process after attempting "
    "to dump debug info, due to ProcessGroupNCCL watchdog hang.": "FAIL004",
    "[rank3]:[E301 10:11:12.345 ProcessGroupNCCL.cpp:1709] [PG 0 Rank 3] Timeout at NCCL work: 5, last: 5.": "FAIL004",
    "Received Signals.SIGTERM death signal, shutting down workers": "FAIL002",
    "mpirun has detected an attempt to run as root.": "FAIL020",
    "There are not enough slots available in the system to satisfy the 8": "FAIL020",
    "mpirun was unable to find the specified executable file, and therefore": "FAIL020",
    "2018-10-09 14:57:07.563115: E tensorflow/stream_executor/cuda/cuda_blas.cc:464] failed to create cublas handle: "
    "CUBLAS_STATUS_NOT_INITIALIZED": "FAIL009",
    "        size mismatch for h.lora_A.weight: copying a param with shape torch.Size([0]) from checkpoint, the shape in "
    "current model is torch.Size([16, 2560]).": "FAIL014",
    "node7:42:43 [0] cudawrap.cc:36 NCCL WARN Cuda failure 3 'initialization error'": "FAIL008",
    "/opt/luajit: /opt/lua/torch/File.lua:351: read error: read 0 blocks instead of 1 at THDiskFile.c:356": "FAIL014",
    "/opt/luajit: cannot open <model.t7> in mode r  at THDiskFile.c:640": "FAIL016",
}


@pytest.mark.parametrize("line", RAISED)
def test_an_exception_by_its_family(line, tmp_path):
    text = steps(1, 20) + raised(line)
    assert named(tmp_path, text) == RAISED[line]
    assert named(tmp_path, text + steps(20, 40)) is None


@pytest.mark.parametrize("line", PRINTED)
def test_a_line_by_its_family(line, tmp_path):
    text = steps(1, 20) + line + "\n"
    assert named(tmp_path, text) == PRINTED[line]
    assert named(tmp_path, text + steps(20, 60)) is None


def test_what_only_follows(tmp_path):
    for line in (
        "F0301 10:11:12.345678 4242 client.h:77] Terminating process because the JAX distributed service detected "
        "fatal errors. Another task died.",
        "UnexpectedStatusException: Error for Training job fit-2026: Failed. Reason: AlgorithmError: Exit Code: 1",
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
        "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an exception "
        "on one of the ranks or an attempt to allreduce",
    ):
        assert named(tmp_path, steps(1, 20) + line + "\n") == "FAIL018"
        assert named(tmp_path, steps(1, 20) + raised("KeyError: 'mask'") + "\n" + line + "\n") == "FAIL001"
    engine = raised("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See above")
    assert named(tmp_path, engine) == "FAIL018"


WAITS = (
    "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
    "(world_size=4, worker_count=3, timeout=0:30:00)\n"
)


def test_a_wait_at_the_store_counts_if_it_is_the_end(tmp_path):
    root = root_of(tmp_path, "start\n" + WAITS * 4)
    assert (root.code, root.kind) == ("FAIL007", "store-barrier")
    assert named(tmp_path, "start\n" + WAITS * 4 + "all joined\n" * 12 + steps(1, 60)) is None


def test_a_retried_connection_is_no_failure(tmp_path):
    retried = (
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node7]:29500 (errno: 111 - refused).\n"
    )
    assert named(tmp_path, retried * 4 + steps(1, 20)) is None
    assert named(tmp_path, retried * 4) is None


def test_a_notebook_names_the_exception_above_its_frames(tmp_path):
    head = "ResourceError                    Traceback (most recent call last)\n"
    cell = "Cell In[3], line 5\n      4 \n----> 5 fit(model)\n"
    root = root_of(tmp_path, "cell 3\n" + head + cell)
    assert (root.code, root.exception, root.line) == ("FAIL001", "ResourceError", 2)
    assert root_of(tmp_path, "cell 3\n" + head + cell + "\nResourceError: no row\n").line == 7


def test_a_child_that_ended_is_a_symptom(tmp_path):
    gone = raised("concurrent.futures.process.BrokenProcessPool: A process in the pool was terminated abruptly")
    assert root_of(tmp_path, gone).kind == "child-gone"
    kernel = "Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB\n"
    assert named(tmp_path, gone + "\n" + kernel) == "FAIL002"


def test_a_checkpoint_of_many_ranks_names_the_exception_of_one(tmp_path):
    text = (
        raised("torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([1])")
        + "Traceback (most recent call last): (RANK 1)\n"
        '  File "/opt/lib/python3.11/site-packages/torch/distributed/checkpoint/utils.py", line 3, in f\n    g()\n'
        "OSError: [Errno 28] No space left on device\n"
    )
    assert named(tmp_path, steps(1, 20) + text) == "ENV011"


def test_a_message_goes_on_behind_a_colon_and_a_blank_line(tmp_path):
    text = raised(
        "errors_impl.InvalidArgumentError: Graph execution error:\n\nIncompatible shapes: [32,10] vs. [32,11]"
    )
    assert named(tmp_path, steps(1, 20) + text) == "FAIL013"
