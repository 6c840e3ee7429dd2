"""FAIL015 hub-unreachable."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class HubUnreachable(LogCheck):
    """A hub or a tracker refused the job or was not reachable.

    What it finds:
        A job that died because a model, a data set or an experiment tracker is not accessible. It needs a
        login, a right, another name, or a network that the node does not have.
    Why it hurts:
        The job waits in the queue and ends in its first minute.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A request that is repeated with success is not a death.
    Remedies:
        Log in, accept the terms, or download before the job.
    References:
        - https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
    """

    code = Code("FAIL015")
    name = "hub-unreachable"
    log_messages_file = "file_messages.toml"
