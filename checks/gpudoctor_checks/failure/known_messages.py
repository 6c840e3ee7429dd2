"""The deaths that a job's log alone tells: each class is a manual page and the file of its messages."""

from gpudoctor.analysis.job_log.log_check import LogCheck


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

    code = "FAIL007"
    name = "rendezvous-failed"
    log_messages_file = "collective_messages.toml"


class NcclSetupFailed(LogCheck):
    """NCCL could not connect the GPUs.

    What it finds:
        A job that died in NCCL itself:
        - a system call or a socket
        - InfiniBand
        - shared memory
        - mixed versions
        - an invalid use of the communicator
        - two ranks that use one GPU
    Why it hurts:
        All ranks die, and PyTorch prints one generic sentence for many reasons.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Plugins that NCCL does not find are normal. An error of NCCL after an error of a rank is a consequence.
    Remedies:
        Read the first NCCL WARN line; choose the interface that works.
    References:
        - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
        - https://github.com/NVIDIA/nccl-tests/issues/166
    """

    code = "FAIL008"
    name = "nccl-setup-failed"
    log_messages_file = "collective_messages.toml"


class CudaLibraryError(LogCheck):
    """A CUDA library call failed.

    What it finds:
        A job that died of an error of cuBLAS, cuDNN, cuSOLVER, cuFFT or the CUDA runtime. The error has no more
        precise name.
    Why it hurts:
        The message hides the reason: often memory is short, or an earlier kernel used a bad index.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Errors that name memory, an index or the architecture belong to their own checks.
    Remedies:
        Try a smaller batch to exclude memory, then search for the index with CUDA_LAUNCH_BLOCKING=1.
    References:
        - https://docs.nvidia.com/cuda/cublas/index.html
        - https://github.com/QwenLM/Qwen/issues/120
    """

    code = "FAIL009"
    name = "cuda-library-error"
    log_messages_file = "cuda_messages.toml"


class ForkAfterCuda(LogCheck):
    """CUDA was used in a forked process.

    What it finds:
        A job that died because a loader worker or another forked child used CUDA after its parent had
        started it.
    Why it hurts:
        The first batch never comes.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Children that are spawned may use CUDA.
    Remedies:
        Spawn the children, or keep CUDA out of them.
    References:
        - https://github.com/pytorch/pytorch/issues/40403
        - https://pytorch.org/docs/stable/notes/multiprocessing.html
    """

    code = "FAIL010"
    name = "fork-after-cuda"
    log_messages_file = "cuda_messages.toml"


class BackwardFailed(LogCheck):
    """The backward pass could not run.

    What it finds:
        A job that died in autograd:
        - a loss without a gradient
        - a tensor changed in place
        - a second backward through one graph
        - a checkpointed block that computed something else the second time
    Why it hurts:
        Not a single step is trained.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A message that was caught and followed by steps is not a death.
    Remedies:
        Make the loss depend on a trainable parameter; keep the graph as the backward needs it.
    References:
        - https://pytorch.org/docs/stable/notes/autograd.html
        - https://github.com/huggingface/transformers/issues/42489
    """

    code = "FAIL011"
    name = "backward-failed"
    log_messages_file = "program_messages.toml"


class ReducerMisuse(LogCheck):
    """DDP's reducer refused the graph.

    What it finds:
        A job that died because a parameter was used twice in a backward under data parallelism, or not at
        all.
    Why it hurts:
        Training with several ranks fails, although one process trains.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        One process alone never shows it.
    Remedies:
        Use non-reentrant checkpointing; use every parameter, or tell DDP that some are unused.
    References:
        - https://github.com/pytorch/pytorch/issues/57473
        - https://github.com/huggingface/accelerate/issues/389
    """

    code = "FAIL012"
    name = "reducer-misuse"
    log_messages_file = "collective_messages.toml"


class TensorMismatch(LogCheck):
    """Tensors of different type, device or shape met.

    What it finds:
        A job that died at an operation whose tensors differ in type, device or shape. Or they are still on the
        meta device.
    Why it hurts:
        The step cannot be computed.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A mismatch while a checkpoint is loaded belongs to checkpoint-misfit.
    Remedies:
        Convert or pad the tensor at the line that the traceback names.
    References:
        - https://github.com/huggingface/trl/issues/1152
        - https://github.com/huggingface/peft/issues/1515
    """

    code = "FAIL013"
    name = "tensor-mismatch"
    log_messages_file = "program_messages.toml"


class CheckpointMisfit(LogCheck):
    """A checkpoint could not be loaded or saved.

    What it finds:
        A job that died because of its checkpoint:
        - it does not fit the model
        - it is damaged, or is a pointer of git-lfs
        - it contains more than tensors
        - it was saved for another number of ranks
    Why it hurts:
        The run cannot resume, or loses what it had trained.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Keys that are reported and ignored are not a death.
    Remedies:
        Load what fits; get a damaged file again.
    References:
        - https://github.com/huggingface/transformers/issues/34631
        - https://github.com/axolotl-ai-cloud/axolotl/issues/933
    """

    code = "FAIL014"
    name = "checkpoint-misfit"
    log_messages_file = "program_messages.toml"


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

    code = "FAIL015"
    name = "hub-unreachable"
    log_messages_file = "file_messages.toml"


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

    code = "FAIL016"
    name = "data-file-unreadable"
    log_messages_file = "file_messages.toml"


class CompileFailed(LogCheck):
    """A compiler of the framework failed.

    What it finds:
        A job that died in torch.compile, Triton or ptxas:
        - no compiler
        - a kernel that needs too much of the GPU
        - a graph that the backend does not support
    Why it hurts:
        The first step fails, although the model trains without the compiler.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Graph breaks and warnings of the compiler are not deaths.
    Remedies:
        Install the compiler, or train without it.
    References:
        - https://pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    """

    code = "FAIL017"
    name = "compile-failed"
    log_messages_file = "cuda_messages.toml"


class StartFailed(LogCheck):
    """The job did not start: the scheduler, the container's runtime or the shell refused it.

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

    code = "FAIL020"
    name = "start-failed"
    log_messages_file = "start_messages.toml"
