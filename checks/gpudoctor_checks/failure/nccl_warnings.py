"""What NCCL and RCCL warn of when a call fails, by families; and any other warning that nothing follows."""

from gpudoctor.model import Bearing, Confidence, LogMessage

_HARMLESS = (
    r"(?!.{0,250}(?:\b[Ii]gnor(?:ed|ing)\b|[Ff]all(?:ing)? ?back|network instead|[Dd]isabling|[Ss]kipping|"
    r"default(?:s|ing) to|"
    r"not using it|cap it\b|set it to\b|Continue\.|performance|real path of|not supported (?:prior|"
    r"on this system)|"
    r"old driver))"
)
"""NCCL goes on with another way."""

NCCL_WARNINGS = (
    LogMessage(
        kind="p2p",
        cue=("ipcgetmemhandle", "ipcopenmemhandle", "ipc handle", "failed to peer with", "p2p is disabled between"),
        pattern=r"NCCL WARN .{0,80}?(?:(?P<call>(?:cuda|hip)Ipc(?:Get|Open)MemHandle)|IPC handle|"
        r"failed to peer with|"
        r"P2P is disabled between)",
        text="NCCL could not use the memory of another GPU directly[ ({call})]: {said}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        general=True,
        closing=True,
        source="NCCL src/transport/p2p.cc, src/graph/paths.cc; RCCL",
    ),
    LogMessage(
        kind="system-error",
        cue=("nccl warn",),
        pattern=r"NCCL WARN (?!.{0,200}Disabling).{0,60}?(?:failed to (?:create|open|extend) |Could not map |"
        r"while \w{1,20} shared memory |ShmObject::\w+|Unrecoverable error detected|Failed to malloc)",
        text="NCCL could not get memory of the host that its processes share: {said}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        general=True,
        closing=True,
        source="NCCL src/misc/shmutils.cc, src/os/linux.cc; RCCL",
    ),
    LogMessage(
        kind="socket",
        cue=("nccl warn",),
        pattern=r"NCCL WARN (?!.{0,200}(?:ignoring|closed by remote peer))(?:\S{1,60}: )?(?:Net ?: |"
        r"NET/Socket ?:|UDS: |"
        r"(?:nccl|ncclOs|ncclIpc)?[Ss]ocket\w{0,40}[ :]|\[(?:Proxy |)[Ss]ervice[^\]]{0,20}\] .{0,60}?[Ss]ock)",
        text="NCCL could not use a socket between ranks: {said}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        general=True,
        closing=True,
        source="NCCL src/misc/socket.cc, src/os/linux.cc, src/misc/ipcsocket.cc, src/proxy.cc",
    ),
    LogMessage(
        kind="ib",
        cue=("net/ib", "ibv_", "nccl_ib_", "warn ib_", "net/ofi", "mlx5dv"),
        pattern=rf"NCCL WARN {_HARMLESS}.{{0,40}}?(?:NET/IB ?:(?! ?SHARP)|NET/OFI|\bibv_\w{{1,40}}|"
        rf"\bmlx5dv_\w{{1,40}}|"
        r"NCCL_IB_\w{1,30})",
        text="NCCL's network between nodes failed: {said}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        general=True,
        closing=True,
        source="NCCL src/transport/net_ib; aws-ofi-nccl",
    ),
    LogMessage(
        kind="version",
        cue=("nccl library is ", "compiled with too old", "nccl warn cuda driver version"),
        pattern=r"NCCL WARN (?:NCCL library is (?:too old|not backwards)|"
        r"The application was compiled with too old|"
        r"CUDA Driver version found is)",
        text="This version of NCCL does not fit the program or the driver: {said}.",
        everywhere=True,
        closing=True,
        source="NCCL src/dev_runtime.cc, src/misc/cudawrap.cc",
    ),
    LogMessage(
        kind="invalid-usage",
        cue=("nccl warn",),
        pattern=rf"NCCL WARN {_HARMLESS}.{{0,100}}?(?:\b[Ii]nvalid (?:root|type|rank|reduction|usage|"
        rf"argument|config|count|"
        r"communicator|CUDA device)\b|\bmismatch|in the same group|is not a valid (?:pointer|communicator|"
        r"rank)|"
        r"without a matching|has already been destroyed|should not be called|is garbage|"
        r"unknown to this communicator|"
        r"before the previous operation returned|allocated on device)",
        text="NCCL refused a call as invalid: {said}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        general=True,
        closing=True,
        source="NCCL src/misc/argcheck.cc, src/init.cc, src/enqueue.cc, src/bootstrap.cc",
    ),
    LogMessage(
        kind="system-error",
        cue=(
            "unhandled cuda error",
            "unhandled hip error",
            "unhandled system error",
            "internal error",
            "invalid usage",
        ),
        pattern=r"\b[NR]CCL (?:[Ee]rror|ERROR|[Ff]ailure)\b[^\n]{0,120}?[^\w\n](?P<error>unhandled (?:cuda|"
        r"hip|system) error|"
        r"internal error|invalid usage)",
        text="A call of NCCL failed: {error}. Its own log (NCCL_DEBUG=INFO) says where.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.PROBABLE,
        everywhere=True,
        general=True,
        closing=True,
        source="NCCL ncclGetErrorString, as nccl-tests and other C++ programs print it",
    ),
    LogMessage(
        kind="ib",
        cue=("<warn> ", "net/ofi ", "returned -1: ", "fatal: "),
        pattern=r"\blibfabric:\d{1,8}:\S{1,200}<warn> (?P<fabric>.{0,120}?(?:[Ff]ail|[Ee]rror|err: |"
        r"[Tt]imed? ?out|"
        r"[Uu]nresponsive|[Uu]nrecoverable|[Aa]bort|refused|unreachable).{0,160})|"
        r"\bNET/OFI (?P<ofi>(?:Unable to|Fail(?:ed|ing)|Could not|Aborting).{3,160})|"
        r"^\[\S{1,80}:\d{1,8}:\d{1,4}:\d{1,8}\] {1,8}\S{1,60}\.c:\d{1,6} {1,4}(?P<ucx>.{0,120}(?:returned "
        r"-1: |Fatal: ).{3,120})",
        text="The last line is an error of the network between nodes[: {fabric}][: {ofi}][: {ucx}].",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        general=True,
        last=True,
        source="libfabric prov/; aws-ofi-nccl; UCX",
    ),
    LogMessage(
        kind="warned",
        cue=("nccl warn",),
        pattern=rf"NCCL WARN {_HARMLESS}(?P<warned>\S.{{7,249}}[^\s.])",
        text="The last line is a warning of NCCL: {warned}.",
        bearing=Bearing.SYMPTOM,
        confidence=Confidence.SUSPECTED,
        everywhere=True,
        general=True,
        last=True,
        source="NCCL: a call that fails warns before it returns",
    ),
)
