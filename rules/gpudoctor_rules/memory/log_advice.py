"""Advice on what a job's log names as the first cause of its death."""

from gpudoctor.model import advise, in_log

ADVICE = (
    advise(
        "MEM009-smaller",
        "Make the step smaller",
        "half the batch size, twice the gradient accumulation",
        "gradient checkpointing; a shorter sequence; bf16; a fused or chunked cross-entropy",
        "gpudoctor estimate --model NAME --gpu CARD   # before the next try",
        when=in_log("size", "library-alloc", "out-of-memory"),
    ),
    advise(
        "MEM009-loading",
        "Put less of the model onto this GPU",
        "torch_dtype=torch.bfloat16, or 4-bit weights; one process a GPU: torch.cuda.set_device(LOCAL_RANK)",
        "FSDP or ZeRO-3 shards it over several GPUs; device_map='auto' for inference",
        when=in_log("loading"),
    ),
    advise(
        "MEM009-optimizer",
        "Make the state of the optimizer smaller",
        "LoRA, an 8-bit optimizer, or FSDP and ZeRO, which shard it",
        "gpudoctor estimate --model NAME --gpu CARD   # weights, gradients and state by themselves",
        when=in_log("optimizer"),
    ),
    advise(
        "MEM009-generation",
        "Reduce what is generated at once",
        "a smaller batch, fewer samples a prompt, a smaller max_new_tokens; images: a smaller size",
        "torch.inference_mode() around it   # no graph is kept",
        when=in_log("generation"),
    ),
    advise(
        "MEM009-xla",
        "Compute less at once, or spread it over more devices",
        "a smaller batch; JAX: jax.lax.map in chunks instead of vmap, jax.checkpoint, sharding",
        "JAX: XLA_PYTHON_CLIENT_MEM_FRACTION only helps if it left memory unused",
        when=in_log("xla"),
    ),
    advise(
        "MEM009-wake",
        "Free the memory of the trainer before vLLM wakes up",
        "offload parameters and optimizer, then torch.cuda.empty_cache(), before wake_up()",
        "a smaller gpu_memory_utilization",
        when=in_log("engine-wake"),
    ),
    advise(
        "MEM009-cache",
        "Raise the engine's share of the GPU, or shorten its sequences",
        "--gpu-memory-utilization   # in TRL: vllm_gpu_memory_utilization; SGLang: --mem-fraction-static",
        "a smaller --max-model-len needs a smaller cache",
        when=in_log("engine-cache"),
    ),
    advise(
        "MEM009-expandable",
        "Let the allocator's segments grow",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   # before the launch",
        when=in_log("fragmented"),
    ),
    advise(
        "MEM009-others",
        "End the other processes on this GPU, or choose another GPU",
        "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
        when=in_log("other-process", "engine-start"),
    ),
    advise(
        "MEM009-engine",
        "Give vLLM a share of the GPU that is free",
        "--gpu-memory-utilization 0.5   # in TRL: vllm_gpu_memory_utilization=0.3 beside the policy",
        when=in_log("engine-start"),
    ),
)
