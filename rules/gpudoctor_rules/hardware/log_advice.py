"""Advice on what a job's log names as the first cause of its death."""

from gpudoctor.model import advise, in_log

ADVICE = (
    advise(
        "GPU003-replace",
        "Take the node out of service, and reset or replace the GPU",
        "nvidia-smi -q -d ECC,ROW_REMAPPER",
        "resubmit without it: sbatch --exclude=NODE",
        when=in_log("ecc"),
    ),
    advise(
        "GPU004-node",
        "Resubmit without this node, and report it",
        "sbatch --exclude=NODE ...   # the node: see the log's host name",
        "dmesg | grep -i xid; nvidia-bug-report.sh",
        when=in_log("off-the-bus", "xid", "nvlink", "gpu-hang"),
    ),
    advise(
        "GPU004-reset",
        "Reset the GPU, or reboot the node, and resubmit elsewhere until then",
        "nvidia-smi --gpu-reset -i INDEX   # as root, with no process on that GPU",
        "sbatch --exclude=NODE ...",
        when=in_log("reset-required"),
    ),
    advise(
        "GPU004-program",
        "Look for the fault in the program first",
        "Xid 13, 31, 43: CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer on the failing step",
        when=in_log("xid-program"),
    ),
    advise(
        "GPU007-busy",
        "Free the GPU, or use another one",
        "nvidia-smi -q -d COMPUTE,PIDS   # the compute mode, and who uses each GPU",
        "if no process is listed: the GPU hangs, and needs a reset by an administrator",
        when=in_log("busy"),
    ),
)
