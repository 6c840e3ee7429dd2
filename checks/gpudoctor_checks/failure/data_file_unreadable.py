"""FAIL016 data-file-unreadable."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


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
    log_messages_file = "file_messages.toml"
