"""What Open MPI, PRRTE, PMIx and MPICH say of processes that they cannot start, connect or keep."""

from gpudoctor.model import Bearing, Confidence, LogMessage

MPI_UNREACHABLE = (
    LogMessage(
        kind="mpi-unreachable",
        cue=(
            "mpi_init has failed because",
            "failed for some reason; your parallel process",
            "pmix_init failed for",
            "no pmix server was reachable",
            "to have been direct launched using",
            "to find any relevant network interfaces",
            "no available launching agents were found",
            "failed to start the daemons on the nodes",
            "unable to find an underlying prterun",
            "could not execute the underlying prterun",
            "unable to run bstrap_proxy",
        ),
        pattern=r"MPI_INIT has failed because at least one|(?P<call>\w{3,40}) failed for some reason; your "
        r"parallel "
        r"process|PMIx_Init failed for the following|No PMIx server was reachable|"
        r"The application appears to have "
        r"been direct launched using|unable to find any relevant network interfaces|"
        r"No available launching agents "
        r"were found|failed to start the daemons on the nodes|"
        r"unable to find an underlying prterun|could not execute the underlying prterun|"
        r"unable to run bstrap_proxy on (?P<host>\S{1,80})",
        text="MPI could not start its processes[ ({call})][ on {host}]. The lines behind it say why.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        closing=True,
        source="Open MPI help-mpi-runtime.txt, help-mpirun.txt, help-mpi-btl-base.txt; PRRTE "
        "help-plm-*.txt; MPICH hydra",
    ),
    LogMessage(
        kind="mpi-unreachable",
        cue=("pmix error: ", "opal error: ", "orte_error_log: ", "prte error: ", "prte_error_log: ", "hydu_sock_"),
        pattern=r"\]\s{0,4}(?:PMIX ERROR|PRTE ERROR|OPAL ERROR|(?:ORTE|"
        r"PRTE)_ERROR_LOG): (?P<why>(?!.*gds_ds12)[^\n]{3,120}?) "
        r"in file |HYDU_sock_\w{1,30} \([^)\n]{1,120}\): (?P<hydra>[^\n]{3,160})",
        text="The launcher of MPI met an error[: {why}][: {hydra}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        general=True,
        closing=True,
        source="PMIx, PRRTE and Open MPI: ERROR_LOG; MPICH hydra lib/utils/sock.c",
    ),
    LogMessage(
        kind="ssh",
        cue=(
            "critical communication path was lost",
            "failed to receive scheduled heartbeat",
            "was unable to reliably start one or more daemons",
            "lost connection with a remote daemon",
        ),
        pattern=r"A critical communication path was lost to|"
        r"failed to receive scheduled heartbeat communications|"
        r"\b(?:prterun|prte|mpirun|mpiexec) was unable to reliably start one or more daemons|"
        r"lost connection with a remote daemon",
        text="mpirun could not start its processes on a node, or lost it.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        closing=True,
        source="PRRTE help-prun.txt, help-errmgr-base.txt",
    ),
)
"""Of FAIL007."""

MPI_FAILED = (
    LogMessage(
        kind="abort",
        cue="*** mpi_err_",
        pattern=r"\*\*\* (?P<error>MPI_ERR_\w{1,30}): (?P<why>[^\n]{3,120})",
        text="An MPI call failed: {error}, {why}.",
        everywhere=True,
        closing=True,
        source="Open MPI ompi/errhandler/errhandler_predefined.c",
    ),
    LogMessage(
        kind="abort",
        cue=("fatal error in ", "*** an error occurred in "),
        pattern=r"(?:Fatal error in |\*\*\* An error occurred in )(?P<call>(?:P?MPI|internal)_(?!Init)\w{2,40})"
        r"(?:: (?P<why>[^\n]{3,120}?)(?:, error stack:|$))?",
        text="The MPI call {call} failed[: {why}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        closing=True,
        source="MPICH src/mpi/errhan; Open MPI help-mpi-errors.txt",
    ),
)
"""Of FAIL006."""

MPI_REFUSED = (
    LogMessage(
        kind="framework",
        cue=(
            "not enough ",
            "an invalid value was ",
            "no executable was specified",
            "binding more",
            "request was made to bind",
            "your job has requested",
            "your job failed to map",
            "a slot list was provided that",
            "hosts in the map for this application",
            "unable to find an allocation for this job",
            "allocated nodes were insufficient",
            "requested number of processes",
            "affinity schemes were specified",
            "requested a conflicting",
            "was given a negative",
            "there are no allocated resources for the application",
            "a hostfile was provided that contains",
            "could not be found in the list of available hosts",
        ),
        pattern=r"^(?P<why>Not enough .{1,80} were found on the|An invalid value was (?:supplied|"
        r"given) for .{1,80}|"
        r"No executable was specified on the|A request was made to bind .{0,60}binding more.{0,40}|"
        r"A request was made to bind that would|Your job (?:has requested|failed to map).{0,100}|"
        r"A slot list was provided that.{0,60}|.{0,80}hosts in the map for this application|"
        r"We were unable to find an allocation for this job|.{0,60}allocated nodes were insufficient|"
        r"The requested number of processes .{1,80}|Multiple processor affinity schemes were specified|"
        r"There are no allocated resources for the application|A hostfile was provided that contains.{0,80}|"
        r"\w{3,10} has detected that one or more applications was given a negative)|"
        r"binding more processes than cpus|could not be found in the list of available hosts",
        text="mpirun refuses to start the processes[: {why}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        general=True,
        closing=True,
        source="PRRTE help-prte-rmaps-base.txt, help-prun.txt, help-plm-*.txt, help-ras-*.txt",
    ),
)
"""Of CFG010."""
