"""FAIL009 cuda-library-error."""

from gpudoctor.analysis.job_log.cuda_words import call_failed, check_failed
from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Bearing, Code, Confidence, LogMessage


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
    log_messages = (
        LogMessage(
            kind="cublas",
            cue="cublas_status",
            pattern="(?P<status>CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|INVALID_VALUE|NOT_SUPPORTED|"
            "ARCH_MISMATCH|MAPPING_ERROR))",
            text="A cuBLAS call failed ({status}).",
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="cublas",
            cue=(
                "cublas_status_not_initialized",
                "unable to find a valid cudnn algorithm",
                "cudnn_status_not_initialized",
            ),
            pattern="CUBLAS_STATUS_NOT_INITIALIZED.{0,40}(?:cublasCreate)?|[Uu]nable to find a valid cuDNN "
            "algorithm|CUDNN_STATUS_NOT_INITIALIZED",
            text="A CUDA library could not start: usually the GPU has no memory left for it.",
            confidence=Confidence.PROBABLE,
            general=True,
            source="https://github.com/QwenLM/Qwen/issues/120",
        ),
        LogMessage(
            kind="cublas",
            cue=("failed to create cublas handle", "could not create cudnn handle"),
            pattern=r"(?:failed to create cublas|[Cc]ould not create cudnn) handle: (?P<status>[^\n]{3,80})",
            text="A CUDA library could not start ({status}): usually the GPU has no memory left for it.",
            everywhere=True,
            source="tensorflow/stream_executor/cuda: cuda_blas.cc, cuda_dnn.cc",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="cublas",
            cue=("gemm launch failed", "gemmbatched launch failed", "failed to run cublas routine"),
            pattern=r"Blas [A-Z]?GEMM(?:Batched)? launch failed|"
            r"failed to run cuBLAS routine: (?P<status>CUBLAS_STATUS_\w+)",
            text="A matrix multiplication of cuBLAS failed[ ({status})].",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="tensorflow/core/kernels/matmul_op.cc, stream_executor/cuda/cuda_blas.cc",
        ),
        LogMessage(
            kind="xla",
            cue="dnn library initialization failed",
            pattern="DNN library initialization failed",
            text="XLA could not start cuDNN: usually memory is short, or the libraries do not fit each other.",
            confidence=Confidence.PROBABLE,
            source="xla/stream_executor/cuda/cuda_dnn.cc: JAX",
        ),
        LogMessage(
            kind="cudnn",
            cue=("cudnn_status", "cudnn error", "unable to find an engine", "cudnn failed to initialize"),
            pattern=r"(?P<status>CUDNN_STATUS_(?!ALLOC_FAILED|NOT_INITIALIZED)\w+)|unable to find an engine "
            "to execute this computation|cuDNN failed to initialize",
            text="A cuDNN call failed[ ({status})]: usually memory is short, or the libraries do not fit each other.",
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="other",
            cue=(
                "hipblas_status",
                "miopenstatus",
                "hipfft_",
                "rocblas_status",
                "cusolver error",
                "cufft error",
                "cusparse_status",
                "nvrtc error",
                "curand_status",
                "cusolver_status",
                "cufft_",
            ),
            pattern=r"(?P<rocm>HIPBLAS_STATUS_(?!ALLOC_FAILED)\w+|miopenStatus\w+|HIPFFT_\w+|"
            r"rocblas_status_\w+)|"
            r"(?P<status>CUSOLVER_STATUS_\w+|CUFFT_\w+|CUSPARSE_STATUS_\w+|cusolver error|cuFFT error)",
            text="A CUDA library call failed[ ({status})][ ({rocm})].",
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="cuda-error",
            cue=(
                "hip error:",
                "cuda error (",
                "npu error, error code is",
                "cuda error:",
                "cuda failure",
                "cuda driver error",
                "failed with error ",
            ),
            pattern=r"cudaSuccess\).{0,120}? failed with error (?P<call>[a-z][^\n'\"]{3,80})|"
            "HIP error: (?P<hip>(?!out of memory|device-side|no kernel image|an illegal|"
            r"invalid device|misaligned|unspecified launch)[a-z][^\n]{3,120})|CUDA error "
            r"\([^)\n]{1,300}\): (?P<at>(?!out of memory|an illegal|misaligned|unspecified "
            r"launch)[a-z][^\n]{3,120})|NPU error, error code is (?P<code>\d+)|"
            "CUDA (?:driver )?error: (?P<error>(?!out of memory|device-side|no kernel image|an "
            r"illegal|invalid device|misaligned|unspecified launch)[a-z][^\n]{3,120})",
            text="A CUDA call failed[: {error}][: {hip}][: {at}][: {call}][: error code {code}].",
            confidence=Confidence.PROBABLE,
            general=True,
        ),
        LogMessage(
            kind="cuda-error",
            cue=(
                "invalid argument",
                "initialization error",
                "driver shutting down",
                "invalid configuration argument",
                "invalid device symbol",
                "invalid resource handle",
                "invalid device context",
                "launch timed out",
                "too many resources requested",
                "peer access",
                "operation not supported",
                "operation not permitted",
                "named symbol not found",
                "unknown error",
                "mps client",
                "call between the mps",
                "device not ready",
                "part or all of the requested memory",
                "invalid cluster configuration",
                "stream is capturing",
            ),
            pattern=call_failed(
                r"(?P<error>invalid (?:argument|configuration argument|device symbol|resource handle|"
                r"device context|cluster configuration)|initialization error|driver shutting down|"
                r"the launch timed out|too many resources requested|peer access (?:is not supported|"
                r"has not been)|operation not (?:supported|permitted)|named symbol not found|unknown error|"
                r"MPS client|the remote procedural call between the MPS|device not ready|"
                r"part or all of the requested memory)"
            ),
            text="A CUDA call failed[: {error}].",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            general=True,
            closing=True,
            source="CUDA driver_types.h, HIP; how C++ programs print it",
        ),
        LogMessage(
            kind="cuda-error",
            cue=("success (", ": cudamalloc failed: unknown error", "failed to get ptx kernel "),
            pattern=check_failed(r"(?!(?:2|4|8|10|35|38|46|48|77|98|100|101|209|700|71[0-9]) )\d{1,4}")
            + r"(?: {1,4}(?P<error>[a-z][^\n]{3,80}))?|"
            r"\.h:\d{1,5}: cudaMalloc failed: (?P<said_by>unknown error)|"
            r"failed to get PTX kernel .{1,200}? from module: (?P<status>CUDA_ERROR_\w{1,40})",
            text="A CUDA call failed[: {error}][: {said_by}][: {status}].",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="Caffe src/caffe, MXNet src/storage: glog's CHECK; XLA stream_executor/cuda",
        ),
        LogMessage(
            kind="other",
            cue=("_status_success (",),
            pattern=r"Check failed: [^\n]{1,160}?== ?(?P<library>CUBLAS|CUDNN|CURAND|CUSPARSE|CUSOLVER)_STATUS_"
            r"SUCCESS \((?P<status>\d{1,4}) vs\. 0\)",
            text="A CUDA library call failed ({library}, status {status}).",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="Caffe include/caffe/util/device_alternate.hpp, MXNet: glog's CHECK",
        ),
        LogMessage(
            kind="npu",
            cue=(
                "launch kernel failed: ",
                "run task error",
                "run task for graph",
                "ascend error message",
                "9999: inner error",
                "kernel execute failed, ",
                "aicpu exception",
            ),
            pattern=r"Launch kernel failed: (?P<operation>\S{1,200})|\] RunGraph\] run task error|"
            r"Run task for graph:\s?(?P<graph>\S{1,80}) error|details refer to 'Ascend Error Message'|"
            r"^E[0-9A-Z]9999: Inner Error|(?:Aicpu|AI ?[Cc]ore|Vector) kernel execute failed, |"
            r"reason=\[aicpu exception\]",
            text="The NPU could not run a kernel[ ({operation})][ ({graph})].",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="MindSpore ccsrc/runtime, ccsrc/plugin/device/ascend; CANN: E39999, EZ9999, EE9999",
        ),
        LogMessage(
            kind="cudnn",
            cue=("kernel launch failed |",),
            pattern=r"Kernel launch failed \|[^\n]{1,80}?(?P<status>CUDNN_STATUS_\w{1,40})",
            text="A cuDNN call failed[ ({status})]: usually memory is short, or the libraries do not fit each other.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="MindSpore ccsrc/plugin/device/gpu",
        ),
        LogMessage(
            kind="other",
            cue=("_status_", "miopenstatus", "cufft_", "hipfft_", "nvrtc_error_"),
            pattern=r"^(?!.*(?:Triggered internally|Plan failed|Warning))(?:.{0,100}\b(?:[Ee]rror|ERROR|"
            r"[Ff]ailed|FATAL)\b"
            r".{0,100}?)?\b(?P<status>(?:CUBLAS|CUDNN|CUSPARSE|CUSOLVER|CURAND|NVJPEG|HIPBLAS|ROCBLAS|HSA|"
            r"rocblas)_"
            r"(?:STATUS|status)_(?!SUCCESS|success)\w{3,60}|(?:CUFFT|HIPFFT|NVRTC_ERROR)_\w{3,60}|"
            r"miopenStatus(?!Success)\w{3,60})",
            text="The last line names a failed call of a CUDA library ({status}).",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.SUSPECTED,
            everywhere=True,
            general=True,
            last=True,
            source="Caffe, Torch and other C++ programs",
        ),
    )
