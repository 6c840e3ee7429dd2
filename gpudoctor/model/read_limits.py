"""Budgets: how much of anything that comes from outside is read. One table, each with its reason.

Every door (a script, a config, a recording, a log) asks for its own budget by name. What goes beyond is refused
or left out with a sentence that names the file and the limit (`ReadLimit.words`).
"""

from gpudoctor.lang import say
from gpudoctor.model.records import frozen

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@frozen(kw_only=False)
class ReadLimit:
    """One budget."""

    most: int
    """Bytes, or things of the unit."""
    what: str
    """What has so many, with its article."""
    unit: str = "bytes"

    @property
    def words(self) -> str:
        """The sentence's end: `larger than 4 MiB, the most that a config may have`."""
        return say("{beyond}, the most that {what} may have", beyond=self.beyond, what=self.what)

    @property
    def beyond(self) -> str:
        """`larger than 4 MiB`, `more than 1,000 levels`."""
        if self.unit != "bytes":
            return say("more than {most:,} {unit}", most=self.most, unit=self.unit)
        for size, unit in ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB")):
            if self.most >= size:
                return say("larger than {most:g} {unit}", most=self.most / size, unit=unit)
        return say("larger than {most} bytes", most=self.most)


SCRIPT = ReadLimit(8 * _MIB, "a script or notebook")
"""A notebook holds its pictures."""
SCRIPT_CODE = ReadLimit(1 * _MIB, "the code of a script")
"""25,000 lines of usual code. Parsing takes up to 650 times the size in memory."""
SCRIPT_NODES = ReadLimit(230_000, "a script", "syntax nodes")
"""About 28,000 lines of usual code. A node takes half a kilobyte, and as much again when it is followed."""
SCRIPT_DEPTH = ReadLimit(400, "a script", "levels of nesting")
"""A chain of 300 `elif` is that deep. Code written by hand has fewer than 40 levels."""
SOURCE_NODES = ReadLimit(1_800_000, "a program", "syntax nodes")
"""All files of a program together: 2,000 files of 110 lines."""
CONFIG = ReadLimit(4 * _MIB, "a config")
"""The largest public training configs are under 100 kB."""
PREFLIGHT_REPORT = ReadLimit(256 * _MIB, "a report of a preflight")
"""4,096 nodes with eight cards and ten rounds of pairs have about 60 MB."""
CONFIG_IN_FOLDER = ReadLimit(512 * _KIB, "a config that a folder holds")
JOB_SCRIPT = ReadLimit(1 * _MIB, "a job script")
"""10,000 lines have half of it."""
JOB_EXPANDED = ReadLimit(8 * _MIB, "all expansions of a job script", "characters")
"""A command line of Linux has 2 MiB at most."""
JOB_LINE = ReadLimit(32 * _KIB, "a line whose quotes are read", "characters")
"""`shlex` takes time with the square of a word's length."""
JOB_FOLLOWED = ReadLimit(200, "a job", "calls of shell scripts that are followed")
"""A script that calls itself twice calls it a thousand times soon."""
JOB_MANIFEST = ReadLimit(512 * _KIB, "a manifest")
"""A reader that keeps lines takes seconds for so much."""
REQUIREMENTS = ReadLimit(256 * _KIB, "a file of requirements")
"""A `pip freeze` of a large environment has 20 kB."""
SETTINGS = ReadLimit(4 * _MIB, "a settings file")
BASELINE = ReadLimit(64 * _MIB, "a baseline")
"""100,000 findings of 300 bytes are 30 MB."""
PACKAGE_FILE = ReadLimit(16 * _MIB, "a file of an installed package")
SYSTEM_FILE = ReadLimit(16 * _MIB, "a file of the system")
"""Files of /proc and /sys: small, but for their maps of memory."""
REPORT = ReadLimit(64 * _MIB, "a report of ours")
SMALL_JSON = ReadLimit(4 * _MIB, "a state file")
"""`live-*`, `.findings.json`, what a child of ours answers."""

MANIFEST = ReadLimit(4 * _MIB, "recording.json and end.json")
FAULT = ReadLimit(4 * _MIB, "the stacks of a fatal signal")
"""The fault handler writes 100 threads of 100 frames: 1 MB."""
EARLY_DEATH = ReadLimit(1 * _MIB, "the traceback of a process that died before it imported torch")
"""The probe cuts it at 100,000 characters."""
GDR = ReadLimit(512 * _MIB, "a file of a recording")
"""72 hours make 34 MB (docs/recording.md); this is two million rows and more."""
RECORDING = ReadLimit(16 * _GIB, "a recording")
"""64 ranks of 72 hours and their workers have 3 GB."""
RECORDING_FILES = ReadLimit(100_000, "a recording", "files")
"""A thousand ranks with 64 workers each."""
FRAMES = ReadLimit(2_000_000, "a file of a recording", "frames")
"""A block a second for 72 hours is 260,000."""
RECORDS = ReadLimit(100_000, "a file of a recording", "records")
"""All types together may write 26,000 (`LIMITS` of gpudoctor/probe/recording_file.py)."""
RECORD = ReadLimit(4 * _MIB, "a record")
RECORD_BYTES = ReadLimit(128 * _MIB, "the records of a file")
COLUMNS = ReadLimit(2_000, "a table", "columns")
"""A machine of 64 GPUs has 1,000."""
GPUS = ReadLimit(1_024, "a machine", "GPUs")
UNPACKED_START = 64 * _MIB
"""Bytes that a packed file may unpack to, however small it is."""
UNPACKED_RATIO = 50
"""And so many times its size beyond: a recording packs 5 to 10 times."""

FLIGHT_DUMP = ReadLimit(64 * _MIB, "a flight-recorder dump, unpacked")
"""2,000 entries, the usual ring, have 0.4 MB; this is 300,000."""
FLIGHT_READER = ReadLimit(2 * _GIB, "the process that reads flight-recorder dumps")
"""A dump takes fifteen times its size in memory."""
KERNEL_LOG = ReadLimit(2 * _GIB, "a saved kernel log, unpacked")
"""It is read line by line; a ring buffer has less than 16 MiB, a syslog of months some hundred."""
KERNEL_LINE = ReadLimit(16 * _KIB, "a line of a kernel log")
"""The kernel cuts its messages at 1 KiB."""
KERNEL_MESSAGES = ReadLimit(100_000, "a saved kernel log", "messages of the GPU driver")
JSON_DEPTH = ReadLimit(100, "JSON of ours", "levels of nesting")
