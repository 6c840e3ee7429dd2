"""What the fourth set of logs showed: general faults, each with a text of the test's own."""

import pytest
from log_causes import FRAME, HEAD, named, raised, steps

from gpudoctor.model.unavailable import Unread

BAR = "Epoch:  18%|##        | 280/1529 [07:35<22:03,  1.06s/it]"


def test_a_bar_that_goes_back_by_backspaces_is_text(tmp_path):
    bar = "".join("\b" * 60 + "\r" * (n % 2) + f" {n}/300 [=>....] - ETA: 9:12 - loss: 0.4{n}" for n in range(40))
    assert named(tmp_path, bar) is None
    assert named(tmp_path, bar + "\nKilled\n") == "FAIL002"
    with pytest.raises(Unread, match="not text"):
        named(tmp_path, bytes(range(8)) * 100)


def test_the_shell_writes_behind_a_bar(tmp_path):
    bars = f"{BAR}\r" * 5
    assert named(tmp_path, f"{bars}{BAR}./fit.sh: line 33: 4711 Killed      python fit.py --epochs 3\n") == "FAIL002"
    assert named(tmp_path, f"{bars}{BAR}[rank0] saved\n") is None


def test_the_advice_of_conda_is_no_failure(tmp_path):
    advice = "\nCommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.\nTo initialize your shell, run\n\n    $ conda init <SHELL_NAME>\n"
    assert named(tmp_path, advice * 4) is None
    limit = "slurmstepd-n4: error: *** JOB 7 ON n4 CANCELLED AT 2024-01-01T01:00:00 DUE TO TIME LIMIT ***\n"
    assert named(tmp_path, advice + limit) == "FAIL002"


@pytest.mark.parametrize("error", ["NotImplementedError", "ValueError: the reward is empty"])
def test_the_exception_within_a_task_of_ray(tmp_path, error):
    kind = error.partition(":")[0]
    text = HEAD + FRAME + f"ray.exceptions.RayTaskError({kind}): ray::task() (pid=7, ip=10.0.0.2)\n" + FRAME
    assert named(tmp_path, text + f"{error}\nSet the environment variable HYDRA_FULL_ERROR=1\n") == "FAIL001"


@pytest.mark.parametrize(
    "behind",
    ["wandb: \nwandb: View run a at https://wandb.example/a\n", "sys:1: DeprecationWarning: call to _destroy.\n"],
)
def test_what_stands_behind_an_exception_is_no_part_of_it(tmp_path, behind):
    assert (
        named(tmp_path, raised("FileNotFoundError: [Errno 2] No such file or directory: 'a.p'") + behind) == "FAIL016"
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("RESOURCE_EXHAUSTED: Attempting to reserve 6.48G at the bottom of memory. That was not possible.", "MEM009"),
        ("Attempting to reserve 6.48G at the bottom of memory.", None),
        ("EI0002: The wait execution of the Notify register times out. Reason: no record from rank 3", "FAIL004"),
        ("EE1002: rtDeviceSynchronize execute failed, reason=[stream sync timeout]", "FAIL004"),
        ("[INFO] stream sync took 3 ms, no task timeout", None),
        ("Cannot find primary config 'small.yaml'. Check that it's in your config search path.", "CFG010"),
        ("[INFO] the primary config is small.yaml", None),
        ("fit.py: error: argument --fp8: ignored explicit argument 'true'", "CFG010"),
        ("Job exceeded its walltime limit. Job was aborted", "FAIL002"),
        ("Job exceeded a memory resource limit (vmem, pvmem, etc.). Job was aborted", "FAIL002"),
        ("[INFO] this job exceeded its targets", None),
        ("400/5000 [=>..] - loss: 0.41 - time: 2.91Killed", "FAIL002"),
        ("[INFO] Killed 3 idle workers", None),
    ],
)  # fmt: skip
def test_words_of_libraries(tmp_path, line, code):
    assert named(tmp_path, f"loading\n{line}\n") == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("urllib.error.HTTPError: HTTP Error 403: Forbidden", "FAIL015"),
        ("urllib.error.HTTPError: HTTP Error 404: Not Found", "FAIL015"),
        ('OSError: [WinError 1455] The paging file is too small. Error loading "C:\\torch\\lib\\shm.dll"', "ENV009"),
        ("UnknownError: Failed to get convolution algorithm. This is probably because cuDNN failed to initialize", "FAIL009"),
        ("RuntimeError: all tensors must be on devices[0]", "FAIL013"),
        ("RuntimeError: all tensors are empty", "FAIL001"),
    ],
)  # fmt: skip
def test_exceptions_of_libraries(tmp_path, error, code):
    assert named(tmp_path, raised(error)) == code


def test_the_line_of_the_scheduler_is_no_part_of_an_exception(tmp_path):
    limit = "slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2024-01-01T01:00:00 DUE TO TIME LIMIT ***\n"
    assert named(tmp_path, raised("AttributeError: folder") + limit) == "FAIL001"
    assert named(tmp_path, steps(0, 9) + limit) == "FAIL002"


def report(state):
    end = "Successfully completed." if state == "Done" else "Exited with exit code 1."
    return (
        f"\n---\nSender: LSF System <lsf@n1>\nSubject: Job 7: <fit> in cluster <c> {state}\n\n{end}\n\n"
        "Resource usage summary:\n\n    CPU time :   4.00 sec.\n\n"
        "The output (if any) is above this job summary.\n\n"
    )


def test_jobs_of_lsf_in_one_file(tmp_path):
    failed = raised("KeyError: 'mask'") + report("Exited")
    assert named(tmp_path, failed) == "FAIL001"
    assert named(tmp_path, failed + steps(0, 2) + report("Done")) is None
    assert named(tmp_path, failed + raised(OOM.format(n=7)) + report("Exited")) == "MEM009"


def test_a_task_that_nobody_waited_for(tmp_path):
    lost = (
        "Task exception was never retrieved\nfuture: <Task finished name='Task-1' coro=<ask() done>>\n"
        + raised("TypeError: load_dataset() got an unexpected keyword argument 'i'")
        + "asked the server\n" * 3
    )
    assert named(tmp_path, lost * 2) in (None, "FAIL018")
    assert named(tmp_path, lost + raised("KeyError: 'mask'")) == "FAIL001"
    assert named(tmp_path, raised("TypeError: load_dataset() got an unexpected keyword argument 'i'")) == "CFG009"


def test_an_exception_that_an_actor_of_ray_keeps_to_itself(tmp_path):
    own = "".join(f"(Worker pid=77) {line}\n" for line in raised("ValueError: no answer in the text").splitlines())
    others = "(TaskRunner pid=9) filtered 4 of 32 samples\n" * 20
    assert named(tmp_path, own + others) is None
    driver = raised("ray.exceptions.RayTaskError(ValueError): ray::run() (pid=9)\nValueError: no answer in the text")
    assert named(tmp_path, own + others + driver) == "FAIL001"
    assert named(tmp_path, own) == "FAIL001"


def test_a_call_that_is_made_again(tmp_path):
    again = "INFO Backing off ask(...) for 0.4s (openai.RateLimitError: Error code: 429 - too many)\n"
    assert named(tmp_path, again * 5 + "all answers are there\n") is None


def test_a_nan_that_the_tracker_repeats_at_the_end(tmp_path):
    nan = "".join(f"step {n:05}/00050 | loss: nan | lrm: 1.00 | dt: 17ms\n" for n in range(50))
    after = "saving the model\n" * 30 + "wandb:   train/loss nan\n" + "wandb: synced\n" * 3
    assert named(tmp_path, nan + after) == "NUM002"


SHELL = "/opt/conda/bin/conda: line 6: syntax error near unexpected token `('\n"


@pytest.mark.parametrize(
    ("behind", "code"),
    [
        ("", "FAIL020"),
        (raised("KeyError: 'mask'"), "FAIL001"),
        (
            raised("FileNotFoundError: [Errno 2] No such file or directory: 'out/model.pt'"),
            "FAIL020",
        ),  # what the shell did not do, the next program misses
    ],
)
def test_the_shell_goes_on_behind_its_error(tmp_path, behind, code):
    assert named(tmp_path, SHELL + behind) == code


def test_a_collective_of_ascend_outranks_its_bare_exception(tmp_path):
    error = "RuntimeError: Inner:torch_npu/csrc/OpParamMaker.cpp:281 OPS function error: HcclAllreduce, error code is 6"
    assert named(tmp_path, raised(error)) == "FAIL004"


def test_ranks_of_horovod_that_stall(tmp_path):
    wait = "[2024-01-01 10:0{n}:00: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
    stalls = "".join(wait.format(n=n) for n in range(4))
    assert named(tmp_path, steps(0, 20) + stalls) == "FAIL004"
    assert named(tmp_path, steps(0, 20) + stalls + steps(20, 60)) is None


def test_a_file_that_tensorflow_does_not_find(tmp_path):
    error = "tensorflow.python.framework.errors_impl.NotFoundError: 2 root error(s) found.\n  (0) Not found:  images/7.jpg; No such file or directory\n\t [[{{node ReadFile}}]]"
    assert named(tmp_path, raised(error)) == "FAIL016"
    other = "tensorflow.python.framework.errors_impl.NotFoundError: Key dense/kernel not found in checkpoint"
    assert named(tmp_path, raised(other)) != "FAIL016"


WRONG_OPTION = "usage: fit.py [-h] --lr LR\nfit.py: error: argument --lr: expected one argument\n"
NO_MODULE = raised("ModuleNotFoundError: No module named 'einops'")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (WRONG_OPTION, "CFG010"),
        (WRONG_OPTION * 4, "CFG010"),
        (WRONG_OPTION + raised("KeyboardInterrupt"), "FAIL002"),
        (WRONG_OPTION + raised("KeyError: 'mask'"), "FAIL001"),
        (raised("KeyError: 'mask'") + WRONG_OPTION, "CFG010"),
        (NO_MODULE, "ENV005"),
        (NO_MODULE * 4, "ENV005"),
        (NO_MODULE + raised("RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half"), "FAIL013"),
        (NO_MODULE + raised("FileNotFoundError: [Errno 2] No such file or directory: 'out/model.pt'"), "ENV005"),
        (raised("KeyError: 'mask'") + raised("ValueError: no scores"), "FAIL001"),
    ],
)  # fmt: skip
def test_a_program_that_began_no_work_is_of_an_earlier_run(tmp_path, text, code):
    assert named(tmp_path, text) == code


OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 MiB (GPU 0; 39.42 GiB total capacity)"


def test_many_failures_that_the_training_goes_on_after(tmp_path):
    skipped = "".join(raised(OOM.format(n=10 * n) + " " + "x" * n) + steps(100 * n, 100 * n + 60) for n in range(1, 9))
    assert named(tmp_path, skipped) is None
    assert named(tmp_path, skipped + raised(OOM.format(n=7))) == "MEM009"


def test_a_later_run_that_prints_its_settings_at_length(tmp_path):
    settings = "".join(f'  "option_{n}": {n},\n' for n in range(400))
    failed = raised(OOM.format(n=24))
    assert named(tmp_path, failed + settings + failed + settings + steps(0, 40)) is None
    assert named(tmp_path, failed + settings) == "MEM009"


def test_a_request_that_a_server_could_not_serve(tmp_path):
    served = "".join(
        f"10.0.0.{n} - - [04/Dec/2023] GET /status\nERROR in app: Exception on /query [GET]\n"
        + raised("ValueError: the task id is empty")
        for n in range(5)
    )
    assert named(tmp_path, served) in (None, "FAIL018")
    assert named(tmp_path, served + "done\n" + raised("KeyError: 'task'")) == "FAIL001"


@pytest.mark.parametrize(("lines", "code"), [(20, "FAIL001"), (400, None)])
def test_a_file_that_goes_on_for_long_behind_an_exception(tmp_path, lines, code):
    after = "".join(f"saved picture {n} of the second part\n" for n in range(lines))
    assert named(tmp_path, raised("KeyError: 'mask'") + after) == code
