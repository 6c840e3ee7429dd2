"""ENV015 native-library-broken."""

from gpudoctor.analysis.job_log.log_check import LogCheck


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

    code = "ENV015"
    log_messages_file = "log_messages.toml"
