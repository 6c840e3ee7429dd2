"""What the eleventh set, and logs of a third writer, showed that nobody here had seen: each kind with its sick and its healthy case."""

import pytest
from log_causes import FRAME, HEAD, named, raised, root_of, steps

BLAS = (
    "OpenBLAS blas_thread_init: pthread_create failed for thread 9 of 64: Resource temporarily unavailable\n"
    "OpenBLAS blas_thread_init: RLIMIT_NPROC 256 current, 256 max\n"
)
DEAD = raised("nbclient.exceptions.DeadKernelError: Kernel died")


def test_openblas_ends_its_process_as_ctrl_c_would(tmp_path):
    assert named(tmp_path, BLAS + raised("KeyboardInterrupt")) == "ENV008"
    assert named(tmp_path, raised("KeyboardInterrupt")) == "FAIL002"
    assert named(tmp_path, BLAS + steps(0, 30) + "training complete\n") is None


def test_a_notebook_whose_kernel_died_shows_no_cause(tmp_path):
    assert named(tmp_path, "[NbConvertApp] ERROR | Kernel died while waiting for execute reply.\n" + DEAD) == "FAIL018"
    empty = raised("_queue.Empty")
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert named(tmp_path, empty + during + DEAD) == "FAIL018"
    assert named(tmp_path, empty) == "FAIL001"
    assert named(tmp_path, raised("KeyError: 'mask'") + DEAD) == "FAIL001"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("2025-01-01 10:00:00 Interrupted - the managed spot training instances were interrupted.", "FAIL002"),
        ("RuntimeError: Rank 3, iteration 9: Unexpected result nan (message='found NaN in local grad norm')", "NUM001"),
        ("RuntimeError: Rank 3, iteration 9: Unexpected result nan (message='found NaN in local forward loss')", "NUM002"),
    ],
)  # fmt: skip
def test_a_line_and_its_page(tmp_path, line, code):
    assert named(tmp_path, steps(0, 20) + (raised(line) if "Error: " in line else line + "\n")) == code


@pytest.mark.parametrize(("level", "code"), [("V", None), ("I", None), ("E", "FAIL017")])
def test_what_dynamo_logs_of_a_graph_break(tmp_path, level, code):
    head = f"{level}0904 11:02:31.110000 4410 torch/_dynamo/symbolic_convert.py:435] [5/0] [__graph_breaks] "
    told = "".join(head + line + "\n" for line in raised("torch._dynamo.exc.Unsupported: Tensor.item").splitlines())
    assert named(tmp_path, told + (steps(0, 3) if level != "E" else "")) == code
    assert named(tmp_path, raised("torch._dynamo.exc.Unsupported: Tensor.item") + steps(0, 3)) == "FAIL017"


WORKER = (
    HEAD
    + FRAME
    + "KeyError: Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    + FRAME
)
OLDER = HEAD + FRAME + "FileNotFoundError: Traceback (most recent call last):\n" + FRAME
CELL = (
    "---------------------------------- TypeError Traceback (most recent call last) Cell In[3], line 1 ----> 1 fit( 2 a=b, "
    "3 ) TypeError: Trainer.__init__() got an unexpected keyword argument 'a'\n"
)


def test_the_traceback_of_a_worker_that_the_log_cuts(tmp_path):
    assert named(tmp_path, WORKER) == "FAIL001"
    assert named(tmp_path, WORKER + "FileNotFoundError: [Errno 2] No such file or directory: 'a.jpg'\n") == "FAIL016"
    assert root_of(tmp_path, OLDER).exception == "FileNotFoundError"
    assert named(tmp_path, WORKER + steps(0, 30)) is None


def test_a_notebook_in_one_line(tmp_path):
    assert named(tmp_path, CELL) == "CFG009"
    assert named(
        tmp_path, CELL.replace("TypeError: Trainer.__init__() got an unexpected keyword argument 'a'", "")
    ) in (None, "FAIL001")


def test_a_line_within_quotes(tmp_path):
    assert named(tmp_path, '"IndexError: Target 12 is out of bounds."\n') == "FAIL001"
    assert named(tmp_path, 'errors = [\n"IndexError: Target 12 is out of bounds.",\n]\n' + steps(0, 30)) is None


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("forrtl: error (200): program aborting due to window-CLOSE event", "FAIL002"),
        ("E0808 13:17:35.312422 159 pybind.cc:1584] Invalid CUDAPlace(3), must inside [0, 2), because GPU number is 2", "ENV013"),
        ('{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "metadata": {"global_rank": 1}}', "FAIL018"),
    ],
)  # fmt: skip
def test_the_last_line(tmp_path, line, code):
    assert named(tmp_path, steps(0, 20) + line + "\n") == code
    assert named(tmp_path, steps(0, 20) + line + "\n" + steps(20, 60)) is None


def test_rewards_that_are_nan_up_to_the_end(tmp_path):
    line = "{{'loss': 0.0, 'rewards/chosen': {0}, 'logits/rejected': {0}, 'epoch': 0.{1}}}\n"
    assert named(tmp_path, "".join(line.format("nan", n) for n in range(1, 9))) == "NUM002"
    assert named(tmp_path, "".join(line.format("0.5" if n > 3 else "nan", n) for n in range(1, 90))) is None


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("2025-06-04 00:21:52,523 - ERROR - Error loading dataset: Annotation file not found: /data/a.json", "FAIL016"),
        ("ERROR: the folder /data/val is missing", "FAIL016"),
        ("ERROR: 3 keys missing", None),
    ],
)  # fmt: skip
def test_an_error_of_the_program_at_the_end(tmp_path, line, code):
    assert named(tmp_path, steps(0, 20) + line + "\n") == code
    assert named(tmp_path, line + "\n" + steps(0, 20)) is None


def test_a_bar_of_an_evaluation_counts_no_steps(tmp_path):
    bars = " 50%|#####     | 400/800 [03:53<03:53, 1.71it/s]\n 31%|###   | 111/354 [00:34<01:15, 3.20it/s]\n"
    frame = '  File "/opt/lib/python3.11/site-packages/transformers/trainer.py", line 9, in evaluation_loop\n    add(logits)\n'
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert root_of(tmp_path, bars + HEAD + FRAME + frame + error).step is None
    assert root_of(tmp_path, bars + HEAD + FRAME + error).step == 111


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CUDA out of memory. Tried to allocate 4.00 GiB (GPU 0; 10.73 GiB total capacity)\n", "MEM009"),
        ("I ran it, but got this error \u2018RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)\u2019.\n", "FAIL013"),
        ("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)\n" + FRAME, "FAIL013"),
        ('After some epochs the terminal shows "segmentation fault (core dumped)".\n', "FAIL006"),
        ("python : C:\\Program Files\\Python\\python.exe: can't open file \n'C:\\fit.py': [Errno 2] No such file or directory\nAt line:1 char:1\n", "FAIL020"),
        ("  File \"a.py\", line 9, in f\n    g()\nFileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.\n", "FAIL016"),
        ("torch.distributed.elastic.multiprocessing.errors.childFailedError: fit.py FAILED\n", "FAIL018"),
    ],
)  # fmt: skip
def test_a_few_lines_that_somebody_pasted(tmp_path, text, code):
    text = HEAD + text if text.startswith("  File") else text
    assert named(tmp_path, text) == code
    assert named(tmp_path, text + steps(0, 60)) is None


def test_words_of_a_failure_in_a_log_of_a_healthy_job(tmp_path):
    help_text = "If you see CUDA out of memory, lower the batch size.\n"
    assert named(tmp_path, help_text + steps(0, 3)) is None
    assert named(tmp_path, help_text + "training complete\n") is None
    assert named(tmp_path, "WARNING: on CUDA out of memory the batch is halved\n") is None


def test_gradients_that_are_nan_beside_a_finite_loss(tmp_path):
    line = "epoch {} loss: {} grad_norm: nan\n"
    assert named(tmp_path, "".join(line.format(n, 0.3) for n in range(9))) == "NUM001"
    assert named(tmp_path, "".join(line.format(n, "nan") for n in range(9))) == "NUM002"


def test_a_report_of_lsf_stands_above_the_output(tmp_path):
    report = "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n\n"
    assert named(tmp_path, report + "The output (if any) follows:\n\n" + steps(0, 60)) == "FAIL002"


def test_what_a_spawned_process_raised_is_cut_off(tmp_path):
    spawn = raised("Exception: ") + "\n-- Process 0 terminated with the following error:\n" + HEAD + FRAME
    assert named(tmp_path, spawn) == "FAIL018"
    assert named(tmp_path, spawn + "KeyError: 'mask'\n") == "FAIL001"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("python3: can't open file 'fit.py': [Errno 2] No such file or directory\n", "FAIL020"),
        ("python3.11: No module named fitter\n", "ENV005"),
        ("FailedScheduling\n 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.\n", "FAIL020"),
        ("DataLoader worker (pid(s) 18056, 20540) exited unexpectedly\n", "DATA010"),
        (
            raised("ValueError: no such name")
            + "W0703 01:34:12.954000 721 site-packages/torch/distributed/elastic/api.py:897] Sending process 7 closing signal SIGTERM\n"
            + "E0703 01:34:13.018000 721 site-packages/torch/distributed/elastic/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 7)\n",
            "FAIL001",
        ),
        ("AssertionError: Check batch related parameters. train_batch_size 8 != 4\n\tERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 9)\n", "CFG010"),
    ],
)  # fmt: skip
def test_what_a_later_set_showed(tmp_path, text, code):
    assert named(tmp_path, text) == code
    assert named(tmp_path, text + steps(0, 60)) is None
