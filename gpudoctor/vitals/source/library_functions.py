"""Which functions of the libraries do what: plain lists of names, for `library` and `tensors`."""

from gpudoctor.analysis.source.syntax import words

# Members of torch itself that give no tensor.
NO_TENSOR = words(
    "save load manual_seed seed initial_seed set_default_dtype set_default_device set_default_tensor_type "
    "get_default_dtype is_tensor is_grad_enabled set_grad_enabled no_grad enable_grad inference_mode autocast "
    "compile device set_float32_matmul_precision get_float32_matmul_precision set_num_threads get_num_threads "
    "numel is_floating_point is_complex allclose equal Generator get_rng_state set_rng_state "
    "use_deterministic_algorithms finfo iinfo Size set_printoptions typename is_autocast_enabled vmap"
)
FACTORIES = words(
    "tensor zeros ones empty full rand randn randint arange linspace eye randperm as_tensor from_numpy logspace "
    "asarray normal tril_indices triu_indices hann_window FloatTensor LongTensor IntTensor Tensor BoolTensor"
)
READS = words(
    "item tolist numpy size dim numel ndimension element_size nelement stride data_ptr storage get_device "
    "is_contiguous is_floating_point backward register_hook retain_grad dtype __len__ is_pinned tobytes"
)
WRAPPERS = words(
    "torch.compile torch.jit.script torch.jit.trace copy.deepcopy copy.copy "
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm accelerate.Accelerator.unwrap_model torch.jit.freeze "
    "torch.jit.optimize_for_inference torch.distributed.checkpoint.wrapper peft.prepare_model_for_kbit_training "
    "apex.parallel.convert_syncbn_model lightning.Fabric.to_device torch.fx.symbolic_trace iter reversed sorted "
    "tqdm.tqdm list tuple tqdm rich.progress.track itertools.cycle itertools.islice alive_progress.alive_it "
    "progressbar.progressbar tqdm.tqdm_notebook torch.autograd.Variable lightning.Fabric.all_reduce "
    "torch.utils.data.backward_compat iter.__iter__"
)
DDP = words(
    "torch.nn.parallel.DistributedDataParallel torch.nn.DataParallel apex.parallel.DistributedDataParallel "
    "torch.distributed.fsdp.FullyShardedDataParallel torch.distributed.fsdp.fully_shard "
    "horovod.torch.DistributedOptimizer torch_xla.distributed.xla_multiprocessing.MpModelWrapper "
    "peft.get_peft_model torch.optim.swa_utils.AveragedModel"
)
PREPARES = words("accelerate.Accelerator.prepare lightning.Fabric.setup apex.amp.initialize")
LOADER_PREPARES = words(
    "accelerate.Accelerator.prepare_data_loader lightning.Fabric.setup_dataloaders "
    "torch_xla.distributed.parallel_loader.MpDeviceLoader torch_xla.distributed.parallel_loader.ParallelLoader"
)
LOWER_CLASSES = words(
    "torch.profiler.profile torch.autograd.profiler.profile torch.autograd.profiler.emit_nvtx torch.autocast "
    "torch.cuda.amp.autocast torch.profiler.record_function torch.cuda.stream"
)
