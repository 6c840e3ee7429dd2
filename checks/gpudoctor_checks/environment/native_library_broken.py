"""ENV015 native-library-broken."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Bearing, Code, LogMessage


class NativeLibraryBroken(LogCheck):
    """A native library is missing or does not fit.

    What it finds:
        A job that died while it loaded a compiled library:
        - a missing shared object
        - an undefined symbol
        - a version of glibc that the system lacks
        - bitsandbytes or flash-attn without a matching binary
    Why it hurts:
        The program cannot start, and the message names a symbol instead of the package.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        An import that failed and was caught is not a death.
    Remedies:
        Install or build the package for this torch, CUDA and system.
    References:
        - https://github.com/Dao-AILab/flash-attention/issues/975
        - https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1056
    """

    code = Code("ENV015")
    name = "native-library-broken"
    log_messages = (
        LogMessage(
            kind="bitsandbytes",
            cue=(
                "configured cuda binary not found",
                "configured rocm binary not found",
                "bitsandbytes",
                "libbitsandbytes",
                "cquantize",
                "cadam32bit",
                "cuda setup failed",
                "cget_col_row_stats",
                "csrc",
                "compiled without gpu support",
                "attribute 'cadam",
                "attribute 'cget",
                "attribute 'cdequantize",
                "attribute 'csgemm",
            ),
            pattern=r"Configured (?:CUDA|ROCm) binary not found|"
            "CUDA Setup failed despite GPU being available|compiled without GPU support|'NoneType' "
            r"object has no attribute '(?:cquantize|cadam|cget|cdequantize|csgemm)\w*'|"
            r"libbitsandbytes\w*\.so: (?:undefined symbol|cannot open)|bitsandbytes.{0,120}(?:not "
            "compiled|requires (?:the latest|accelerate)|library .{0,40}not found|Configured "
            ".{0,30}not found)|Could not find the bitsandbytes CUDA binary",
            text="bitsandbytes has no library for this CUDA installation.",
            source="https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1056",
        ),
        LogMessage(
            kind="bitsandbytes-warned",
            cue=("libbitsandbytes_cpu", "compiled without gpu support"),
            pattern="[Dd]efaulting to libbitsandbytes_cpu|bitsandbytes was compiled without GPU support",
            text="bitsandbytes fell back to its library without GPU support.",
            bearing=Bearing.HINT,
            everywhere=True,
            explains="NoneType|bitsandbytes|8bit|4bit|cquantize|cadam|quant|Int8|invalid",
        ),
        LogMessage(
            kind="library-warned",
            cue="failed to import from ",
            pattern=r"Failed to import from \S{1,80} with ImportError\(['\"]"
            r"(?P<library>[\w.+-]{1,80}\.so[\w.]{0,20}): cannot",
            text="A native library is missing or cannot be loaded: {library}.",
            bearing=Bearing.HINT,
            everywhere=True,
            explains=r"Tried to instantiate class '_|has no attribute '_?\w{0,20}_?C|'_OpNamespace'",
            source="vllm/_custom_ops.py",
        ),
        LogMessage(
            kind="library-warned",
            cue="could not load library",
            pattern=r"Could not load library (?P<library>\S+?)\.? Error: ",
            text="A native library is missing or cannot be loaded: {library}.",
            bearing=Bearing.HINT,
            everywhere=True,
            explains=r"[Aa]borted|SIGABRT|[Ss]ignal 6\b|exit ?code: -6\b",
            source="cuDNN: its own loader, which then aborts",
        ),
        LogMessage(
            kind="undefined-symbol",
            cue="undefined symbol",
            pattern=r"(?:(?P<library>[\w.-]{1,100}?"
            r"\.so[\w.]{0,20}): )?undefined symbol: (?P<symbol>\w+)",
            text="A native library[ ({library})] was built against another version of a library that it "
            "uses: undefined symbol {symbol}.",
            source="https://github.com/Dao-AILab/flash-attention/issues/975",
        ),
        LogMessage(
            kind="glibc",
            cue=("glibc", "glibcxx", "cxxabi"),
            pattern=r"version `?(?P<version>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)'? not found",
            text="A binary needs {version}, which this system does not have.",
        ),
        LogMessage(
            kind="missing-library",
            cue="libdevice not found at",
            pattern=r"libdevice not found at (?P<library>\S{1,200})",
            text="XLA does not find the files of the CUDA toolkit: {library}.",
            source="xla/service/gpu/llvm_gpu_backend: XLA_FLAGS=--xla_gpu_cuda_data_dir names their folder",
        ),
        LogMessage(
            kind="missing-library",
            cue="or one of its dependencies",
            pattern=r"^(?!.*WinError 1455)(?s:.*?)"
            r"Error loading \\{0,2}\"?(?:[^\"\n]{0,300}[\\/])?(?P<library>[\w.+-]{1,80}\.dll)\\?\" "
            "or one of its dependencies",
            text="A native library is missing or cannot be loaded: {library}, or one that it needs.",
            everywhere=True,
            closing=True,
            source="torch/__init__.py on Windows",
        ),
        LogMessage(
            kind="missing-library",
            cue=(
                "libcuda.so cannot found",
                "libcuda.so cannot be found",
                "cannot open shared object file",
                "unable to load any of",
                "could not load library",
                "failed to open libnvrtc",
                "dll load failed",
                "winerror 126",
                "winerror 127",
                "winerror 1114",
                "error loading",
                "image not found",
                "library not loaded",
                "symbol not found",
                "could not find module",
                "winerror 193",
            ),
            pattern=r"libcuda\.so cannot (?:be )?found|"
            r"(?:(?P<library>lib[\w+.-]{1,80}?\.so[\w.]{0,20}): )?cannot open shared object file|"
            r"[Uu]nable to load any of \{?(?P<any>lib\w+)|[Cc]ould not load library (?P<lib>\S+?)\.? |"
            r"failed to "
            r"open (?P<nvrtc>libnvrtc\S+)|DLL load failed|\[WinError (?:126|127|1114|193)\]|Library "
            "not loaded|Symbol not found|Could not find module",
            text="A native library is missing or cannot be loaded[: {library}][: {any}][: {lib}][: {nvrtc}].",
            general=True,
        ),
        LogMessage(
            kind="missing-library",
            cue="error while loading shared libraries: ",
            pattern=r"^\S{1,300}: error while loading shared libraries: (?P<library>[^\s:]{1,100}): ",
            text="A native library is missing or cannot be loaded[: {library}].",
            everywhere=True,
            closing=True,
            source="glibc elf/dl-error-skeleton.c",
        ),
        LogMessage(
            kind="cudnn-version",
            cue=("cudnn version incompatibility", "version_mismatch"),
            pattern="cuDNN version incompatibility|VERSION_MISMATCH",
            text="Another cuDNN than the one that torch was built for is found first.",
        ),
        LogMessage(
            kind="openmp",
            cue=("omp: error #15",),
            pattern=r"OMP: Error #15: Initializing (?P<library>\S{1,100}), but found "
            r"(?P<other>\S{1,100}) already initialized",
            text="Two copies of the OpenMP runtime were loaded into one process: {library} and {other}.",
            everywhere=True,
            source="LLVM openmp/runtime/src/i18n/en_US.txt: DuplicateLibrary",
        ),
    )
