"""What libraries say of tensors, arguments and sizes that do not fit, and how other loggers print their levels."""

import pytest
from log_causes import FRAME, HEAD, named, raised, root_of, steps

from gpudoctor.cli import main

MIXED = [
    ("RuntimeError: result type Float can't be cast to the desired output type Long", "dtype"),
    ("RuntimeError: Expected floating point type for target with class probabilities, got Long", "dtype"),
    ("ValueError: Must flatten tensors with uniform dtype but got torch.float32 and torch.bfloat16", "fsdp"),
    ("TypeError: lax.add requires arguments to have the same dtypes, got float32, bfloat16.", "dtype"),
    ("RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)", "device"),
    ("RuntimeError: No backend type associated with device type cpu", "device"),
    ("RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'", "device"),
    ("RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", "device"),
    ("ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)", "device"),
    ("RuntimeError: Expected target size [16, 10], got [16]", "shape"),
    ("RuntimeError: running_mean should contain 64 elements not 128", "shape"),
    ("RuntimeError: einsum(): subscript b has size 8 for operand 1 which does not broadcast with 16", "shape"),
    ("ValueError: all input arrays must have the same shape", "shape"),
    ("ValueError: cannot reshape array of size 784 into shape (1,3)", "shape"),
    ("ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc", "shape"),
    ("ValueError: Shapes (None, 1) and (None, 10) are incompatible", "shape"),
    ("TypeError: dot_general requires contracting dimensions to have the same shape, got (7,) and (5,).", "shape"),
    ("einops.EinopsError: Error while processing rearrange. Shape mismatch, 5 != 6", "shape"),
]


@pytest.mark.parametrize(("line", "kind"), MIXED)
def test_tensors_that_do_not_fit(tmp_path, line, kind):
    root = root_of(tmp_path, steps(0, 4) + raised(line))
    assert (root.code, root.kind) == ("FAIL013", kind)


OTHERS = [
    (
        "ValueError: You can't train a model that has been loaded with `device_map='auto'` in any distributed mode.",
        "CFG010",
    ),
    ("KeyError: 'ResNetX is not in the mmseg::model registry. Please check the value'", "CFG010"),
    ("absl.flags._exceptions.UnrecognizedFlagError: Unknown command line flag 'lrs'", "CFG010"),
    ("NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.", "ENV005"),
    ("XlaRuntimeError: INTERNAL: Failed to load in-memory CUBIN: CUDA_ERROR_NO_BINARY_FOR_GPU", "ENV004"),
    ("InternalError: libdevice not found at ./libdevice.10.bc", "ENV015"),
    ("mxnet.base.MXNetError: Check failed: e == cudaSuccess: CUDA: out of memory", "MEM009"),
    ("InvalidArgumentError: Received a label value of 10 which is outside the valid range of [0, 10).", "FAIL001"),
    ("wandb.errors.CommError: artifact 'checkpoint_0:latest' not found in 'a/b'", "FAIL015"),
    ("ValueError: Invalid CUDA 'device=0,1,2,3' requested. Use 'device=cpu'", "ENV013"),
    ("ValueError: w is not supported, only comet_ml, tensorboard, wandb are supported.", "CFG010"),
    ("RuntimeError: Work ran time out after 600000 milliseconds.", "FAIL004"),
    ("ValueError: can't optimize a non-leaf Tensor", "FAIL011"),
    ("RuntimeError: PassManager::run failed", "FAIL017"),
    ("RuntimeError: mat1 dim 1 must match mat2 dim 0", "FAIL013"),
    ("RuntimeError: Found dtype Float but expected BFloat16", "FAIL013"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "FAIL009"),
    (
        "RuntimeError: Check failed: (status == cudaSuccess) is false: Prefill failed with error invalid argument",
        "FAIL009",
    ),
    (
        "RuntimeError: Function AddmmBackward0 returned an invalid gradient at index 1 - got [3, 4] but expected shape compatible with [3, 5]",
        "FAIL013",
    ),
    ("ModuleNotFoundError: No module named 'src'", "FAIL001"),
    (
        "ImportError: cannot import name 'fit' from partially initialized module 'crops' (most likely due to a circular import)",
        "FAIL001",
    ),
    (
        "ValueError: Model architectures ['LlavaForCausalLM'] are not supported for now. Supported architectures: []",
        "CFG010",
    ),
    ("RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.", "MEM009"),
    ("ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89.", "ENV004"),
    ("RuntimeError: Failed to infer device type", "ENV001"),
    ("ValueError: There is no module or parameter named 'x' in LlamaForCausalLM", "FAIL014"),
    (
        "AssertionError: Error in memory profiling. Initial free memory 10.1 GiB, current free memory 12.2 GiB.",
        "GPU007",
    ),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "ENV017"),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja.csv'", "FAIL016"),
    ("RuntimeError: Engine process failed to start. See stack trace for the root cause.", "FAIL018"),
    ("ModuleNotFoundError: No module named 'utils.crops'", "FAIL001"),
    ("ModuleNotFoundError: No module named 'datasets'", "ENV005"),
    ("ImportError: cannot import name 'crop' from 'src.models' (/work/fit/src/models.py)", "FAIL001"),
    (
        "ImportError: cannot import name 'x' from 'peft' (/opt/env/lib/python3.11/site-packages/peft/__init__.py)",
        "ENV005",
    ),
    ("ImportError: cannot import name 'x' from 'peft' (unknown location)", "ENV005"),
    (
        'RuntimeError: [std_file.cc:29] Assert on "fp_ != nullptr" failed: Could not open file /d/a.rec: No such file or directory',
        "FAIL016",
    ),
]


@pytest.mark.parametrize(("line", "code"), OTHERS)
def test_the_page_of_a_message(tmp_path, line, code):
    assert named(tmp_path, steps(0, 4) + raised(line)) == code


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: every camera must have a name of the same length",
        "RuntimeError: the two teams should have equal weights in the vote",
        "AssertionError: shape of the curve is odd",
        "KeyError: 'device'",
        "AttributeError: 'NoneType' object has no attribute 'shape'",
    ],
)
def test_other_exceptions_are_the_programs_own(tmp_path, line):
    assert named(tmp_path, raised(line)) == "FAIL001"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'x'", "CFG009"),
        ("TypeError: ReduceLROnPlateau.__init__() got an unexpected keyword argument 'verbose'", "CFG009"),
        ("TypeError: __init__() got an unexpected keyword argument 'evaluation_strategy'", "CFG009"),
        ("TypeError: CropConfig.__init__() got an unexpected keyword argument 'pads'", "FAIL001"),
        ("TypeError: fit() got multiple values for argument 'lr'", "FAIL001"),
    ],
)
def test_only_a_librarys_argument_was_renamed(tmp_path, line, code):
    assert named(tmp_path, raised(line)) == code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ValueError: hidden_size must be divisible by num_attention_heads (got 768 and 11)", "CFG010"),
        ("AssertionError: world size 6 is not divisible by tensor parallel size 4", "CFG010"),
        ("AssertionError: the number of songs (7) must be divisible by 4", "FAIL001"),
    ],
)
def test_only_a_setting_is_refused(tmp_path, line, code):
    assert named(tmp_path, raised(line)) == code


def test_a_message_that_stands_below_a_blank_line(tmp_path):
    text = raised("tensorflow.python.framework.errors_impl.DataLossError: Graph execution error:")
    node = "\nDetected at node IteratorGetNext defined at (most recent call last):\n<stack traces unavailable>\n"
    assert named(tmp_path, text + node + "corrupted record at 1048576\n\t [[{{node IteratorGetNext}}]]\n") == "FAIL016"
    assert named(tmp_path, text + node) == "FAIL001"


def test_conda_that_did_not_activate(tmp_path):
    conda = "CondaError: Run 'conda init' before 'conda activate'\n\n"
    missing = raised("ModuleNotFoundError: No module named 'torch'")
    assert root_of(tmp_path, conda + missing).kind == "not-activated"
    assert root_of(tmp_path, missing).kind == "missing-package"
    assert named(tmp_path, conda + steps(0, 9)) is None
    assert named(tmp_path, conda + raised("KeyError: 'mask'")) == "FAIL001"


def test_a_sweep_that_its_user_stopped(tmp_path):
    stop = "wandb: Ctrl + C detected. Stopping sweep.\n"
    assert named(tmp_path, steps(0, 9) + stop + HEAD + FRAME + "Exception\n") == "FAIL002"
    assert named(tmp_path, steps(0, 9) + HEAD + FRAME + "Exception\n") == "FAIL001"
    assert named(tmp_path, stop + steps(0, 9) + HEAD + FRAME + "Exception\n") == "FAIL001"


def said(tmp_path, capsys, text):
    path = tmp_path / "job.out"
    path.write_text(text)
    main(["autopsy", str(path)])
    return capsys.readouterr().out


PANIC = "thread 'prefetch' panicked at src/reader.rs:214:48:\ncalled `Result::unwrap()` on an `Err` value: Bad\n"
LEVELS = "10:15:{} [{}] ps: the table of shard 11 is full\n10:15:21 [info ] bye (code 70)\n"


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        (steps(0, 9) + PANIC, True),
        (steps(0, 9) + LEVELS.format(20, "error"), True),
        (steps(0, 9) + LEVELS.format(20, "warn "), False),
        (steps(0, 9) + LEVELS.format(20, "info "), False),
        ('time="2025-01-01T10:00:00Z" level=fatal msg="no lease"\n', True),
        ('time="2025-01-01T10:00:00Z" level=info msg="cannot renew the lease"\n', False),
        (steps(0, 9) + HEAD, True),
        (HEAD + steps(0, 9), False),
    ],
)
def test_an_error_at_the_end_that_no_check_knows(tmp_path, capsys, text, unknown):
    assert ("FAIL019" in said(tmp_path, capsys, text)) is unknown


def test_an_error_before_a_death_that_was_overcome_is_none(tmp_path, capsys):
    text = "libGL error: failed to load driver: swrast\nenv 3 crashed: EOFError -- started again\n" + steps(0, 60)
    assert "no failure in its" in said(tmp_path, capsys, text)


EVENTS = (
    "Events:\n  Type     Reason            Age   From               Message\n"
    "  Warning  FailedScheduling  58m   default-scheduler  0/6 nodes are available: 6 Insufficient nvidia.com/gpu.\n"
)
POD = (
    "Name:             eval-1\nStatus:           {}\nContainers:\n  eval:\n    State:          {}\n"
    "    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    1\n"
)


def test_a_pod_that_ended_well_after_all(tmp_path, capsys):
    good = POD.format("Succeeded", "Terminated\n      Reason:       Completed\n      Exit Code:    0")
    assert "no failure in its" in said(tmp_path, capsys, good + EVENTS)
    waits = POD.format("Pending", "Waiting")
    assert "FAIL020" in said(tmp_path, capsys, waits + EVENTS)
    assert "FAIL020" in said(tmp_path, capsys, good + waits.replace("eval-1", "eval-2") + EVENTS)


def test_a_logger_that_cannot_write_on_a_full_disk(tmp_path):
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    full = raised("OSError: [Errno 28] No space left on device")
    assert named(tmp_path, steps(0, 9) + "--- Logging error ---\n" + full) is None
    full = "--- Logging error ---\n" + raised("RuntimeError: unexpected pos 4 vs 3") + during + full
    call = "Call stack:\n" + FRAME + "Message: 'Training failed: unexpected pos 4 vs 3'\nArguments: ()\n"
    assert named(tmp_path, steps(0, 9) + full + call) == "ENV011"
    assert named(tmp_path, steps(0, 9) + full + call + steps(9, 30)) is None
    other = "--- Logging error ---\n" + raised("TypeError: not all arguments converted during string formatting")
    assert named(tmp_path, steps(0, 9) + other + call) is None


FINALIZER = (
    HEAD + '  File "/usr/lib/python3.10/multiprocessing/util.py", line 300, in _run_finalizers\n    finalizer()\n'
    '  File "/usr/lib/python3.10/multiprocessing/synchronize.py", line 87, in _cleanup\n    sem_unlink(name)\n'
)


def test_what_a_finalizer_raises_ends_nothing(tmp_path):
    missing = "FileNotFoundError: [Errno 2] No such file or directory\n"
    assert named(tmp_path, steps(0, 9) + (FINALIZER + missing) * 8) in (None, "FAIL018")
    assert named(tmp_path, steps(0, 9) + raised(missing.strip()) + FINALIZER + missing) == "FAIL016"


def test_a_command_of_docker_that_had_ended(tmp_path, capsys):
    line = "Error response from daemon: No such exec instance: 99c1f35a\n"
    assert "no failure in its" in said(tmp_path, capsys, steps(0, 9) + line)
    other = "Error response from daemon: No such container: fit\n"
    assert "no failure in its" not in said(tmp_path, capsys, steps(0, 9) + other)


def test_the_end_of_a_step_is_of_no_rank(tmp_path):
    line = "0: slurmstepd: error: *** STEP 513.21 ON node007 CANCELLED AT 2025-04-21T14:07:43 DUE TO TIME LIMIT ***\n"
    ranks = "".join(f"{rank}: step {n} loss: 0.31\n" for n in range(30) for rank in range(4))
    root = root_of(tmp_path, ranks + line)
    assert (root.code, root.rank) == ("FAIL002", None)


def test_a_long_message_is_cut_behind_a_word(tmp_path, capsys):
    words = "the launch failed because not all replicas ended " * 8
    text = said(tmp_path, capsys, f"2024-01-26 19:09:41: F external/xla/client.cc:2469] {words}\n")
    assert "[...]" in text
    announced = raised("ValueError: Please correct these values:") + "- steps 1 vs 8\n"
    assert "these values: - steps 1 vs 8." in " ".join(said(tmp_path, capsys, announced).split())


CANCELLED = "Epoch 1: 16%|##  | 238/1489 [34:48<3:02:56, 1.14it/s, loss=0.5]slurmstepd: error: *** JOB 69 ON n1 CANCELLED AT 2024-10-26T13:49:50 ***\n"


def test_a_job_that_was_cancelled_before_its_workers_fail(tmp_path):
    gone = raised("FileNotFoundError: [Errno 2] No such file or directory: '/tmp/pymp-1/listener-2'")
    assert root_of(tmp_path, steps(0, 9) + CANCELLED + gone * 3).kind == "cancelled"
    assert named(tmp_path, steps(0, 9) + gone + CANCELLED.partition("]")[2]) == "FAIL016"
    step = CANCELLED.replace("JOB 69", "STEP 69.0")  # srun ends the step as a task has failed
    assert named(tmp_path, steps(0, 9) + step + gone) == "FAIL016"


def test_what_ssh_says_behind_an_exception_is_not_of_it(tmp_path):
    oom = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 55.06 GiB. GPU 0 has a total capacity of 79 GiB"
    )
    ssh = "The script ended.\nssh: Could not resolve hostname login1: Temporary failure in name resolution\n"
    assert named(tmp_path, steps(0, 9) + raised(oom) + ssh) == "MEM009"
    assert named(tmp_path, ssh) == "FAIL007"


def test_a_report_of_lsf_on_a_job_that_failed(tmp_path):
    text = "Loaded module: cuda\n\n-----\nSender: LSF System <a@b>\n{}\n\nResource usage summary:\n"
    assert named(tmp_path, text.format("Exited with exit code 1.")) == "FAIL018"
    assert named(tmp_path, text.format("Successfully completed.")) is None


def test_an_import_that_a_warning_had_announced(tmp_path):
    warned = "WARNING 02-28 [core.py] Failed to import from vllm._core_C with ImportError('libtorch_hip.so: cannot open shared object file')\n"
    failed = raised("RuntimeError: Tried to instantiate class '_core_C.ScalarType', but it does not exist!")
    assert named(tmp_path, warned + failed) == "ENV015"
    assert named(tmp_path, warned + steps(0, 9)) is None


def test_a_server_that_refuses_an_option(tmp_path):
    line = "error while handling argument \"--flash-attn\": error: unknown value for --flash-attn: '--parallel'\n"
    assert named(tmp_path, line + "\nusage:\n-fa, --flash-attn [on|off]\n") == "CFG010"


def test_a_device_without_memory_in_the_words_of_wgpu(tmp_path):
    panic = "thread 'main' (44) panicked at src/backend/wgpu_core.rs:1266:26:\nwgpu error: Validation Error\n\n"
    caused = "Caused by:\n  In Device::create_pipeline_layout\n    Not enough memory left.\n"
    assert named(tmp_path, steps(0, 9) + panic + caused) == "MEM009"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("llama_model_load: error loading model: unable to allocate CUDA0 buffer", "MEM009"),
        ("llama_model_load: error loading model: unknown model architecture: 'qwen3'", "ENV005"),
        ("Error: model requires more system memory (5.6 GiB) than is available (3.1 GiB)", "ENV009"),
        ("llama_model_load: loaded meta data with 26 key-value pairs", None),
    ],
)
def test_a_line_of_an_inference_server(tmp_path, line, code):
    assert named(tmp_path, line + "\n") == code


STOP = ':::MLLOG {"time_ms": 17, "key": "run_stop", "value": null, "metadata": {"lineno": 315, "status": "%s"}}\n'
LIMIT = "slurmstepd: error: *** STEP 187.13 ON n1 CANCELLED AT 2025-04-30T06:00:50 DUE TO TIME LIMIT ***\n"


def test_a_limit_behind_a_complete_training(tmp_path, capsys):
    assert named(tmp_path, steps(0, 9) + STOP % "success" + LIMIT) is None
    for text in (steps(0, 9) + STOP % "aborted" + LIMIT, steps(0, 9) + LIMIT):
        early = said(tmp_path, capsys, text)
        assert "FAIL002" in early and "its training was complete" not in " ".join(early.split())


def test_a_job_of_hydra_without_its_traceback(tmp_path):
    head = "Error executing job with overrides: ['trainer.devices=8']\n"
    tail = "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"
    assert named(tmp_path, steps(0, 9) + head + tail) == "FAIL018"
    assert named(tmp_path, steps(0, 9) + head + raised("KeyError: 'mask'") + tail) == "FAIL001"


def test_a_script_that_ends_at_a_folder_that_is_not_there(tmp_path):
    line = "./run.sh: line 27: cd: /home/ann/state: No such file or directory\n"
    assert named(tmp_path, "nohup: ignoring input\n" + line) == "FAIL020"
    assert named(tmp_path, line + steps(0, 9)) is None


def test_a_warning_that_somebody_pasted(tmp_path):
    line = "The NVIDIA driver on your system is too old (found version 6050).\nPlease update your GPU driver\n"
    assert named(tmp_path, line) == "ENV003"
    assert named(tmp_path, "init.py:107: UserWarning: CUDA initialization: " + line) is None
    assert named(tmp_path, line + steps(0, 9)) is None


def test_a_launcher_that_ends_the_other_processes(tmp_path):
    line = "[2023-09-10 11:45:59,501] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 6294\n"
    assert named(tmp_path, "Loading checkpoint shards:   0%|  | 0/7\n" + line) == "FAIL018"


def test_what_all_ranks_survive_though_one_alone_prints_steps(tmp_path):
    """NeMo prints the traceback of an optional import on each rank."""
    lines = raised("AttributeError: module 'fused' has no attribute 'quick_gelu'").splitlines()
    ranks = "".join(f"{rank}: {line}\n" for rank in range(4) for line in (*lines, "the module was optional"))
    talk = "".join(f"{n % 4}: layer {n} is built\n" for n in range(200))
    trained = "".join(f"0: step {n}/900 loss: 0.31 lr: 0.01\n" for n in range(9))
    assert named(tmp_path, ranks + talk + trained) is None
    assert named(tmp_path, ranks + trained) == "FAIL001"
    killed = "srun: error: n1: task 2: Exited with exit code 1\n"
    assert named(tmp_path, ranks + talk + trained + killed) == "FAIL001"
