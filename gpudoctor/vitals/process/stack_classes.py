"""The table of stack classes: which library frame means which phase of a training loop.

A row matches a frame by a part of its file's path and the last part of its function's name: names are qualified
from Python 3.11 on and bare before.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StackClass:
    """One row."""

    kind: str
    phase: str
    path: str
    """What the frame's path holds, with `/` between folders; "" for the user's own files."""
    names: tuple[str, ...] = ()
    """Functions; empty for every function of the file. One that ends with `*` is a beginning."""
    keeps: tuple[str, ...] = ()
    """Phases of inner frames that change nothing: what happens in an evaluation is evaluation. `*` is all."""


ALL = ("*",)

TABLE = (
    # Evaluation, checkpoints and profilers own everything inside them.
    StackClass("evaluate", "evaluation", "transformers/trainer", ("evaluate", "evaluation_loop",
               "prediction_step", "predict", "_maybe_log_save_evaluate_eval"), ALL),
    StackClass("evaluate", "evaluation", "lightning", ("_run_evaluate", "_evaluation_step",
               "_run_sanity_check"), ALL),
    StackClass("evaluate", "evaluation", "loops/evaluation_loop.py", (), ALL),
    StackClass("save", "checkpoint", "torch/serialization.py", ("save", "_save", "_legacy_save",
               "_open_zipfile_writer*"), ALL),
    StackClass("save", "checkpoint", "distributed/checkpoint/state_dict_saver.py", (), ALL),
    StackClass("save", "checkpoint", "safetensors/torch.py", ("save_file", "save_model", "save"), ALL),
    StackClass("save", "checkpoint", "transformers/", ("save_pretrained", "_save_checkpoint", "save_model",
               "_save_optimizer_and_scheduler"), ALL),
    StackClass("save", "checkpoint", "peft/", ("save_pretrained",), ALL),
    StackClass("save", "checkpoint", "accelerate/", ("save_state", "save_model", "save"), ALL),
    StackClass("save", "checkpoint", "deepspeed/", ("save_checkpoint", "save_16bit_model"), ALL),
    StackClass("save", "checkpoint", "lightning", ("save_checkpoint", "_save_checkpoint",
               "dump_checkpoint"), ALL),
    StackClass("profile", "profiler", "torch/profiler/", (), ALL),
    # `record_function` of that file is entered by every optimizer step, profiler or not.
    StackClass("profile", "profiler", "torch/autograd/profiler.py", ("_parse_kineto_results", "_start_trace",
               "_prepare_trace", "_ensure_function_events", "key_averages", "table", "total_average",
               "export_chrome_trace", "export_stacks"), ALL),
    StackClass("profile", "profiler", "torch/autograd/profiler_util.py", (), ALL),
    StackClass("flops", "profiler", "fvcore/nn/", (), ALL),
    StackClass("flops", "profiler", "torch/utils/flop_counter.py", (), ALL),
    StackClass("flops", "profiler", "deepspeed/profiling/", (), ALL),
    StackClass("flops", "profiler", "ptflops/", (), ALL),
    StackClass("flops", "profiler", "thop/", (), ALL),
    StackClass("flops", "profiler", "calflops/", (), ALL),
    # Input. What a fetch does for an item, transforms that are modules included, is input.
    StackClass("loader-inline", "data_wait", "torch/utils/data/_utils/fetch.py", ("fetch",), ALL),
    StackClass("loader-collate", "data_wait", "torch/utils/data/_utils/collate.py", (), ALL),
    StackClass("loader-pin", "data_wait", "torch/utils/data/_utils/pin_memory.py", ("pin_memory",), ALL),
    StackClass("loader-start", "data_wait", "torch/utils/data/dataloader.py", ("__init__", "__iter__",
               "_get_iterator", "_reset", "_shutdown_workers"), ("data_wait", "start")),
    StackClass("loader-receive", "data_wait", "torch/multiprocessing/reductions.py", ("rebuild_*",), ALL),
    StackClass("loader-wait", "data_wait", "torch/utils/data/dataloader.py", ("_get_data", "_try_get_data"),
               ("sync", "logging", "other")),
    StackClass("loader-next", "data_wait", "torch/utils/data/dataloader.py", (), ("forward", "sync",
               "logging")),
    StackClass("loader-next", "data_wait", "torch/utils/data/datapipes/", (), ("forward", "sync",
               "logging")),
    StackClass("loader-next", "data_wait", "torchdata/", (), ("forward", "sync", "logging")),
    StackClass("loader-next", "data_wait", "accelerate/data_loader.py", (), ("forward", "sync", "logging")),
    StackClass("loader-next", "data_wait", "nvidia/dali/", (), ALL),
    # The steps of a loop.
    StackClass("anomaly", "forward", "torch/autograd/anomaly_mode.py"),
    StackClass("optimizer", "optimizer", "torch/optim/", (), ("sync",)),
    StackClass("optimizer", "optimizer", "bitsandbytes/optim/", (), ("sync",)),
    StackClass("optimizer", "optimizer", "deepspeed/runtime/", ("step", "_take_model_step"), ("sync",)),
    StackClass("optimizer", "optimizer", "apex/optimizers/", (), ("sync",)),
    StackClass("zero-grad", "optimizer", "torch/nn/modules/module.py", ("zero_grad",)),
    StackClass("backward", "backward", "torch/_tensor.py", ("backward",), ("forward",)),
    StackClass("backward", "backward", "torch/autograd/graph.py", ("_engine_run_backward",), ("forward",)),
    StackClass("backward", "backward", "torch/autograd/__init__.py", ("backward", "grad"), ("forward",)),
    StackClass("module-move", "transfer", "torch/nn/modules/module.py", ("_apply", "to", "cuda", "cpu")),
    StackClass("forward", "forward", "torch/nn/modules/module.py", ("_wrapped_call_impl", "_call_impl")),
    StackClass("forward", "forward", "torch/nn/functional.py"),
    # Between ranks.
    StackClass("object-collective", "collective", "torch/distributed/distributed_c10d.py",
               ("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"), ALL),
    StackClass("collective", "collective", "torch/distributed/distributed_c10d.py", ("all_reduce*",
               "barrier", "all_gather*", "broadcast*", "monitored_barrier", "reduce*", "gather*",
               "scatter*", "all_to_all*", "send", "recv"), ("sync",)),
    StackClass("collective", "collective", "torch/distributed/_functional_collectives.py", (), ("sync",)),
    StackClass("ddp", "collective", "torch/nn/parallel/distributed.py", ("_sync_buffers",
               "_verify_param_shape_across_processes", "_sync_module_states", "_sync_params*")),
    StackClass("fsdp", "collective", "_fsdp_param_group.py", ("wait_for_unshard", "unshard",
               "post_backward")),
    StackClass("rendezvous", "start", "torch/distributed/rendezvous.py"),
    StackClass("rendezvous", "start", "torch/distributed/distributed_c10d.py", ("init_process_group",
               "_store_based_barrier", "new_group")),
    # Host and device.
    StackClass("synchronize", "sync", "torch/cuda/__init__.py", ("synchronize",)),
    StackClass("synchronize", "sync", "torch/cuda/streams.py", ("synchronize", "wait")),
    StackClass("empty-cache", "sync", "torch/cuda/memory.py", ("empty_cache",)),
    StackClass("scaler", "sync", "torch/amp/grad_scaler.py", ("_maybe_opt_step", "update")),
    StackClass("clip", "optimizer", "torch/nn/utils/clip_grad.py"),
    StackClass("print-tensor", "sync", "torch/_tensor_str.py", (), ALL),
    # What watches the training.
    StackClass("tracker", "logging", "/wandb/", (), ALL),
    StackClass("tracker", "logging", "/mlflow/", (), ALL),
    StackClass("tracker", "logging", "tensorboard", (), ALL),
    StackClass("tracker", "logging", "/neptune/", (), ALL),
    StackClass("tracker", "logging", "/clearml/", (), ALL),
    StackClass("tracker", "logging", "/comet_ml/", (), ALL),
    StackClass("tracker", "logging", "/aim/", (), ALL),
    StackClass("progress", "logging", "/tqdm/", ("refresh", "display", "update", "set_postfix",
               "set_postfix_str", "set_description", "write", "moveto", "print_status", "fp_write"), ALL),
    StackClass("log", "logging", "/logging/__init__.py", (), ALL),
    StackClass("log", "logging", "/rich/", (), ALL),
    StackClass("plot", "logging", "/matplotlib/", (), ALL),
    StackClass("request", "logging", "/requests/", (), ALL),
    StackClass("request", "logging", "/urllib3/", (), ALL),
    StackClass("metric", "other", "/sklearn/metrics/", (), ALL),
    StackClass("metric", "other", "/torchmetrics/", (), ("forward", "sync")),
    StackClass("metric", "other", "/evaluate/", (), ALL),
    StackClass("metric", "other", "/sacrebleu/", (), ALL),
    StackClass("metric", "other", "/rouge_score/", (), ALL),
    StackClass("metric", "other", "/nltk/translate/", (), ALL),
    # Compiling.
    StackClass("compile", "compile", "torch/_dynamo/convert_frame.py", (), ALL),
    StackClass("compile", "compile", "torch/_inductor/compile_fx.py", (), ALL),
    StackClass("compile", "compile", "torch/_inductor/async_compile.py", (), ALL),
    StackClass("compile", "compile", "triton/compiler/", (), ALL),
    StackClass("extension", "compile", "torch/utils/cpp_extension.py", (), ALL),
    # Debuggers that were left on.
    StackClass("debugger", "profiler", "/pydevd", (), ALL),
    StackClass("debugger", "profiler", "/viztracer/", (), ALL),
    StackClass("debugger", "profiler", "/coverage/", (), ALL),
    # Starting up: an import that is under way.
    StackClass("import", "start", "<frozen importlib._bootstrap>", ("_find_and_load",
               "_find_and_load_unlocked")),
)  # fmt: skip

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
