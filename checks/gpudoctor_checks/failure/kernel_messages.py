"""What the kernel of a node says of its own failures: crashes, processors, storage and network adapters."""

from gpudoctor.model import Bearing, Confidence, LogMessage

KERNEL_CRASHES = (
    LogMessage(
        kind="node-failure",
        cue=(
            "kernel bug at ",
            "bug: unable to handle",
            "bug: kernel null pointer",
            "oops: ",
            "hard lockup",
            "bug: soft lockup",
            "machine check exception",
            "event severity: fatal",
            "critical temperature reached",
            " ue memory ",
        ),
        pattern=r"(?P<crash>kernel BUG at \S{1,80}|BUG: (?:unable to handle|kernel NULL pointer).{0,80}|"
        r"Oops: \d{1,8} \[#1\]|Watchdog detected hard LOCKUP on cpu \d{1,5}|"
        r"BUG: soft lockup - CPU#\d{1,5} stuck for \d{1,6}s|Machine Check Exception: .{0,60}|"
        r"\[Hardware Error\]: event severity: fatal|critical temperature reached|"
        r"EDAC \w{1,8}: \d{1,6} UE memory .{0,60})",
        text="The kernel reports a failure of the node: {crash}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        source="Linux arch/x86/kernel, kernel/watchdog.c, lib/bug.c, drivers/edac, drivers/acpi/apei",
    ),
)
"""Of FAIL002."""

KERNEL_STORAGE = (
    LogMessage(
        kind="storage",
        cue=(
            "ext4-fs error (device",
            "shutting down filesystem",
            "buffer i/o error on dev",
            " timeout, aborting",
            "btrfs error (device",
            "btrfs: error (device",
            " forced readonly",
        ),
        pattern=r"EXT4-fs error \(device (?P<device>[\w-]{1,40})\)|"
        r"XFS \((?P<xfs>[\w-]{1,40})\): .{0,80}Shutting down "
        r"filesystem|Buffer I/O error on dev (?P<disk>(?!fd\d|sr\d|loop\d)[\w-]{1,40})|"
        r"nvme (?P<nvme>nvme\d{1,3}): I/O .{1,60} timeout, aborting|"
        r"BTRFS:? error \(device (?P<volume>[\w-]{1,40}).{0,80}(?:errs: wr [1-9]|forced readonly|"
        r"corrupt [1-9])",
        text="The storage of this machine failed[: {device}][: {xfs}][: {disk}][: {nvme}][: {volume}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        general=True,
        source="Linux fs/ext4, fs/xfs, fs/btrfs, fs/buffer.c, drivers/nvme",
    ),
    LogMessage(
        kind="storage",
        cue=" blocked for more than ",
        pattern=r"INFO: task (?P<program>(?:python|pt_|torchrun|"
        r"ray)[\w.:/-]{0,40}):\d{1,8} blocked for more than "
        r"(?P<seconds>\d{1,6}) seconds",
        text="Process {program} waited in the kernel for more than {seconds} s, usually for storage.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        general=True,
        source="Linux kernel/hung_task.c",
    ),
)
"""Of FAIL016."""

KERNEL_NETWORK = (
    LogMessage(
        kind="ib-kernel",
        cue=(
            "health_recovery_work",
            "device's health compromised",
            "dump error cqe",
            ") timed out",
            " timed out",
            "device is not responding",
        ),
        pattern=r"(?P<adapter>mlx[45]_core \S{1,20}|infiniband \w{1,20}|irdma \S{1,20}|bnxt_re \S{1,20}): "
        r"(?:.{0,60}(?:health_recovery_work|device's health compromised|dump error cqe|"
        r"device is not responding))|"
        r"NETDEV WATCHDOG: (?P<interface>\S{1,30}).{0,60}transmit queue \d{1,4} timed out",
        text="The kernel reports that a network adapter failed[: {adapter}][: {interface}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        general=True,
        source="Linux drivers/net/ethernet/mellanox/mlx5, drivers/infiniband/hw, net/sched/sch_generic.c",
    ),
)
"""Of FAIL008."""
