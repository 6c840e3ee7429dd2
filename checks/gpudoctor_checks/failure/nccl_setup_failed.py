"""FAIL008 nccl-setup-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Bearing, Code, Confidence, LogMessage
from gpudoctor_checks.failure.kernel_messages import KERNEL_NETWORK
from gpudoctor_checks.failure.nccl_warnings import NCCL_WARNINGS

_UNANSWERED = r" from peer \S{1,80} with (?:status|error)(?:=|: ?| )1[23]\b"
"""A peer that did not answer until the retries were used up: its process may have died before."""


class NcclSetupFailed(LogCheck):
    """NCCL could not connect the GPUs.

    What it finds:
        A job that died in NCCL itself:
        - a system call or a socket
        - InfiniBand
        - shared memory
        - mixed versions
        - an invalid use of the communicator
        - two ranks that use one GPU
    Why it hurts:
        All ranks die, and PyTorch prints one generic sentence for many reasons.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Plugins that NCCL does not find are normal. An error of NCCL after an error of a rank is a consequence.
    Remedies:
        Read the first NCCL WARN line; choose the interface that works.
    References:
        - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
        - https://github.com/NVIDIA/nccl-tests/issues/166
    """

    code = Code("FAIL008")
    name = "nccl-setup-failed"
    log_messages = (
        LogMessage(
            kind="duplicate",
            cue="duplicate gpu detected",
            pattern=r"Duplicate GPU detected ?: rank (?P<one>\d+) and rank (?P<other>\d+) both on CUDA device "
            r"(?P<device>\w+)",
            text="Ranks {one} and {other} use the same GPU ({device}).",
            everywhere=True,
            source="NCCL src/init.cc",
        ),
        LogMessage(
            kind="ib-peer",
            cue="got completion",
            pattern=rf"NET/IB ?: Got completion{_UNANSWERED}",
            text="NCCL's InfiniBand transfer to a peer was not answered: its process or the link is gone.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="NCCL: net_ib.cc; ibv_wc_status 12 and 13: the retries are exceeded",
        ),
        LogMessage(
            kind="ib",
            cue=("net/ib", "ibv_", "got completion"),
            pattern=rf"NCCL WARN .{{0,60}}(?:NET/IB ?:(?!SHARP| Got completion{_UNANSWERED}).{{0,200}}"
            r"(?:error|failed|timed out)|Call to ibv_\w+ failed.{0,120})|"
            rf"NET/IB ?: Got (?:async event|completion(?!{_UNANSWERED})).{{0,200}}(?:error|status)",
            text="NCCL's InfiniBand transport failed: {said}.",
            everywhere=True,
            source="NCCL: net_ib.cc",
        ),
        LogMessage(
            kind="ib",
            cue=("nccl warn error: network",),
            pattern="NCCL WARN Error: network (?P<network>.{1,60}?) not found",
            text="NCCL found no network {network}: NCCL_NET names a plugin that is not there.",
            everywhere=True,
            source="NCCL src/net.cc",
        ),
        LogMessage(
            kind="ib",
            cue=("completed with error. rc", "ucx  error", "ucx error"),
            pattern=r"NET/OFI Request .{1,60}? completed with error\. RC: \d+\. Error: \d+ "
            r"\((?P<ofi>[^)\n]{1,120})\)|UCX  ?ERROR (?P<ucx>[^\n]{5,120})",
            text="The transport between nodes failed[: {ofi}][: {ucx}].",
            everywhere=True,
            source="aws-ofi-nccl; UCX",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="socket",
            cue=("nccl warn",),
            pattern="NCCL WARN .{0,80}(?:[Cc]onnect to .{0,80}(?:failed|refused|timed out|No route)|Call to "
            "(?:connect|bind|recv|send|listen|accept) (?:returned|from|to).{0,120}(?:failed|refused|"
            r"timed out|No route)|socket\w* ?:.{0,80}(?:failed|refused))",
            text="NCCL could not open a socket between ranks: {said}.",
            everywhere=True,
            source="NCCL: socket.cc",
        ),
        LogMessage(
            kind="p2p",
            cue=("peer access is not supported", "cuda ipc handle"),
            pattern="peer access is not supported between|failed to open CUDA IPC handle",
            text="NCCL could not use direct access between two GPUs.",
            everywhere=True,
        ),
        LogMessage(
            kind="version",
            cue=("nccl version mismatch", "mismatched nccl version", "nccl_version"),
            pattern="NCCL version mismatch|[Mm]ismatched NCCL version",
            text="The ranks use different versions of NCCL.",
            everywhere=True,
        ),
        LogMessage(
            kind="last-error",
            cue=("last error:",),
            pattern=r"nccl(?P<result>System|Internal|UnhandledCuda|Invalid\w+)Error: "
            r"[^\n]*\n(?:[^\n]*\n)?\s*Last error:\s*\n(?P<detail>[^\n]{5,200})",
            text="NCCL failed (nccl{result}Error): {detail}.",
        ),
        LogMessage(
            kind="system-error",
            cue=("unhandled system error", "ncclsystemerror"),
            pattern="unhandled system error|ncclSystemError",
            text="NCCL failed in a system call; its own log (NCCL_DEBUG=INFO) names it.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            general=True,
        ),
        LogMessage(
            kind="system-error",
            cue=("call to shm_open failed", "call to ftruncate failed", "call to mmap failed"),
            pattern="NCCL WARN .{0,60}?Call to (?P<call>shm_open|ftruncate|mmap) failed ?:? "
            r"?(?P<why>[A-Z][\w ]{3,60})?",
            text="NCCL failed in a system call ({call})[: {why}].",
            everywhere=True,
            general=True,
            source="NCCL src/misc/shmutils.cc",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="cuda-error",
            cue=("unhandled cuda error", "ncclunhandledcudaerror"),
            pattern="unhandled cuda error|ncclUnhandledCudaError",
            text="NCCL met a CUDA error, often of an earlier operation; its own log (NCCL_DEBUG=INFO) names it.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            general=True,
            source="https://github.com/NVIDIA/nccl/issues/425",
        ),
        LogMessage(
            kind="cuda-error",
            cue=("cuda failure", "hip failure"),
            pattern=r"NCCL WARN (?:Cuda|HIP|hip) failure (?:\d+ )?'(?P<error>(?!out of "
            r"memory)[^'\n]{3,80})'",
            text="NCCL met a CUDA error ({error}); it may be of an earlier operation.",
            everywhere=True,
            general=True,
            source="NCCL src/include/checks.h",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="internal-error",
            cue=("ncclinternalerror", "nccl internal error", "internal error, nccl", "internal error - please report"),
            pattern="ncclInternalError|NCCL internal error|internal error(?: - please report this issue to "
            "the NCCL developers|, NCCL version)",
            text="NCCL failed with an internal error; its own log (NCCL_DEBUG=INFO) says where.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            general=True,
        ),
        LogMessage(
            kind="invalid-usage",
            cue=(
                "nccl error 5",
                "nccl error 4",
                "ncclinvalidusage",
                "ncclinvalidargument",
                "invalid usage",
                "nccl error in",
            ),
            pattern="NCCL Error [45]: invalid (?:usage|argument)|"
            "ncclInvalidUsage|ncclInvalidArgument|NCCL error in.{0,200}invalid (?:usage|argument)",
            text="NCCL refused a call as invalid: often two ranks use one GPU, or communicators are mixed.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            general=True,
        ),
        LogMessage(
            kind="invalid-usage",
            cue=("nccl warn bootstrap root",),
            pattern=r"NCCL WARN Bootstrap Root ?: (?P<why>mismatch in rank count[^\n]{0,60}|rank \d+ "
            r"of \d+ ranks has already checked in)",
            text="The ranks came to NCCL with numbers that do not fit each other: {why}.",
            everywhere=True,
            source="NCCL src/bootstrap.cc",
        ),
        LogMessage(
            kind="not-built",
            cue=(
                "nccl is not available",
                "built with nccl",
                "no nccl",
                "have nccl built",
                "nccl backend is not available",
            ),
            pattern="(?:doesn't|does not) have NCCL built[ -]in|NCCL (?:backend )?is not available|No NCCL",
            text="This torch was built without NCCL.",
        ),
        LogMessage(
            kind="not-built",
            cue=("built in", "built-in"),
            pattern="(?:doesn't|does not) have (?P<backend>MPI|UCC|XCCL|HCCL|GLOO|Gloo) built[ -]in",
            text="This torch was built without {backend}.",
            source="torch/distributed/distributed_c10d.py",
        ),
        LogMessage(
            kind="no-libuv",
            cue="without libuv support",
            pattern=r"use_libuv was requested but PyTorch was buil[dt] without libuv support",
            text="This torch was built without libuv, which its TCPStore asks for.",
            source="torch/csrc/distributed/c10d/TCPStore.cpp: on Windows",
        ),
        *NCCL_WARNINGS,
        *KERNEL_NETWORK,
    )
