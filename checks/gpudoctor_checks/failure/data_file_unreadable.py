"""FAIL016 data-file-unreadable."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code, Confidence, LogMessage
from gpudoctor_checks.failure.container_messages import CONTAINERS
from gpudoctor_checks.failure.kernel_messages import KERNEL_STORAGE


class DataFileUnreadable(LogCheck):
    """A data file is missing, damaged or forbidden.

    What it finds:
        A job that died because of a file. The file is missing on this node, damaged, empty, unreadable, or
        cannot be parsed.
    Why it hurts:
        One file of a million ends the run, often hours after its start.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A missing optional file that the program passes over is not a death.
    Remedies:
        Check the path on the compute node; leave damaged files out.
    References:
        - https://pytorch.org/docs/stable/data.html
    """

    code = Code("FAIL016")
    name = "data-file-unreadable"
    log_messages = (
        *CONTAINERS,
        LogMessage(
            kind="missing",
            cue=(
                "lmdb.error",
                "no such file or directory",
                "filenotfounderror",
                "errno 2]",
                "not found: ",
                "does not exist",
            ),
            pattern=r"^lmdb\.Error: (?P<lmdb>[^:\n]{1,300}): No such file|"
            r"FileNotFoundError: (?:\[Errno 2\] )?(?:No such file or directory: "
            r"""?)?['\"]?(?P<file>[^'\"\n]{1,200})|No such file or directory: """
            r"""['\"]?(?P<path>[^'\"\n]{1,200})|(?:file|folder|directory|path) .{0,100}does not exist|"""
            r"NotFoundError: (?:[^\n]{0,80}root error[^\n]{0,20}\n\s*\(0\) Not found:\s+)?"
            r"(?P<image>[^;\n]{1,300}); No such file or directory",
            text="A file is missing[: {file}][: {path}][: {image}].",
            general=True,
        ),
        LogMessage(
            kind="missing",
            cue=(
                "isadirectoryerror",
                "notadirectoryerror",
            ),
            pattern="IsADirectoryError|NotADirectoryError",
            text="A path leads to a folder where a file is expected, or to a file where a folder is.",
            general=True,
            source="errno.h: EISDIR, ENOTDIR",
        ),
        LogMessage(
            kind="missing",
            cue=("cannot open <",),
            pattern=r"luajit: (?:\S+: )?cannot open <(?P<file>[^>\n]{1,300})> in mode r\b",
            text="A file cannot be opened: {file}.",
            everywhere=True,
            source="torch7 lib/TH/THDiskFile.c",
        ),
        LogMessage(
            kind="program",
            cue=(
                "can't open file",
                "can't find '__main__'",
                "execve()",
                ": permission denied",
                ": no such file",
            ),
            pattern=r"^\S*python[\d.]*: can't open file '?(?P<file>[^'\n]{1,300}?)'?: \[Errno|"
            r"^\S*python[\d.]*: can't find '__main__' module in '?(?P<folder>[^'\n]{1,300})|"
            r"error: execve\(\): (?P<program>\S+): (?:No such file|Permission denied)|"
            r"^(?:\S*/)?(?:ba|da|z|k)?sh: (?:line )?(?:\d+: )?(?P<script>\S+\.(?:sh|py)): (?:No such file|"
            "Permission denied)",
            text="The program that the job starts cannot be opened[: {file}][: {folder}][: {program}][: "
            "{script}].",
            everywhere=True,
            closing=True,
            source="python, bash, slurmstepd",
        ),
        LogMessage(
            kind="program",
            cue=(
                "executable file not found in $path",
                "no such file or directory",
                ": permission denied",
            ),
            pattern=r"(?:unable to start container process|starting container process caused)[^\n]{0,100}?"
            r"exec: \\?\"(?P<program>[^\"\\]{1,200})\\?\": (?:executable file not found in \$PATH|"
            r"stat \S+ no such file or directory|permission denied)",
            text="The program that the job starts cannot be opened: {program}.",
            everywhere=True,
            outside=True,
            source="runc: libcontainer/standard_init_linux.go",
        ),
        LogMessage(
            kind="program",
            cue=(
                "was unable to find the specified",
                "was unable to launch the specified",
            ),
            pattern="(?:mpirun|mpiexec|prterun) was unable to (?:find the specified executable|"
            "launch the specified application)",
            text="mpirun could not open the program that the job starts.",
            everywhere=True,
            closing=True,
            source="Open MPI help-orterun.txt",
        ),
        LogMessage(
            kind="volume",
            cue=(
                "failedmount",
                "failedattachvolume",
                "failedmapvolume",
                "mount volumes",
                "mountvolume.",
                "attachvolume.",
                "mapvolume.",
            ),
            pattern=r"\bWarning\s{1,20}Failed(?:Mount|AttachVolume|MapVolume)\b(?:.*?(?:unmounted volumes=\[|"
            r"for volume \"|unattached/unmounted volumes=\[)(?P<volume>[^\]\"]{1,200}))?|"
            r"^(?:Unable to (?:attach or )?mount volumes(?: for pod|:)|"
            r"(?:Mount|Attach|Map)Volume\.\w{1,20} failed for volume \"(?P<other>[^\"]{1,200}))",
            text="Kubernetes could not mount a volume of the pod[: {volume}][: {other}].",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            outside=True,
            undone=r"\bNormal\s.{0,60}\b(?:Pulling|Pulled|Created|Started)\s|"
            r"Volume\.\w{1,20} succeeded for volume|[Ss]tarted container\b",
            source="Kubernetes pkg/kubelet/kubelet.go, pkg/controller/volume: events, which come again",
        ),
        LogMessage(
            kind="pod-config",
            cue=(
                "createcontainerconfigerror",
                'error: secret "',
                'error: configmap "',
                "error: couldn't find key",
            ),
            pattern=r"\bWarning\s.{0,200}Error: (?P<what>(?:secret|configmap) \"[^\"]{1,200}\" not found|"
            r"couldn't find key \S{1,200} in \w{1,20} \S{1,200})|"
            r"(?:[Rr]eason[\"']?[:=] *[\"']?|\b\d+/\d+ {1,20})CreateContainerConfigError\b",
            text="Kubernetes could not start the container[: {what}]: its pod names a secret or a ConfigMap "
            "that is not there.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            unstarted=True,
            outside=True,
            undone=r"\bNormal\s.{0,60}\bStarted\s|[Ss]tarted container\b",
            source="Kubernetes pkg/kubelet/kuberuntime",
        ),
        LogMessage(
            kind="job-script",
            cue="syntax error",
            pattern=r"^\S+: (?:line )?(?P<line>\d+): syntax error(?:: unexpected\b|:? near unexpected\b)|"
            r"^\S+: \d+: Syntax error: |^(?:/bin/)?sh: syntax error: unexpected\b",
            text="The shell stopped at a syntax error in the job script[, line {line}].",
            everywhere=True,
            closing=True,
            source="bash, dash, busybox",
        ),
        LogMessage(
            kind="any-program",
            cue=(
                ": no such file or directory",
                ": permission denied",
                ": not found",
                "bad interpreter",
                ": cannot execute",
            ),
            pattern=r"^\S+: (?:line )?(?:\d+: )?(?P<program>[^\s:]{0,300}/[^\s:]{0,300}): (?:No such file or "
            r"directory|not found|Permission denied|cannot execute\b.{0,80}|(?P<interpreter>\S{1,200}): bad "
            r"interpreter\b.{0,80})\s*$",
            text="The shell could not start {program}[: its interpreter {interpreter} is not there].",
            everywhere=True,
            general=True,
            exits=(126, 127),
            source="bash, dash",
        ),
        LogMessage(
            kind="image",
            cue=(
                "cannot identify image file",
                "image file is truncated",
                "broken data stream",
                "truncated file read",
                "unidentifiedimageerror",
                "!ssize.empty()",
                "broken png",
                "decompressionbomb",
            ),
            pattern="cannot identify image file|image file is truncated|broken data stream|[Tt]runcated "
            r"[Ff]ile [Rr]ead|UnidentifiedImageError|!ssize\.empty\(\)|broken PNG|DecompressionBomb",
            text="An image file is damaged or is not an image.",
        ),
        LogMessage(
            kind="parse",
            cue=(
                "jsondecodeerror",
                "error tokenizing data",
                "arrowinvalid",
                "json parse error",
                "datasetgeneration",
                "parsererror",
                "datasetgenerationerror",
                "could not convert string to float",
                "yaml",
                "expecting value",
                "extra data",
                "casterror",
                "scannererror",
            ),
            pattern="JSONDecodeError|Error tokenizing data|ArrowInvalid|JSON parse error|"
            r"DatasetGeneration\w*Error|CastError|ParserError|could not convert string to float|"
            "ScannerError",
            text="A data file could not be parsed.",
            general=True,
        ),
        LogMessage(
            kind="corrupt",
            cue=(
                "compressed file ended before",
                "corrupted record at",
                "truncated record at",
                "ran out of input",
                "badzipfile",
                "not a zip file",
                "not a gzipped file",
                "unable to open file",
                "unable to synchronously open",
                "crc",
                "truncated",
                "hdf5",
                "tarfile.readerror",
                "badgzipfile",
                "zlib.error",
                "lzmaerror",
                "moov atom",
                "invalid data found",
                "gzip file",
                "open object",
                "while decompressing",
            ),
            pattern=r"Compressed file ended before|(?:corrupted|truncated) record at \d|"
            "Ran out of input|BadZipFile|[Nn]ot a (?:zip|gzip(?:ped)?) file|[Uu]nable to "
            r"(?:synchronously )?open (?:file|object)|tarfile\.ReadError: |CRC check failed|file is truncated|"
            r"Error -\d while decompressing|moov atom not found|Invalid data found when processing",
            text="A data file is damaged or incomplete.",
            general=True,
        ),
        LogMessage(
            kind="encoding",
            cue=(
                "unicodedecodeerror",
                "codec can't decode",
            ),
            pattern="codec can't decode",
            text="A text file is not in the encoding that the program expects.",
        ),
        LogMessage(
            kind="permission",
            cue=(
                "winerror 5]",
                "winerror 32]",
                "winerror 33]",
                "permission denied",
                "errno 13",
                "read-only file system",
                "errno 30",
                "operation not permitted",
            ),
            pattern=r"\[WinError (?:5|32|33)\]|"
            r"[Pp]ermission denied|\[Errno 13\]|[Rr]ead-only file system|\[Errno 30\]",
            text="The process may not read or write a file[: {file}].",
            general=True,
        ),
        LogMessage(
            kind="storage",
            cue=(
                "disk i/o error",
                "errno 112]",
                "input/output error",
                "stale file handle",
                "stale nfs",
                "transport endpoint is not connected",
                "remote i/o error",
                "errno 5]",
                "errno 116",
                "errno 107]",
                "errno 121]",
            ),
            pattern=r"OperationalError: disk I/O error|\[Errno 112\]|"
            "Input/output error|[Ss]tale (?:NFS )?file handle|[Tt]ransport endpoint is not connected|"
            r"Remote I/O error|\[Errno (?:5|116|107|121)\]",
            text="The storage failed while a file was read or written.",
        ),
        LogMessage(
            kind="storage",
            cue=(
                "remounting filesystem read-only",
                "filesystem has been shut down",
                "controller is down; will reset",
                "i/o error, dev ",
                "not responding, timed out",
                "client was evicted by",
            ),
            pattern=r"(?P<device>EXT4-fs \([\w-]{1,40}\)): Remounting filesystem read-only|"
            r"(?P<xfs>XFS \([\w-]{1,40}\)): Filesystem has been shut down|"
            r"(?P<nvme>nvme\d{1,3}): controller is down; will reset|"
            r"I/O error, dev (?P<disk>(?!fd\d|sr\d|loop\d)[\w-]{1,40}), sector|"
            r"nfs: server (?P<server>\S{1,100}) not responding, timed out|"
            r"LustreError: .{0,200}client was evicted by (?P<mdt>\S{1,60}[^\s;])",
            text="The storage of this machine failed[: {device}][: {xfs}][: {nvme}][: {disk}][: "
            "{server}][: {mdt}].",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            general=True,
            undone=r"nfs: server \S{1,100} OK",
            source="Linux fs/ext4, fs/xfs, drivers/nvme, block, fs/nfs; Lustre",
        ),
        LogMessage(
            kind="empty",
            cue=(
                "data files found in",
                "num_samples should be a positive",
                "num_samples=0",
                "found 0 ",
                "dataset is empty",
                "empty dataset",
                "no images found",
                "couldn't find any class folder",
                "no data found",
                "found no ",
                "no labels found",
                "no files found",
            ),
            pattern=r"No \(supported\) data files found in|"
            "num_samples should be a positive integer value, but got num_samples=0|[Ff]ound (?:no|0) "
            "(?:valid|files?|images|labels|samples)|[Dd]ataset is empty|[Ee]mpty dataset|[Nn]o "
            "(?:images|labels|data|files) found|[Cc]ouldn't find any class folder",
            text="The data set is empty.",
        ),
        *KERNEL_STORAGE,
    )
