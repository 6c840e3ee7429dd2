"""FAIL016 data-file-unreadable."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code, Confidence, LogMessage
from gpudoctor_checks.failure.data_format_messages import DATA_FORMATS
from gpudoctor_checks.failure.kernel_messages import KERNEL_STORAGE


class DataFileUnreadable(LogCheck):
    """A data file is missing, damaged or forbidden.

    What it finds:
        A job that died because of a file. The file is missing on this node, damaged, empty, unreadable, or
        cannot be parsed. Or the data set found no sample.
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
        LogMessage(
            kind="missing",
            cue=(
                "lmdb.error",
                "no such file or directory",
                "filenotfounderror",
                "errno 2]",
                "not found: ",
                " exist",
                "not found",
                "missing",
            ),
            pattern=r"^FileNotFoundError:?\s*$|^lmdb\.Error: (?P<lmdb>[^:\n]{1,300}): No such file|"
            r"FileNotFoundError: (?:\[Errno 2\] )?(?:No such file or directory: "
            r"""?)?['\"]?(?P<file>[^'\"\n]{1,200})|No such file or directory: """
            r"""['\"]?(?P<path>[^'\"\n]{1,200})|"""
            r"""(?:file|folder|directory|path)s? ['\"]?(?P<named>\S{1,200}?)['\"]? """
            r"""(?:does not|doesn't) exist|(?:file|folder|directory|path)s? .{0,100}"""
            r"""(?:do(?:es)? not|doesn't) exist|"""
            r"""(?:file|folder|directory|path)s? (?:\S{1,200} )?(?:was |were |is |are )?"""
            r"""(?:not found|missing)\b|"""
            r"NotFoundError: (?:[^\n]{0,80}root error[^\n]{0,20}\n\s*\(0\) Not found:\s+)?"
            r"(?P<image>[^;\n]{1,300}); No such file or directory",
            text="A file is missing[: {file}][: {path}][: {image}][: {named}].",
            general=True,
        ),
        LogMessage(
            kind="missing",
            cue=": no such file or directory",
            pattern=r"(?:[Cc]ould not|[Cc]annot|[Uu]nable to|[Ff]ailed to) open (?:the )?(?:file )?['\"]?"
            r"(?P<file>[^\s'\":]{1,300})['\"]?: No such file or directory",
            text="A file is missing: {file}.",
            general=True,
            source="DALI dali/util/std_file.cc and others, by strerror",
        ),
        LogMessage(
            kind="missing",
            cue=("isadirectoryerror", "notadirectoryerror"),
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
                "decorderror",
            ),
            pattern="DECORDError|"
            "cannot identify image file|image file is truncated|broken data stream|[Tt]runcated "
            r"[Ff]ile [Rr]ead|UnidentifiedImageError|!ssize\.empty\(\)|broken PNG|DecompressionBomb",
            text="An image or a video is damaged, or is none.",
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
            cue=("unicodedecodeerror", "codec can't decode"),
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
            r"[Pp]ermission denied(?:: ['\"](?P<file>[^'\"\n]{1,300}))?|\[Errno 13\]|"
            r"[Rr]ead-only file system|\[Errno 30\]",
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
            text="The storage of this machine failed[: {device}][: {xfs}][: {nvme}][: {disk}][: {server}][: {mdt}].",
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
        *DATA_FORMATS,
        *KERNEL_STORAGE,
    )
