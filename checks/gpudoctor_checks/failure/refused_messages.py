"""What schedulers and clouds say of a job that they refuse, or have no place for: its request does not fit."""

from gpudoctor.analysis.job_log.scheduler_words import HELD, cues, says
from gpudoctor.model import Bearing, Confidence, LogMessage

_PLACED = (
    r"\bNormal\s.{0,60}\b(?:Scheduled|Pulling|Pulled|Created|Started|Admitted|QuotaReserved|TriggeredScaleUp)\s|"
    r"Successfully assigned|[Ss]tarted container\b|[Rr]eason[\"']?[:=] {0,20}[\"']?(?:Scheduled|Started)\b"
)
"""Of a later line: the pod found its place."""
_FULL = (r"OutOf(?:cpu|memory|pods|ephemeral-storage|[\w.-]{1,40}/[\w.-]{1,40})", "NodeAffinity",
         "TopologyAffinityError", "NodeSelectorMismatching", "InsufficientFreeCPU", "InsufficientFreeMemory",
         "NodePorts", "AppArmor")  # fmt: skip
REFUSALS = (
    LogMessage(
        kind="unschedulable",
        cue=(
            "failedscheduling",
            "unschedulable",
            *cues("NotTriggerScaleUp", "FailedScaleUp"),
            "couldn't assign flavors",
            "queue resource quota insufficient",
            "nodes are available: ",
        ),
        pattern=says("FailedScheduling", "Unschedulable", "NotTriggerScaleUp", "FailedScaleUp")
        + r"(?:.*?(?P<why>\d{1,6}/\d{1,6} (?:nodes are available|tasks in gang unschedulable): "
        r"(?:(?!\. preemption: ).){0,299}[^\s.]|pod didn't trigger scale-up: .{0,199}[^\s.]|"
        r"Failed to scale up: .{0,199}[^\s.]|"
        r"(?:no nodes available to schedule|pod has unbound|queue resource quota|"
        r"persistentvolumeclaim).{0,199}[^\s.]))?|"
        r"couldn't assign flavors to pod set (?P<flavors>.{0,299}[^\s.])|"
        r"^(?P<nodes>\d{1,6}/\d{1,6} nodes are available: .{0,299}[^\s.])",
        text="Kubernetes found no place for the pod[: {why}][: {flavors}][: {nodes}].",
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        unstarted=True,
        undone=_PLACED,
        source="Kubernetes pkg/scheduler; cluster-autoscaler; Kueue pkg/scheduler/flavorassigner; Volcano",
    ),
    LogMessage(
        kind="unschedulable",
        cue=("outof", *cues(*_FULL[1:]), "node didn't have enough resource"),
        pattern=says(*_FULL) + r"|Node didn't have enough resource: (?P<why>[^\s,]{1,60}, requested: \d+, "
        r"used: \d+, capacity: \d+)",
        text="The node of the pod rejected it, because its request does not fit[: {why}].",
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        unstarted=True,
        undone=r"\bNormal\s.{0,60}\bStarted\s",
        source="Kubernetes pkg/kubelet/lifecycle/predicate.go",
    ),
    LogMessage(
        kind="unschedulable",
        cue=(
            "no available node types can fulfill",
            "placementgroupschedulingerror",
            "request cannot be scheduled right now",
            "actorunschedulableerror",
            "taskunschedulableerror",
        ),
        pattern=r"No available node types can fulfill resource request (?P<why>\{[^}]{1,200}\})|"
        r"PlacementGroupSchedulingError|ActorUnschedulableError|TaskUnschedulableError|"
        r"resource request cannot be scheduled right now: (?P<request>\{[^}]{1,200}\})",
        text="Ray has no node for what the program requests[: {why}][: {request}].",
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        closing=True,
        unstarted=True,
        source="Ray autoscaler/_private/event_summarizer.py, src/ray/raylet",
    ),
    LogMessage(
        kind="forbidden",
        cue=(
            " is forbidden: ",
            "denied the request",
            "error when creating ",
            " is invalid: ",
            "no matches for kind",
            "error: error validating ",
            "error: error parsing ",
        ),
        pattern=r"(?:(?:Error creating|error when creating \"[^\"]{1,200}\"|"
        r"Failed to create \w{1,20} Pod|Error from "
        r"server \(\w{1,40}\)|FailedCreate)\b.{0,200}? is forbidden: |^[\w.\"/ -]{1,100} is forbidden: )"
        r"(?P<why>.{0,299}[^\s.])|"
        r"admission webhook \"(?P<webhook>[^\"]{1,100})\" denied the request|"
        r"\bThe (?:\w{1,40}) \"(?P<name>[^\"]{1,100})\" is invalid: (?P<field>.{0,199}[^\s.])|"
        r"no matches for kind \"(?P<sort>[^\"]{1,60})\"|"
        r"\berror: error (?:validating|parsing) .{1,200}|"
        r"\bError from server(?: \(\w{1,40}\))?: error when creating \"[^\"]{1,200}\": "
        r"(?P<said_by>.{0,299}[^\s.])",
        text="Kubernetes refused the job[: {why}][: {field}][: {said_by}][: the webhook {webhook} denied it]"
        "[: it does not know the kind {sort}].",
        everywhere=True,
        closing=True,
        outside=True,
        unstarted=True,
        undone=r"\bNormal\s.{0,60}\b(?:SuccessfulCreate|Started)\b|^\S{1,99}/\S{1,99} (?:created|configured)$",
        source="Kubernetes plugin/pkg/admission/resourcequota, PodSecurity; kubectl",
    ),
    LogMessage(
        kind="scheduler",
        cue=("sbatch: ", "salloc: ", "srun: "),
        pattern=r"\bsbatch: (?:error|fatal): (?!.*(?:busy|[Ss]ocket timed out|temporarily|"
        r"slurm controller|Unable to open "
        r"file|Batch job submission failed|cli_filter|line must start with|For instance|instead of expected))"
        r"(?P<why>.{0,199}[^\s.])|"
        r"\bs(?:batch|run|alloc): (?P<option>unrecognized option '[^']{1,80}'|"
        r"option '[^']{1,80}' requires an argument|"
        r"invalid option -- '.')|"
        r"\bs(?:run|alloc): fatal: (?P<fatal>.{0,199}[^\s.])|"
        r"\bsalloc: error: Job submit/allocate failed: (?P<reason>.{0,199}[^\s.])|"
        r"\bs(?:run|alloc): error: (?P<said_by>Invalid (?!job credential).{1,120}|"
        r"--\S{1,40} .{1,160}|"
        r"No command given to execute|Too few processes .{1,80}|More processors requested .{1,80}|"
        r"cannot find \S{1,20} plugin for .{1,60}|Job not submitted|Requested node\w{0,4} .{1,160}|"
        r"(?:Attempt to run a job step|SLURM_JOB_NUM_NODES|Only allocated|You asked for) .{0,159}[^\s.])",
        text="Slurm refused the job[: {why}][: {option}][: {said_by}][: {fatal}][: {reason}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        undone=r"\bSubmitted batch job \d+|^salloc: Granted job allocation",
        source="Slurm src/sbatch, src/srun/opt.c, src/salloc, src/common/slurm_opt.c",
    ),
    LogMessage(
        kind="scheduler",
        cue=("qsub: ", "job not submitted", "unable to run job: ", "error: on line ", "misconfiguration:"),
        pattern=r"(?:^|\s)qsub: (?!waiting for|job \S+ (?:ready|completed)|Warning)(?P<why>\w.{0,199}[^\s.])|"
        r"^(?P<said_by>.{1,200}?)\.? Job not submitted\.|"
        r"\bUnable to run job: (?!warning)(?P<sge>.{0,199}[^\s.])|MISCONFIGURATION:(?P<batch>\S{1,60})|"
        r"^ERROR: on Line \d+ of submit file: (?P<condor>.{0,159}[^\s.])",
        text="The scheduler refused the job[: {why}][: {said_by}][: {sge}][: {batch}][: {condor}].",
        everywhere=True,
        outside=True,
        closing=True,
        unstarted=True,
        source="OpenPBS src/cmds/qsub.c, LSF bsub, Grid Engine, AWS Batch, HTCondor",
    ),
    LogMessage(
        kind="held",
        cue=(*cues(*HELD), "launch failed requeued held"),
        pattern=rf" PD .{{0,120}}\((?P<why>{'|'.join(HELD)}|launch failed requeued held)\)\s*$|"
        rf"JobState=PENDING Reason=(?P<reason>{'|'.join(HELD)})\b",
        text="Slurm holds the job in the queue, and will not start it[: {why}][: {reason}].",
        everywhere=True,
        outside=True,
        unstarted=True,
        source="Slurm src/common/job_state_reason.c: reasons that do not pass by themselves",
    ),
    LogMessage(
        kind="docker",
        cue="docker: ",
        pattern=r"(?:^|\s)docker: (?!.*(?:OCI runtime|Docker daemon))(?:Error response from daemon: )?"
        r"(?P<why>(?:(?<=daemon: )\S|Error |unknown (?:shorthand )?flag|invalid |conflicting options|"
        r"flag needs|"
        r"\\?\"docker |'docker |open |stat |failed to ).{0,239}[^\s.])",
        text="Docker refused to start the container: {why}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        general=True,
        closing=True,
        unstarted=True,
        source="docker/cli, moby daemon: what no other wording names",
    ),
    LogMessage(
        kind="capacity",
        cue=(
            "insufficientinstancecapacity",
            "capacityerror",
            "resourcelimitexceeded",
            "quota_exceeded",
            "zone_resource_pool_exhausted",
            "resources are insufficient in region",
            "exceed quota limits",
            "exceeding quota limits",
            "enough resources available to fulfill",
            "exceeding approved",
            "quota metrics exceed",
            "insufficient capacity",
            "does not have enough resources",
            "vcpulimitexceeded",
            "allocationfailed",
            "overconstrainedallocation",
            "skunotavailable",
            "maxspotinstancecountexceeded",
        ),
        pattern=r"\b(?P<code>InsufficientInstanceCapacity|CapacityError|ResourceLimitExceeded|QUOTA_EXCEEDED|"
        r"ZONE_RESOURCE_POOL_EXHAUSTED\w{0,20}|VcpuLimitExceeded|ZonalAllocationFailed|OverconstrainedAllocation\w{0,20}|"
        r"AllocationFailed|SkuNotAvailable|MaxSpotInstanceCountExceeded)\b|"
        r"Resources are insufficient in region|quota metrics exceed quota limits|"
        r"exceeding (?:quota limits|approved "
        r"\S{1,60} quota)|does not have enough resources available to fulfill",
        text="The cloud has no machine for the job, or the account may not have it[ ({code})].",
        confidence=Confidence.PROBABLE,
        everywhere=True,
        outside=True,
        closing=True,
        unstarted=True,
        source="EC2, SageMaker, Compute Engine, Vertex AI, Azure",
    ),
)
