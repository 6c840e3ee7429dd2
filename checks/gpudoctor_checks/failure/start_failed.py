"""FAIL020 start-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code


class StartFailed(LogCheck):
    """A start failed: the scheduler, the container's runtime or the shell refused it.

    What it finds:
        - A pod or job for which no node, quota or machine of the cloud has room.
        - A request that Slurm, Kubernetes, Docker or another scheduler refuses, or holds in its queue.
        - A container whose sandbox, volume, secret or runtime fails.
        - A program of the job script that is not there, or a syntax error in that script.
    Why it hurts:
        Nothing trains, and the queue's time is lost. A pod may wait for days without any log of its own.
    How it knows:
        From a job's log, events or records: texts that only the scheduler, the runtime or the shell prints. A
        later line that shows a start takes them back.
    False alarms:
        A pod that waits for a short time is normal. If the cluster is only full, the finding is not certain.
    Remedies:
        Request what a node, the partition or the quota allows. Correct what the message names in the job's
        script, manifest or image.
    References:
        - https://kubernetes.io/docs/concepts/scheduling-eviction/
        - https://slurm.schedmd.com/job_reason_codes.html
        - https://github.com/opencontainers/runc
    """

    code = Code("FAIL020")
    name = "start-failed"
    log_messages_file = "start_messages.toml"
