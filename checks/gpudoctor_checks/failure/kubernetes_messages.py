"""What Kubernetes, Kueue, Volcano and kubectl say of a job, beside what other lists of this folder know."""

from gpudoctor.analysis.job_log.scheduler_words import STARTED, cues, says
from gpudoctor.model import Bearing, Confidence, LogMessage

NO_PLACE = (
    LogMessage(
        kind="unschedulable",
        cue=(
            "queue resource quota insufficient",
            "tasks in gang unschedulable",
            "unschedule,reason:",
            "doesn't exist",
            " is inactive",
            " is stopped",
            "clusterqueue selector",
            "no topology domains at level",
            "allow to fit",
            "allows to fit only",
            "could not be scheduled: ",
            *cues("Inadmissible"),
        ),
        pattern=r"^(?P<why>queue resource quota insufficient|"
        r"\d{1,6}/\d{1,6} tasks in gang unschedulable: .{0,200})|"
        r"PodGroup (?P<group>\S{1,100}) unschedule,reason:|"
        r"\b(?P<queue>(?:LocalQueue|ClusterQueue) \S{1,100} (?:doesn't exist|is inactive|is stopped))|"
        r"(?P<selector>Workload's namespace doesn't match ClusterQueue selector)|"
        r"(?P<topology>no topology domains at level.{0,100}|topology \"[^\"]{1,60}\" (?:doesn't allow to fit|"
        r"allows to fit only).{0,100})|"
        r"Job supervisor actor could not be scheduled: (?P<actor>.{1,160})|" + says("Inadmissible"),
        text="The queue has no place for the job[: {why}][: {group}][: {queue}][: {selector}][: {topology}]"
        "[: {actor}].",
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        closing=True,
        unstarted=True,
        undone=r"\bNormal\s.{0,60}\b(?:Scheduled|Admitted|QuotaReserved|Started)\b",
        source="Volcano pkg/scheduler; Kueue pkg/scheduler, pkg/cache; Ray dashboard/modules/job",
    ),
    LogMessage(
        kind="forbidden",
        cue=("failedcreate", "installation failed", "upgrade failed", "failedtocreate"),
        pattern=says(r"FailedCreate(?!Pod)", r"FailedToCreate\w{1,30}")
        + r".{0,80}?(?:Error creating: |[Ff]ailed to create )"
        r"(?P<why>.{3,200})|^Error: (?:INSTALLATION|UPGRADE) FAILED: (?P<helm>.{3,200})",
        text="Kubernetes could not create the pods of the job[: {why}][: {helm}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        undone=r"\bNormal\s.{0,60}\b(?:SuccessfulCreate|SuccessfulCreatePod|Started)\b",
        source="Kubernetes pkg/controller/controller_utils.go; Kubeflow; KubeRay; Helm",
    ),
    LogMessage(
        kind="volume",
        cue="failedbinding",
        pattern=says("FailedBinding") + r"(?:.{0,80}?(?P<why>no persistent volumes available.{0,100}))?",
        text="The claim of the pod has no volume[: {why}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        closing=True,
        unstarted=True,
        undone=STARTED + r"|\bNormal\s{1,20}ProvisioningSucceeded\b",
        source="Kubernetes pkg/controller/volume/persistentvolume",
    ),
    LogMessage(
        kind="container",
        cue=(
            "error: failed to ",
            "error: context deadline exceeded",
            "error: container create failed",
            *cues("FailedCreatePodContainer", "FailedPrepareDynamicResources"),
        ),
        pattern=r"\bWarning\s{1,20}Failed\s.{0,80}?\bError: (?P<why>(?:failed to (?:create|generate|reserve|"
        r"start|get|"
        r"prepare)|context deadline exceeded|container create failed).{0,200})|"
        + says("FailedCreatePodContainer", "FailedPrepareDynamicResources"),
        text="Kubernetes could not create the container[: {why}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        undone=STARTED,
        source="Kubernetes pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/cm/dra",
    ),
    LogMessage(
        kind="kubectl",
        cue=(
            "unable to connect to the server",
            "the connection to the server ",
            "must be logged in to the server",
            "no context exists with",
            "error from server",
        ),
        pattern=r"^(?P<why>Unable to connect to the server: .{3,160}|"
        r"The connection to the server \S{1,100} was refused|"
        r"error: You must be logged in to the server.{0,60}|error: no context exists with.{0,100}|"
        r"Error from server \(NotFound\): (?:namespaces|serviceaccounts|queues) .{3,120}|"
        r"Error from server(?: \(\w{1,40}\))?: (?:error dialing backend|etcdserver|"
        r".{0,60}timed? ?out).{0,160})",
        text="kubectl could not use the cluster: {why}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        last=True,
        source="Kubernetes staging/src/k8s.io/kubectl",
    ),
)
"""Of FAIL020."""

ENDED_BY_KUBERNETES = (
    LogMessage(
        kind="sigkill",
        cue=("exit code: ", "exitcode: 137", "exit code 137"),
        pattern=r"^\s{0,12}(?:Exit Code: {2,20}|exitCode: )137\b|command terminated with exit code 137\b",
        text="A container was ended by SIGKILL (exit code 137). This log does not name the sender.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        source="kubectl describe, kubectl exec",
    ),
    LogMessage(
        kind="sigterm",
        cue=("exit code: ", "exitcode: 143"),
        pattern=r"^\s{0,12}(?:Exit Code: {2,20}|exitCode: )143\b",
        text="A container was ended by SIGTERM (exit code 143): a limit, a preemption or a person ended it.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        source="kubectl describe",
    ),
    LogMessage(
        kind="time-limit",
        cue="evictedduetomaximumexecutiontimeexceeded",
        pattern=r"EvictedDueToMaximumExecutionTimeExceeded",
        text="Kueue ended the job at its maximum execution time.",
        everywhere=True,
        outside=True,
        source="Kueue apis/kueue workload_types.go",
    ),
    LogMessage(
        kind="node-failure",
        cue=(
            *cues("Rebooted"),
            "evictedduetonodefailures",
            "actor died because the node has died",
            "raylet exited immediately because",
        ),
        pattern=r"EvictedDueToNodeFailures|The raylet exited immediately because|"
        r"Job supervisor actor died because the node has died|"
        + says("Rebooted")
        + r"(?:.{0,80}?Node (?P<where>\S{1,100}) has been rebooted)?",
        text="A node of the job failed[: {where} was rebooted].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        closing=True,
        source="Kubernetes pkg/kubelet/nodestatus; Kueue; Ray dashboard/modules/job",
    ),
    LogMessage(
        kind="evicted",
        cue=("evictedduetodeactivated", "deactivateddueto"),
        pattern=r"EvictedDueToDeactivated|DeactivatedDueTo\w{1,40}",
        text="Kueue evicted the job, and will not start it again by itself.",
        everywhere=True,
        outside=True,
        source="Kueue apis/kueue workload_types.go",
    ),
)
"""Of FAIL002."""
