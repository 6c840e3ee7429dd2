"""Advice on what a job's log names as the first cause of its death."""

from gpudoctor.model import advise, in_log

ADVICE = (
    advise(
        "CFG009-name",
        "Use the name that the installed version knows",
        "python -c 'import inspect, transformers; print(inspect.signature(transformers.TrainingArguments))'",
        "gpudoctor check SCRIPT CONFIG   # names renamed arguments with their lines",
        when=in_log("unexpected-keyword", "multiple-values", "removed"),
    ),
    advise(
        "CFG010-option",
        "Write the options as the script declares them",
        "python SCRIPT --help   # the options that it knows",
        "if it is --local-rank: start the script with torchrun, and read LOCAL_RANK from the environment",
        when=in_log("unrecognized"),
    ),
    advise(
        "CFG010-settings",
        "Change the settings that the message names",
        "gpudoctor check SCRIPT CONFIG   # finds such conflicts before the run",
        when=in_log(
            "exists",
            "batch",
            "precision",
            "strategy",
            "deepspeed",
            "framework",
            "command-line",
            "tokenizer",
            "quantized",
            "no-loss",
        ),
    ),
    advise(
        "CFG010-slurm",
        "Request what the partition and the account allow",
        "sinfo -o '%P %D %c %m %G %l'   # nodes, CPUs, memory, GPUs and time limit of each partition",
        "sacctmgr show assoc user=$USER   # the accounts and limits of the user",
        "other schedulers: qstat -Q -f, bqueues -l, qconf -sq QUEUE",
        when=in_log("scheduler"),
    ),
    advise(
        "CFG010-held",
        "Correct what the reason names, and submit again",
        "scontrol show job JOBID   # Reason, Dependency, Partition, Account, QOS",
        "scontrol release JOBID   # of a job that was held",
        when=in_log("held"),
    ),
    advise(
        "CFG010-forbidden",
        "Change the manifest to what the namespace allows",
        "kubectl describe quota,limitrange -n NAMESPACE   # what is used, and what is allowed",
        "kubectl apply --dry-run=server -f JOB.yaml   # the same answer, without a job",
        when=in_log("forbidden"),
    ),
    advise(
        "CFG010-docker",
        "Correct the command that starts the container",
        "docker ps -a   # names and ports that are in use",
        "docker run --help",
        when=in_log("docker"),
    ),
    advise(
        "CFG010-capacity",
        "Try another zone or machine, or ask for a higher quota",
        "the quota pages of the cloud list the limit of each type of GPU",
        "reserve the machines, or queue for them, if the job can wait",
        when=in_log("capacity"),
    ),
    advise(
        "CFG010-object",
        "Read why the object could not be made",
        "HYDRA_FULL_ERROR=1 COMMAND   # prints the whole traceback",
        "compare the keys under _target_ with the arguments of the class",
        when=in_log("object"),
    ),
    advise(
        "CFG010-pending",
        "Request what a node of the cluster has free",
        "kubectl describe node   # Allocatable, Allocated and Taints of each node",
        "the pod's nodeSelector, tolerations and resources must fit one node",
        when=in_log("unschedulable"),
    ),
)
