"""FAIL007 rendezvous-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Bearing, Code, Confidence, LogMessage
from gpudoctor_checks.failure.mpi_messages import MPI_UNREACHABLE


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
    log_messages = (
        LogMessage(
            kind="address-in-use",
            cue=("address already in use", "eaddrinuse", "failed to bind"),
            pattern=r"(?:port:? ?(?P<port>\d+).{0,80})?(?:Address already in use|EADDRINUSE|address already "
            "in use)",
            text="The rendezvous port[ {port}] is in use already: another job, or a process that an "
            "earlier run left behind.",
            source="https://github.com/hao-ai-lab/FastVideo/issues/575",
        ),
        LogMessage(
            kind="address-in-use",
            cue=("server socket has failed to listen",),
            pattern="The server socket has failed to listen on any local network address",
            text="The rendezvous port could not be opened on this node: usually another process has it.",
            everywhere=True,
            source="torch/csrc/distributed/c10d/socket.cpp",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="name-resolution",
            cue=(
                "name resolution",
                "name or service not known",
                "getaddrinfo",
                "unable to resolve",
                "nodename nor servname",
                "could not resolve",
                "gai error",
            ),
            pattern="[Tt]emporary failure in name resolution(?!.*https?://)|Name or service not known|"
            "nodename nor servname|gai error|getaddrinfo failed",
            text="A host name of the rendezvous could not be resolved.",
        ),
        LogMessage(
            kind="ssh",
            cue=(
                "unable to reliably start one or more daemons",
                "daemon has unexpectedly failed after launch",
                "has lost communication with a remote daemon",
            ),
            pattern=r"(?:ORTE|PRTE) (?:was unable to reliably start one or more daemons|has lost communication "
            r"with a remote daemon)|An (?:ORTE|PRTE) daemon has unexpectedly failed after launch",
            text="mpirun could not start its processes on a node, or lost it.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            closing=True,
            source="Open MPI help-errmgr-base.txt, help-plm-base.txt",
        ),
        LogMessage(
            kind="interface",
            cue=(
                "unsupported gloo device",
                "unable to find address for",
                "no socket interface found",
                "unable to find interface",
                "bootstrap : no socket",
            ),
            pattern=r"makeDeviceFor\w+\(\): unsupported gloo device|"
            r"[Uu]nable to find address for:? ?(?P<interface>\S+)|no socket interface found|[Uu]nable "
            "to find interface",
            text="The network interface[ {interface}] for the rendezvous does not exist on this node, or "
            "has no address.",
            everywhere=True,
        ),
        LogMessage(
            kind="rendezvous-timeout",
            cue=("barrier timed out. id: [init]", "barrier timed out. id: pjrt_client_connect"),
            pattern=r"Barrier timed out\. Id: (?:\[Init\]|PjRT_Client_Connect)"
            r"(?:[\s\S]{0,2000}?tasks that reached the barrier: (?P<reached>\d{1,6}/\d{1,6}))?"
            r"(?:[\s\S]{0,1000}?timed out task names:\s{1,4}/job:\S{1,80}?/task:(?P<missing>\d{1,6}))?",
            text="Not all tasks of the JAX job came to its start in time[: {reached} came].",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            waits=True,
            source="xla/tsl/distributed_runtime/coordination",
        ),
        LogMessage(
            kind="interface",
            cue=("no usable listening interface", "no device found matching", "no device found after"),
            pattern=r"NCCL WARN .{0,40}?(?:No usable listening interface found|no device found (?:matching|"
            r"after "
            r"excluding) (?P<interface>[^,\s]{1,80}))",
            text="NCCL found no network interface[ ({interface})] on this node.",
            everywhere=True,
            source="NCCL src/bootstrap.cc",
        ),
        LogMessage(
            kind="environment",
            cue=("environment variable", "expected, but not set"),
            pattern="environment variable (?P<variable>[A-Z_]+) expected, but not set",
            text="The process group could not start: the variable {variable} is not set, so no launcher "
            "started this process.",
        ),
        LogMessage(
            kind="environment",
            cue="parameter missing",
            pattern=r"rendezvous: (?P<which>rank|world size) parameter missing",
            text="The process group could not start: the program gave no {which}.",
            source="torch/distributed/rendezvous.py",
        ),
        LogMessage(
            kind="joined",
            cue=("clients joined", "clients. "),
            pattern=r"[Tt]imed out after (?P<seconds>\d+) seconds waiting for clients\. "
            r"(?P<joined>\d+)/(?P<expected>\d+) clients joined",
            text="Only {joined} of {expected} processes joined within {seconds} seconds.",
            source="torch: TCPStore.cpp",
        ),
        LogMessage(
            kind="unreachable",
            cue=(
                "connect() timed out",
                "] connect [",
                " connect timeout [",
                "cannot assign requested address",
                "failed to connect to all addresses",
                "client socket has timed out",
                "failed to connect to",
                "no route to host",
                "econnrefused",
                "connection refused",
                "etimedout",
                "connection timed out",
                "connect refused",
                "connect timed out",
            ),
            pattern=r"RuntimeError: connect\(\) timed out|gloo/\S{1,200}\] connect (?:timeout )?\[|"
            r"\[Errno 99\] Cannot assign requested address|XlaRuntimeError: UNAVAILABLE: "
            "failed to connect to all addresses|JaxRuntimeError: UNAVAILABLE: failed to "
            "connect to all addresses|"
            r"client socket has timed out after (?P<seconds>\d+) ?(?:s|ms|seconds) while trying to "
            r"connect to \(?(?P<address>[^)\n]{1,80})\)?|The client socket has failed to connect to "
            r"any network address of \(?(?P<host>[^)\n]{1,80})\)?|[Nn]o route to host|ECONNREFUSED|"
            r"\[Errno 111\] Connection refused|RuntimeError: (?:\[.{0,200}\] )?[Cc]onnect(?:ion)? "
            "(?:refused|timed out)",
            text="A process could not reach the rendezvous[ at {address}][ at {host}]. The address is "
            "wrong, a firewall blocks it, or the first node is not running.",
            general=True,
        ),
        LogMessage(
            kind="unreachable",
            cue=(
                "ray client connection timeout",
                "could not find any running ray instance",
                "the current node timed out during startup",
            ),
            pattern="ray client connection timeout|Could not find any running Ray instance|The "
            r"current node timed out during startup\. This could happen because some of the "
            "raylet",
            text="The program could not reach Ray: {said}.",
            source="ray/util/client/worker.py, ray/_private/services.py",
        ),
        LogMessage(
            kind="unreachable",
            cue=(
                "host key verification failed",
                "permission denied (publickey",
                "ssh: connect to host",
                "ssh: could not resolve hostname",
                "ssh exited with exit code 255",
            ),
            pattern=r"^(?:\S+: )?ssh: Could not resolve hostname (?P<unknown>\S{1,100}):|"
            r"^(?:\S+: )?(?P<why>Host key verification failed)|^(?:\S+: "
            r")?(?P<refused>Permission denied \(publickey)[^)]{0,60}\)|^(?:\S+: )?ssh: "
            r"connect to host (?P<host>\S{1,100}) port \d+: (?:Connection (?:refused|timed "
            r"out)|No route to host)|^(?:pdsh@\S+: )?(?P<node>\S{1,100}): ssh exited with "
            "exit code 255",
            text="The launcher could not reach a node[ ({host})][ ({node})][ ({unknown})] by ssh.",
            confidence=Confidence.PROBABLE,
            everywhere=True,
            closing=True,
            source="OpenSSH ssh.c, sshconnect.c; pdsh",
        ),
        LogMessage(
            kind="unreachable",
            cue=(
                "client socket has timed out after",
                "failed to connect to any network address of",
                "tcp client failed to connect/validate to host",
            ),
            pattern=r"client socket has timed out after \d{1,12} ?\w{1,12} while trying to connect to "
            r"\(?(?P<address>[^)\n]{1,80}?)\)?\.?\s*$|client socket has failed to connect to "
            r"any network address of \(?(?P<host>[^)\n]{1,80})\)?|TCP client failed to "
            r"connect/validate to host (?P<peer>\S{1,80})",
            text="A process could not reach the rendezvous[ at {address}][ at {host}][ at "
            "{peer}]. The address is wrong, a firewall blocks it, or the first node is not "
            "running.",
            everywhere=True,
            source="torch/csrc/distributed/c10d: socket.cpp, TCPStore.cpp",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="mpi-unreachable",
            cue=(
                "mpi processes are unable to reach each other",
                "failed to tcp connect to a peer mpi process",
                "unable to complete a tcp connection to another process",
                "was unable to complete a tcp connection",
            ),
            pattern=r"pair of MPI processes are unable to reach each other|"
            r"Open MPI failed to TCP connect to a peer MPI process|"
            r"was unable to complete a TCP connection(?: to another process)?",
            text="Two processes of the MPI job could not reach each other.",
            everywhere=True,
            source="Open MPI help-mca-bml-r2.txt, help-mpi-btl-tcp.txt, help-oob-tcp.txt",
        ),
        LogMessage(
            kind="mpi-unreachable",
            cue=(
                "orte was unable to reliably start",
                "daemon has unexpectedly failed after launch",
                "died unexpectedly with status",
                "opal error: unreachable",
                "mpi_init failed for some reason",
                "fatal error in pmpi_init",
                "fatal error in mpi_init",
                "fatal error in internal_init",
                "an error occurred in mpi_init",
            ),
            pattern="ORTE was unable to reliably start one or more daemons|daemon has unexpectedly "
            r"failed after launch|[Aa] daemon \(pid \S{1,12}\) died unexpectedly with status "
            r"\d|OPAL ERROR: Unreachable|MPI_INIT failed for some reason|Fatal error in "
            "(?:PMPI|MPI|internal)_Init|An error occurred in MPI_Init",
            text="MPI could not start its processes.",
            everywhere=True,
            source="Open MPI help-errmgr-base.txt, help-plm-base.txt, help-mpi-runtime.txt; MPICH",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="rendezvous-timeout",
            cue=(
                "rendezvoustimeouterror",
                "rendezvousclosederror",
                "rendezvousstateerror",
                "rendezvousgracefulexiterror",
                "connectfullmesh",
            ),
            pattern="Rendezvous(?:Timeout|Closed|State)Error|connectFullMesh failed",
            text="Not all nodes came to the rendezvous.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="rendezvous-timeout",
            cue=("connectfullmesh failed",),
            pattern=r"Gloo connectFullMesh failed(?: with \[[^\]]{1,200}\] (?P<why>(?!no error)[^\n]{3,200}))?",
            text="A rank could not connect to all others by Gloo[: {why}].",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
        ),
        LogMessage(
            kind="address-in-use",
            cue=("server socket has failed to bind",),
            pattern=r"The server socket has failed to bind to \S{1,80}:(?P<port>\d{1,6}) \(errno: 98",
            text="The rendezvous port[ {port}] is in use already: another job, or a process that an "
            "earlier run left behind.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            general=True,
            closing=True,
            source="torch/csrc/distributed/c10d/socket.cpp",
        ),
        LogMessage(
            kind="unreachable",
            cue=("failed to connect to gcs at address",),
            pattern=r"Failed to connect to GCS at address (?P<host>[^\s,]{1,80}[^\s,.])",
            text="A process could not reach the rendezvous[ at {address}][ at {host}]. The address is "
            "wrong, a firewall blocks it, or the first node is not running.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.SUSPECTED,
            everywhere=True,
            general=True,
            last=True,
            source="Ray src/ray/gcs",
        ),
        LogMessage(
            kind="unreachable",
            cue=("gloo/transport/",),
            pattern=r"gloo/transport/(?:tcp|uv|ibverbs)/\S{1,60}:\d{1,6}\] (?P<gloo>[^\n]{3,200})",
            text="A connection of Gloo between two ranks failed: {gloo}.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            general=True,
            source="gloo/transport",
        ),
        LogMessage(
            kind="store-barrier",
            cue="store based barrier",
            pattern=r"(?:in store based barrier on rank: ?\d+.{0,120}?world_size=(?P<world>\d+), "
            r"(?:worker_count|num_workers_joined)=(?P<workers>\d+))|Timed out initializing process "
            "group in store based barrier",
            text="The process group was not complete in time[: {workers} processes joined, {world} were expected].",
        ),
        LogMessage(
            kind="store-barrier",
            cue=("waiting in store based barrier",),
            pattern=r"Waiting in store based barrier to initialize process group for rank: \d+, key: "
            r"\S{1,100} \(world_size=(?P<world>\d+), (?:worker_count|"
            r"num_workers_joined)=(?P<workers>\d+)",
            text="The process group is not complete: {workers} processes joined, {world} were expected.",
            everywhere=True,
            lasting=True,
            source="torch/distributed/distributed_c10d.py: printed every 10 s",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="no-group",
            cue=("default process group has not been initialized", "please make sure to call init_process_group"),
            pattern="Default process group has not been initialized",
            text="The program used torch.distributed before init_process_group.",
        ),
        LogMessage(
            kind="twice",
            cue="initialize the default process group twice",
            pattern="initialize the default process group twice",
            text="The program initialised the process group twice.",
        ),
        *MPI_UNREACHABLE,
    )
