"""Stacks as py-spy gives them, innermost frame first, and what they are."""

import pytest

from gpudoctor.model.signs.process import Frame
from gpudoctor.vitals.process.classify_stack import classify, is_worker

SITE = "/env/lib/python3.11/site-packages/"
USER = "/home/me/train.py"
MAIN = ("main", USER, 20), ("<module>", USER, 30)


def stack(*frames):
    """`name path line` triples; a path without a slash at its start lies in site-packages."""
    return [
        Frame(name=name, path=path if path.startswith(("/", "<")) else SITE + path, line=line)
        for name, path, line in frames
    ]


def look(*frames, line="", device=False):
    return classify(stack(*frames), lambda path, number: line, device)


DATA = "torch/utils/data/"
CASES = {
    "loader wait": (
        [("select", "/usr/lib/python3.11/selectors.py", 415), ("wait", "/usr/lib/python3.11/multiprocessing/connection.py", 947),
         ("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 113),
         ("_MultiProcessingDataLoaderIter._try_get_data", DATA + "dataloader.py", 1200),
         ("_MultiProcessingDataLoaderIter._get_data", DATA + "dataloader.py", 1240),
         ("_BaseDataLoaderIter.__next__", DATA + "dataloader.py", 700)], "data_wait", "loader-wait"),
    "transform that is a module, inside a fetch": (
        [("Resize.forward", "torchvision/transforms/transforms.py", 350), ("Module._call_impl", "torch/nn/modules/module.py", 1500),
         ("fetch", DATA + "_utils/fetch.py", 52), ("_SingleProcessDataLoaderIter._next_data", DATA + "dataloader.py", 750),
         ("_BaseDataLoaderIter.__next__", DATA + "dataloader.py", 700)], "data_wait", "loader-inline"),
    "recomputation in backward": (
        [("Linear.forward", "torch/nn/modules/linear.py", 120), ("Module._call_impl", "torch/nn/modules/module.py", 1500),
         ("CheckpointFunction.backward", "torch/utils/checkpoint.py", 290), ("_engine_run_backward", "torch/autograd/graph.py", 800),
         ("Tensor.backward", "torch/_tensor.py", 600)], "backward", "backward"),
    "optimizer": ([("_single_tensor_adam", "torch/optim/adam.py", 400), ("Adam.step", "torch/optim/adam.py", 230)],
                  "optimizer", "optimizer"),
    "collective": ([("all_reduce", "torch/distributed/distributed_c10d.py", 2800),
                    ("_exception_logger.<locals>.wrapper", "torch/distributed/c10d_logger.py", 83)], "collective", "collective"),
    "checkpoint": ([("_save", "torch/serialization.py", 900), ("save", "torch/serialization.py", 600)], "checkpoint", "save"),
    "printing a tensor": ([("_Formatter.__init__", "torch/_tensor_str.py", 150), ("Tensor.__repr__", "torch/_tensor.py", 568)],
                          "sync", "print-tensor"),
    "profiler": ([("_parse_kineto_results", "torch/autograd/profiler.py", 700), ("profile.step", "torch/profiler/profiler.py", 800)],
                 "profiler", "profile"),
    "compiling": ([("_compile", "torch/_dynamo/convert_frame.py", 1000), ("Module._call_impl", "torch/nn/modules/module.py", 1500)],
                  "compile", "compile"),
    "metric": ([("f1_score", SITE + "sklearn/metrics/_classification.py", 1300)], "other", "metric"),
    }  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_table_of_stack_classes(name):
    frames, phase, kind = CASES[name]
    seen = look(*frames, *MAIN)
    assert (seen.phase, seen.kind) == (phase, kind)
    expected = next(frame for frame in [*frames, *MAIN] if frame[1] == USER)
    assert (seen.user.path, seen.user.line) == (USER, expected[2])


def test_the_users_own_evaluation_owns_the_forward_in_it():
    forward = [("Module._call_impl", "torch/nn/modules/module.py", 1500)]
    for name in ("evaluate", "validate", "val_epoch", "run_eval", "estimate_loss", "test"):
        assert look(*forward, (name, USER, 50), *MAIN).phase == "evaluation", name
    for name in ("train", "evaluate_policy_gradient", "latest", "testament"):
        assert look(*forward, (name, USER, 50), *MAIN).phase == "forward", name


@pytest.mark.parametrize(
    ("line", "device", "phase", "kind"),
    [
        ("total += loss.item()", False, "sync", "read"),
        ("value = float(loss)", True, "sync", "read"),
        ("value = float(text)", False, "other", "user"),
        ("if loss > best:", True, "sync", "read"),
        ("x, y = x.to(device), y.to(device)", True, "transfer", "move"),
        ("print(f'{step}: {loss}')", False, "logging", "print"),
        ("gc.collect()", False, "sync", "gc"),
        ("x = a @ b", True, "other", "user"),
    ],
)
def test_a_line_without_a_frame_tells_by_its_text(line, device, phase, kind):
    seen = look(*MAIN, line=line, device=device)
    assert (seen.phase, seen.kind, seen.via) == (phase, kind, "")
    assert seen.text == line


def test_a_loader_worker_is_known_by_its_loop():
    assert is_worker(
        stack(("fetch", DATA + "_utils/fetch.py", 52), ("_worker_loop", DATA + "_utils/worker.py", 300), *MAIN)
    )
    assert not is_worker(stack(*MAIN))
