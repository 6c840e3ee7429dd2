"""FAIL007 rendezvous-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class RendezvousFailed(LogCheck):
    """The processes of the job did not find each other.

    What it finds:
        A job that died while its process group was set up:
        - a port in use
        - a name that does not resolve
        - an interface that does not exist
        - a node that did not join
        - a variable that no launcher set
    Why it hurts:
        Nothing is trained, and the nodes that came wait for minutes before they give up.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A warning about one address family is normal while the other one connects.
    Remedies:
        Choose a free port and an address and interface that every node reaches.
    References:
        - https://pytorch.org/docs/stable/elastic/rendezvous.html
        - https://github.com/pytorch/pytorch/issues/128970
    """

    code = Code("FAIL007")
    name = "rendezvous-failed"
    log_messages_file = "collective_messages.toml"
