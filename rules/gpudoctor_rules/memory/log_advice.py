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
        "a smaller --max-model-len needs a smaller cache",
        when=in_log("engine-start"),
    ),
)
