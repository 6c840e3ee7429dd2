"""What to do about nodes, cards and links that failed an active examination."""

from gpudoctor.analysis.preflight.named_nodes import NodesDetail
from gpudoctor.lang import template
from gpudoctor.model import Advice, Effort, advise, where

_SLURM = "https://slurm.schedmd.com/scontrol.html"
_KUBERNETES = "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/"


def _leave_out(code: str, drain: str) -> Advice:
    """The job goes on without the nodes, and an administrator takes them out."""
    return advise(
        f"{code}-leave-out",
        "--exclude={hosts}",
        "sbatch --exclude={hosts} job.sbatch   # or srun --exclude={hosts}; start the job without them",
        drain,
        "kubectl cordon {spaced}   # Kubernetes",
        when=where(NodesDetail, lambda nodes: nodes.hosts),
        effort=Effort.SMALL_EDIT,
        references=(_SLURM, _KUBERNETES),
    )


ADVICE = (
    _leave_out(
        "NODE001",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE001: slow card'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE001-look",
        "find what slows the card on {host}",
        "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER,ECC   # on {host}, under load",
        "gpudoctor check   # on {host}: throttling, power limits, other processes",
        "gpudoctor preflight --burn 120s   # on {host} alone; a healthy card keeps its first figure",
        effort=Effort.ADMINISTRATOR,
    ),
    _leave_out(
        "NODE002",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE002: wrong values'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE002-replace",
        "replace the card on {host} after a test of the vendor",
        "gpudoctor preflight --deep   # on {host} alone: whether it comes back",
        "dcgmi diag -r 3   # NVIDIA's own test, as an administrator",
        "nvidia-smi -q | grep Serial; nvidia-smi -q -d ECC,ROW_REMAPPER   # for the vendor",
        "Checkpoints that this node wrote or reduced are suspect: compare losses with an older one.",
        when=where(NodesDetail, lambda nodes: nodes.hosts),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE002-more",
        "repeat the test with more cards of this kind",
        "gpudoctor preflight --deep   # with a third node: the majority decides",
        when=where(NodesDetail, lambda nodes: nodes.cause == "undecided"),
    ),
    _leave_out(
        "NODE003",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE003: memory bandwidth low'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE003-look",
        "check the memory of the card on {host}",
        "nvidia-smi -q -d ECC,ROW_REMAPPER,CLOCK   # on {host}: remapped rows, memory clock",
        "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv   # another process on the card",
        effort=Effort.ADMINISTRATOR,
    ),
    _leave_out(
        "NODE004",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE004: transfers between host and card slow'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE004-look",
        "check PCIe and NUMA placement on {host}",
        "nvidia-smi -q -d PCIE   # on {host}, under load: generation and width of the link",
        "nvidia-smi topo -m   # the card's NUMA node; bind the rank there: numactl --cpunodebind=N --membind=N",
        "dmesg | grep -i -e aer -e pcie   # corrected errors of the bus",
        effort=Effort.ADMINISTRATOR,
    ),
    _leave_out(
        "NODE005",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE005: link between cards slow'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE005-look",
        "check NVLink and peer access on {host}",
        "nvidia-smi nvlink --status; nvidia-smi nvlink -e; nvidia-smi topo -p2p r   # on {host}",
        "systemctl status nvidia-fabricmanager   # where there is an NVSwitch",
        effort=Effort.ADMINISTRATOR,
    ),
    _leave_out(
        "NODE006",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE006: network slow'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE006-node",
        "check the adapters of {host}",
        "ibstat; ethtool INTERFACE   # on {host}: state Active, the rate of its peers",
        "ethtool -S INTERFACE | grep -i -e err -e drop -e discard; rdma statistic   # counters that grow",
        "perfquery -x; ibdiagnet   # cables and switch ports, as an administrator",
        when=where(NodesDetail, lambda nodes: nodes.cause in ("node", "few") and nodes.hosts),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE006-rail",
        "check whether one of two rails or ports of {host} is down",
        "ibstat; cat /proc/net/bonding/* /sys/class/net/*/operstate   # on {host}: a port that is down",
        "ibstat | grep Rate; ethtool INTERFACE | grep Speed   # half the rate of its peers",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET   # in the job: the adapters that NCCL uses on {host}",
        when=where(NodesDetail, lambda nodes: nodes.cause == "half" and nodes.hosts),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE006-link",
        "check the path between the two nodes",
        "ibtracert LID LID   # InfiniBand; Ethernet: tracepath HOST, the MTU and route both ways",
        "Both nodes are good with others: a cable, a port of a switch or a route is at fault.",
        "Until then keep the two out of one job: exclude either.",
        when=where(NodesDetail, lambda nodes: nodes.cause == "link"),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE006-domain",
        "check what these nodes share: their switch, uplink or subnet",
        "iblinkinfo   # ports below their rate or width",
        "Ask for nodes of one rack: sbatch --switches=1",
        when=where(NodesDetail, lambda nodes: nodes.cause == "domain"),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE006-third",
        "repeat with a third node",
        "gpudoctor preflight   # with three or more nodes: two alone do not show which one is slow",
        when=where(NodesDetail, lambda nodes: nodes.cause == "few"),
    ),
    _leave_out(
        "NODE007",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE007: latency high'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE007-look",
        "check for loss and power saving on the named nodes",
        "ping -c 200 -i 0.01 HOST   # between the two nodes: loss and its spread",
        "cpupower frequency-info; cpupower idle-info   # deep sleep of the processor",
        "ethtool -c INTERFACE; ethtool -S INTERFACE | grep -i -e err -e drop   # coalescing and errors",
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE008-absent",
        "look why these ranks did not reach rank 0",
        "scontrol show job $SLURM_JOB_ID; squeue -j $SLURM_JOB_ID --steps   # are all tasks running",
        "getent hosts $MASTER_ADDR; nc -zv $MASTER_ADDR PORT   # on a missing node: name and port",
        "echo $MASTER_ADDR $MASTER_PORT $WORLD_SIZE   # equal on every node",
        when=where(NodesDetail, lambda nodes: nodes.cause == "absent"),
    ),
    advise(
        "NODE008-refused",
        "start every node with the same launch line and the same gpudoctor",
        "gpudoctor --version; echo $RANK $WORLD_SIZE $SLURM_PROCID $SLURM_NTASKS   # on each node",
        when=where(NodesDetail, lambda nodes: nodes.cause == "refused"),
    ),
    _leave_out(
        "NODE008",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE008: did not arrive'   # Slurm's administrator"
        ),
    ),
    _leave_out(
        "NODE009",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE009: rank lost'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE009-look",
        "read what ended or stopped the rank",
        "dmesg -T | tail -50; journalctl -k --since '-10 min'   # on its node: OOM killer, Xid, a lost bus",
        "scontrol show job $SLURM_JOB_ID   # a limit or a preemption",
        "gpudoctor preflight   # again, on that node alone: whether it comes back",
    ),
    advise(
        "NODE010-variable",
        "set {command} to one value on all nodes",
        "srun --export=ALL,{command}=VALUE ...   # or in the script that every node reads",
        "grep -rn {command} ~/.bashrc /etc/profile.d /etc/environment /etc/nccl.conf   # on the odd nodes",
        when=where(NodesDetail, lambda nodes: nodes.cause == "variable"),
    ),
    advise(
        "NODE010-code",
        "check out one commit on all nodes",
        "srun --ntasks-per-node=1 git -C $SLURM_SUBMIT_DIR rev-parse HEAD   # who differs",
        when=where(NodesDetail, lambda nodes: nodes.cause == "code"),
    ),
    advise(
        "NODE010-cpus",
        "give each task the same CPUs on all nodes",
        "nproc; cat /sys/fs/cgroup/cpu.max   # in the job, on the odd nodes: CPUs; quota and period in us",
        "resources.limits.cpu, docker --cpus, systemctl show -p CPUQuotaPerSecUSec UNIT   # who set the quota",
        when=where(NodesDetail, lambda nodes: nodes.cause == "cpus"),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE010-version",
        "give all nodes the same image, or leave the odd ones out",
        "srun --ntasks-per-node=1 gpudoctor check --format json > $(hostname).json   # versions of each node",
        when=where(NodesDetail, lambda nodes: nodes.cause == "version"),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE011-sync",
        "start a time service on {host}",
        "chronyc tracking; timedatectl   # on {host}",
        "sudo systemctl enable --now chronyd   # or systemd-timesyncd; then chronyc makestep",
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE012-visible",
        "make the folder visible on the named nodes",
        "findmnt -T {command}   # there and on a node that sees it",
        when=where(NodesDetail, lambda nodes: nodes.cause in ("invisible", "different")),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE012-writable",
        "make the folder writable for this user on the named nodes",
        "ls -ld {command}; id; findmnt -no OPTIONS -T {command}   # rights and mount options",
        when=where(NodesDetail, lambda nodes: nodes.cause == "unwritable"),
    ),
    advise(
        "NODE012-space",
        "free space in {command}",
        "df -h {command}; df -i {command}; lfs quota -h {command}   # space, inodes, quota",
        when=where(NodesDetail, lambda nodes: nodes.cause == "full"),
    ),
    advise(
        "NODE012-slow",
        "check the storage client of the named nodes",
        "nfsiostat 5 2; lctl get_param osc.*.import   # NFS or Lustre: retries, lost servers",
        "Until then leave these nodes out, or copy the data to a local disk before the training.",
        when=where(NodesDetail, lambda nodes: nodes.cause == "slow"),
        effort=Effort.ADMINISTRATOR,
    ),
    _leave_out(
        "NODE013",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE013: slow in large groups'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE013-fabric",
        "look at what only many nodes use",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING   # in the job: rings, trees, adapters in use",
        "iblinkinfo; ibdiagnet   # uplinks of switches, adaptive routing; as an administrator",
        effort=Effort.ADMINISTRATOR,
    ),
    _leave_out(
        "NODE014",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE014: throttles under load'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE014-cool",
        "check cooling and power of {host}",
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER   # under load: which limit is active",
        "ipmitool sdr type fan; ipmitool sdr type temperature   # fans and inlet, as an administrator",
        effort=Effort.ADMINISTRATOR,
    ),
    _leave_out(
        "NODE015",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE015: slow CPUs'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE015-quota",
        "raise the CPU quota of the job on {host}",
        "cat /sys/fs/cgroup/cpu.max   # on {host}, in the job: quota and period in microseconds",
        "resources.limits.cpu, docker --cpus, systemctl show -p CPUQuotaPerSecUSec UNIT   # who set the quota",
        when=where(NodesDetail, lambda nodes: nodes.cause == "quota"),
        effort=Effort.ADMINISTRATOR,
    ),
    advise(
        "NODE015-look",
        "find what takes the processors of {host}",
        "uptime; ps aux --sort=-%cpu | head   # on {host}: other work",
        "cat /sys/fs/cgroup/cpu.max; nproc   # the job's quota and CPUs; compare with another node",
        "cpupower frequency-info   # governor and limits",
    ),
    advise(
        "NODE016-there",
        "repeat the check on the named nodes and follow its remedies",
        "gpudoctor check   # there; gpudoctor explain {cause}",
        "{command}",
        when=where(NodesDetail, lambda nodes: nodes.command),
    ),
    advise(
        "NODE016-there",
        "repeat the check on the named nodes and follow its remedies",
        "gpudoctor check   # there; gpudoctor explain {cause}",
        when=where(NodesDetail, lambda nodes: not nodes.command),
    ),
    _leave_out(
        "NODE016",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE016: machine unfit'   # Slurm's administrator"
        ),
    ),
    _leave_out(
        "NODE017",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE017: slower than before'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE017-compare",
        "compare what changed since the baseline",
        "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER   # clocks and power limits today",
        "nvidia-smi --query-gpu=driver_version --format=csv   # and the driver of the baseline",
        "gpudoctor preflight --burn 120s   # whether it falls under load",
        effort=Effort.ADMINISTRATOR,
    ),
    _leave_out(
        "NODE018",
        template(
            "scontrol update NodeName={hosts} State=DRAIN "
            "Reason='gpudoctor NODE018: packets lost'   # Slurm's administrator"
        ),
    ),
    advise(
        "NODE018-look",
        "find where the packets are lost",
        "ethtool -S INTERFACE | grep -i -e err -e drop -e crc -e discard   # on both nodes: counters that grow",
        "ping -c 1000 -i 0.01 -s 8000 HOST   # between the two nodes; then exchange cable, module, switch port",
        "ip -s link show INTERFACE; tc -s qdisc   # on both nodes: drops of the queue",
        effort=Effort.ADMINISTRATOR,
    ),
)
