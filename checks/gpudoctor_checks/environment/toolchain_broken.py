"""ENV017 toolchain-broken."""

from gpudoctor.analysis.job_log.log_check import LogCheck


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

    code = "ENV017"
    log_messages_file = "log_messages.toml"
