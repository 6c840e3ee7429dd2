"""The table of stack classes: which library frame means which phase of a training loop.

A row matches a frame by a part of its file's path and the last part of its function's name: names are qualified
from Python 3.11 on and bare before.
"""

from gpudoctor.model.records import frozen


@frozen(kw_only=False)
class StackClass:
    """One row."""

    kind: str
    phase: str
    paths: tuple[str, ...]
    """Of which the frame's path holds one, with `/` between folders; empty for the user's own files."""
    names: tuple[str, ...] = ()
    """Functions; empty for every function of the file. One that ends with `*` is a beginning."""
    keeps: tuple[str, ...] = ()
    """Phases of inner frames that change nothing: what happens in an evaluation is evaluation. `*` is all."""


def _row(kind: str, phase: str, paths: str, names: str = "", keeps: str = "") -> StackClass:
    return StackClass(kind, phase, tuple(paths.split()), tuple(names.split()), tuple(keeps.split()))


TABLE = (
    # Evaluation, checkpoints and profilers own everything inside them.
    _row("evaluate", "evaluation", "transformers/trainer",
         "evaluate evaluation_loop prediction_step predict _maybe_log_save_evaluate_eval", "*"),
    _row("evaluate", "evaluation", "lightning", "_run_evaluate _evaluation_step _run_sanity_check", "*"),
    _row("evaluate", "evaluation", "loops/evaluation_loop.py", "", "*"),
    _row("save", "checkpoint", "torch/serialization.py", "save _save _legacy_save _open_zipfile_writer*", "*"),
    _row("save", "checkpoint", "distributed/checkpoint/state_dict_saver.py", "", "*"),
    _row("save", "checkpoint", "safetensors/torch.py transformers/ peft/ accelerate/ deepspeed/",
         "save save_file save_model save_pretrained _save_checkpoint _save_optimizer_and_scheduler save_state "
         "save_checkpoint save_16bit_model", "*"),
    _row("save", "checkpoint", "lightning", "save_checkpoint _save_checkpoint dump_checkpoint", "*"),
    # `record_function` of autograd/profiler.py is entered by every optimizer step, profiler or not.
    _row("profile", "profiler", "torch/autograd/profiler.py",
         "_parse_kineto_results _start_trace _prepare_trace _ensure_function_events key_averages table "
         "total_average export_chrome_trace export_stacks", "*"),
    _row("profile", "profiler", "torch/profiler/ torch/autograd/profiler_util.py", "", "*"),
    _row("flops", "profiler",
         "fvcore/nn/ torch/utils/flop_counter.py deepspeed/profiling/ ptflops/ thop/ calflops/", "", "*"),
    # Input. What a fetch does for an item, transforms that are modules included, is input.
    _row("loader-inline", "data_wait", "torch/utils/data/_utils/fetch.py", "fetch", "*"),
    _row("loader-collate", "data_wait", "torch/utils/data/_utils/collate.py", "", "*"),
    _row("loader-pin", "data_wait", "torch/utils/data/_utils/pin_memory.py", "pin_memory", "*"),
    _row("loader-start", "data_wait", "torch/utils/data/dataloader.py",
         "__init__ __iter__ _get_iterator _reset _shutdown_workers", "data_wait start"),
    _row("loader-receive", "data_wait", "torch/multiprocessing/reductions.py", "rebuild_*", "*"),
    _row("loader-wait", "data_wait", "torch/utils/data/dataloader.py", "_get_data _try_get_data",
         "sync logging other"),
    _row("loader-next", "data_wait",
         "torch/utils/data/dataloader.py torch/utils/data/datapipes/ torchdata/ accelerate/data_loader.py", "",
         "forward sync logging"),
    _row("loader-next", "data_wait", "nvidia/dali/", "", "*"),
    # The steps of a loop.
    _row("anomaly", "forward", "torch/autograd/anomaly_mode.py"),
    _row("optimizer", "optimizer", "torch/optim/ bitsandbytes/optim/ apex/optimizers/", "", "sync"),
    _row("optimizer", "optimizer", "deepspeed/runtime/", "step _take_model_step", "sync"),
    _row("zero-grad", "optimizer", "torch/nn/modules/module.py", "zero_grad"),
    _row("backward", "backward", "torch/_tensor.py torch/autograd/graph.py torch/autograd/__init__.py",
         "backward _engine_run_backward grad", "forward"),
    _row("module-move", "transfer", "torch/nn/modules/module.py", "_apply to cuda cpu"),
    _row("forward", "forward", "torch/nn/modules/module.py", "_wrapped_call_impl _call_impl"),
    _row("forward", "forward", "torch/nn/functional.py"),
    # Between ranks.
    _row("object-collective", "collective", "torch/distributed/distributed_c10d.py",
         "all_gather_object broadcast_object_list gather_object scatter_object_list", "*"),
    _row("collective", "collective", "torch/distributed/distributed_c10d.py",
         "all_reduce* barrier all_gather* broadcast* monitored_barrier reduce* gather* scatter* all_to_all* send "
         "recv", "sync"),
    _row("collective", "collective", "torch/distributed/_functional_collectives.py", "", "sync"),
    _row("ddp", "collective", "torch/nn/parallel/distributed.py",
         "_sync_buffers _verify_param_shape_across_processes _sync_module_states _sync_params*"),
    _row("fsdp", "collective", "_fsdp_param_group.py", "wait_for_unshard unshard post_backward"),
    _row("rendezvous", "start", "torch/distributed/rendezvous.py"),
    _row("rendezvous", "start", "torch/distributed/distributed_c10d.py",
         "init_process_group _store_based_barrier new_group"),
    # Host and device.
    _row("synchronize", "sync", "torch/cuda/__init__.py", "synchronize"),
    _row("synchronize", "sync", "torch/cuda/streams.py", "synchronize wait"),
    _row("empty-cache", "sync", "torch/cuda/memory.py", "empty_cache"),
    _row("scaler", "sync", "torch/amp/grad_scaler.py", "_maybe_opt_step update"),
    _row("clip", "optimizer", "torch/nn/utils/clip_grad.py"),
    _row("print-tensor", "sync", "torch/_tensor_str.py", "", "*"),
    # What watches the training.
    _row("tracker", "logging", "/wandb/ /mlflow/ tensorboard /neptune/ /clearml/ /comet_ml/ /aim/", "", "*"),
    _row("progress", "logging", "/tqdm/",
         "refresh display update set_postfix set_postfix_str set_description write moveto print_status fp_write", "*"),
    _row("log", "logging", "/logging/__init__.py /rich/", "", "*"),
    _row("plot", "logging", "/matplotlib/", "", "*"),
    _row("request", "logging", "/requests/ /urllib3/", "", "*"),
    _row("metric", "other", "/torchmetrics/", "", "forward sync"),
    _row("metric", "other", "/sklearn/metrics/ /evaluate/ /sacrebleu/ /rouge_score/ /nltk/translate/", "", "*"),
    # Compiling.
    _row("compile", "compile",
         "torch/_dynamo/convert_frame.py torch/_inductor/compile_fx.py torch/_inductor/async_compile.py "
         "triton/compiler/", "", "*"),
    _row("extension", "compile", "torch/utils/cpp_extension.py", "", "*"),
    # Debuggers that were left on.
    _row("debugger", "profiler", "/pydevd /viztracer/ /coverage/", "", "*"),
    # Starting up: an import that is under way.
    _row("import", "start", "importlib._bootstrap>", "_find_and_load _find_and_load_unlocked"),
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
