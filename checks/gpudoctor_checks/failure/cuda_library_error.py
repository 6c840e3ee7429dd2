"""FAIL009 cuda-library-error."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class CudaLibraryError(LogCheck):
    """A CUDA library call failed.

    What it finds:
        A job that died of an error of cuBLAS, cuDNN, cuSOLVER, cuFFT or the CUDA runtime. The error has no more
        precise name.
    Why it hurts:
        The message hides the reason: often memory is short, or an earlier kernel used a bad index.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Errors that name memory, an index or the architecture belong to their own checks.
    Remedies:
        Try a smaller batch to exclude memory, then search for the index with CUDA_LAUNCH_BLOCKING=1.
    References:
        - https://docs.nvidia.com/cuda/cublas/index.html
        - https://github.com/QwenLM/Qwen/issues/120
    """

    code = Code("FAIL009")
    name = "cuda-library-error"
    log_messages_file = "cuda_messages.toml"
