"""ENV017 toolchain-broken."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Bearing, Code, Confidence, LogMessage


class ToolchainBroken(LogCheck):
    """A native extension could not be compiled.

    What it finds:
        A job that died because an extension or a DeepSpeed operation could not be compiled at run time:
        - no CUDA toolkit
        - another CUDA version than torch's
        - no compiler, or an error of the compiler
    Why it hurts:
        The program cannot start; the real error is far above the last line.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A build that failed and was followed by training is not a death.
    Remedies:
        Install the toolkit and the compiler that fit torch, or a package that is built already.
    References:
        - https://github.com/deepspeedai/DeepSpeed/issues/1077
    """

    code = Code("ENV017")
    name = "toolchain-broken"
    log_messages = (
        LogMessage(
            kind="cuda-home",
            cue=("nvcc'", "cuda_home", "missingcudaexception", "nvcc was not found", "failed to find nvcc"),
            pattern=r"Failed to find nvcc|No such file or directory: '\S{0,200}nvcc'|"
            "CUDA_HOME (?:environment variable is not set|does not exist)|MissingCUDAException|nvcc "
            "was not found",
            text="CUDA_HOME is not set, or no CUDA toolkit is installed. An extension cannot be compiled.",
        ),
        LogMessage(
            kind="op-build",
            cue=("no such file or directory: '", "command '['which'"),
            pattern=r"No such file or directory: '(?P<program>ninja|g\+\+|gcc|cc|c\+\+|clang|cmake|make)'|"
            r"Command '\['which', '(?P<compiler>[\w+]{1,20})'\]' returned non-zero",
            text="The node lacks [{program}][{compiler}], which compiles an extension.",
            source="torch/utils/cpp_extension.py, triton/runtime/build.py, deepspeed/ops/op_builder",
        ),
        LogMessage(
            kind="cuda-version",
            cue=("detected cuda version", "installed cuda version", "cudamismatchexception"),
            pattern=r"detected CUDA version \((?P<toolkit>[\d.]+)\) mismatches the version that was used to "
            r"compile\s+PyTorch \((?P<torch>[\d.]+)\)|Installed CUDA version (?P<installed>[\d.]+) "
            r"does not match the version torch was compiled with (?P<built>[\d.]+)|"
            "CUDAMismatchException",
            text="The CUDA toolkit differs from the CUDA version of torch[ ({toolkit} and {torch})][ "
            "({installed} and {built})]. An extension cannot be compiled.",
        ),
        LogMessage(
            kind="host-compiler",
            cue=(
                "unsupported gnu version",
                "unsupported microsoft visual studio",
                "visual c++ 14",
                "gcc versions later",
                "command '",
                "no such file or directory: 'g++'",
                "no such file or directory: 'gcc'",
                "no such file or directory: 'c++'",
            ),
            pattern=r"unsupported (?:GNU|Microsoft Visual Studio) version|Visual C\+\+ 14\.0 (?:or greater "
            r")?is required|command '\S*(?:gcc|g\+\+|cl\.exe)\S*' failed|No such file or directory: "
            r"'(?:g\+\+|gcc|c\+\+)'",
            text="The C++ compiler is missing, or does not fit this CUDA toolkit.",
        ),
        LogMessage(
            kind="host-compiler",
            cue=("command '['",),
            pattern=r"Command '\['[^']{0,200}(?:gcc|g\+\+|clang\+*|/cc|cl\.exe)', .{0,3000}returned "
            "non-zero exit status",
            text="The C compiler that Triton or torch.compile started has failed: its own message names the reason.",
            source="triton/runtime/build.py",
        ),
        LogMessage(
            kind="op-build",
            cue=(": fatal error: ", "/ld: cannot find -l", "collect2: error: ld returned", "nvcc fatal "),
            pattern=r"^[^\s:]{1,300}:\d{1,7}(?::\d{1,5})?: fatal error: (?P<header>\S{1,200}): No such file or "
            r"directory|/ld: cannot find -l(?P<library>\w{1,60})|collect2: error: ld returned \d|"
            r"nvcc fatal {1,4}: ",
            text="A native extension could not be compiled[: {header} is missing][: lib{library} is missing].",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            general=True,
            closing=True,
            source="gcc, ld, nvcc",
        ),
        LogMessage(
            kind="op-build",
            cue=(
                "extension horovod",
                "error building extension",
                "unable to jit load",
                "ds_opt_adam",
                "error compiling objects for extension",
                "ninja: build stopped",
                "ninja is required",
                "'ninja', '-v'",
                "nvcc fatal",
                "failed building wheel",
                "failed to build installable wheels",
                "could not build wheels",
                "nvcc' failed",
                "failed to build",
            ),
            pattern=r"Extension horovod\.\w+ has not been built|"
            r"Error building extension '?(?P<extension>\w*)'?|[Uu]nable to JIT load the (?P<op>\w+) "
            "op|has no attribute 'ds_opt_adam'|Error compiling objects for extension|ninja: build "
            "stopped|Ninja is required|'ninja', '-v'.{0,80}returned non-zero|nvcc fatal|[Ff]ailed "
            "(?:building wheel|to build)|[Cc]ould not build wheels|nvcc' failed",
            text="A native extension could not be compiled[: {extension}][: {op}].",
            general=True,
            source="https://github.com/deepspeedai/DeepSpeed/issues/1077",
        ),
    )
