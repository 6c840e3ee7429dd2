"""Lines of old and new kernels, of the drivers of GPUs, of squeue and of launchers by ssh."""

import pytest
from log_causes import named, root_of, steps

from gpudoctor.cli import main

TRAINED = steps(1, 30)
KERNEL = [
    ("GPU003", "NVRM: Xid (PCI:0000:3b:00): 94, pid=4711, name=python, Contained: SM (0x1). RST: No"),
    ("GPU003", "amdgpu 0000:c1:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block"),
    ("GPU003", "amdgpu 0000:c1:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"),
    ("GPU004", "nvidia-nvswitch3: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 03 LTSSM Fault Up"),
    ("GPU004", "NVRM: krcWatchdog: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7"),
    ("GPU004", "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring comp_1.0.0 timeout, signaled seq=12, emitted seq=14"),
    ("GPU004", "amdgpu 0000:c1:00.0: amdgpu: device lost from bus!"),
    ("GPU004", "nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"),
    ("GPU004", "amdgpu 0000:c1:00.0: [gfxhub0] no-retry page fault (src_id:0 ring:24, for process python pid 4711)"),
    ("ENV001", "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x65:2027)"),
    ("ENV001", "nvidia: probe of 0000:3b:00.0 failed with error -1"),
    ("ENV001", "amdgpu 0000:c1:00.0: amdgpu: Fatal error during GPU init"),
    ("FAIL002", "Task in /slurm/job_47/step_0 killed as a result of limit of /slurm/job_47"),
    ("FAIL002", "python invoked oom-killer: gfp_mask=0x14200ca, order=0, oom_score_adj=0"),
    ("FAIL002", "Memory failure: 0x12: Sending SIGBUS to python:4711 due to hardware memory corruption"),
    ("FAIL002", "Kernel panic - not syncing: Fatal machine check"),
    ("FAIL006", "traps: python[4711] trap invalid opcode ip:7f sp:7f error:0 in libfit.so[7f+1]"),
    ("FAIL006", "traps: python[4711] trap divide error ip:7f sp:7f error:0 in libfit.so[7f+1]"),
    ("FAIL016", "XFS (nvme0n1): Filesystem has been shut down due to log error (0x2)."),
    ("FAIL016", "nfs: server storage7 not responding, timed out"),
]
CALM = [
    "NVRM: Xid (PCI:0000:3b:00): 63, pid=9, Row Remapper: New row marked for remapping, reset gpu to activate.",
    "nvidia-nvswitch3: SXid (PCI:0000:c2:00.0): 20012, Non-fatal, Link 44 LTSSM timeout",
    "pcieport 0000:00:01.0: AER: Corrected error received: 0000:3b:00.0",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
    "amdgpu 0000:c1:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
    "blk_update_request: I/O error, dev fd0, sector 0",
    "Chrome_ChildIOT[812]: segfault at 0 ip 00007f sp 00007f error 4 in chrome[7f0+1]",
    "init: Service 'vendor.sensors' (pid 812) received signal 11",
]


def of_kernel(line, form):
    others = [f"usb {n}-1: New USB device found" for n in range(9)]
    return "".join(form.format(n, each) + "\n" for n, each in enumerate([*others, line, *others[:3]]))


FORMS = (
    "[   {0}.123456] {1}",
    "Mar  1 10:00:{0:02} n7 kernel: [  1{0}.123456] {1}",
    "[Sat Mar  1 10:00:{0:02} 2025] {1}",
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("code", "line"), KERNEL)
def test_what_a_kernel_says(code, line, form, tmp_path, capsys):
    path = tmp_path / "dmesg.txt"
    path.write_text(of_kernel(line, form), encoding="utf-8")
    main(["autopsy", str(path)])
    assert code in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("line", CALM)
def test_what_a_kernel_says_and_no_job_dies_of(line, form, tmp_path, capsys):
    path = tmp_path / "dmesg.txt"
    path.write_text(of_kernel(line, form), encoding="utf-8")
    main(["autopsy", str(path)])
    assert "no failure in its" in capsys.readouterr().out


def test_storage_that_answers_again(tmp_path):
    assert named(tmp_path, "nfs: server s7 not responding, timed out\nnfs: server s7 OK\n") is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("node-failure", "                 2   compute     wrap   ubuntu NF       2:55      1 n7\n"),
        ("time-limit", "            4711_3     gpu      fit        u TO 1-00:00:00      4 n[7-10]\n"),
        ("oom-kubernetes", "              4711     gpu      fit        u OOM      2:55      1 n7\n"),
        ("node-failure", "Not responding       slurm     2025-03-01T10:00:00 n7\n"),
        ("node-failure", "   Reason=Kill task failed [root@2025-03-01T10:00:00]\n"),
        ("node-failure", "n7      NotReady   <none>   21m   v1.20.6\n"),
        ("ssh", "ORTE was unable to reliably start one or more daemons.\n"),
        ("scheduler", "srun: fatal: SLURM_MEM_PER_CPU and SLURM_MEM_PER_NODE are mutually exclusive.\n"),
        ("scheduler", "salloc: error: Job submit/allocate failed: Job violates accounting/QOS policy\n"),
        ("driver-init", "Failed to initialize NVML: could not load NVML library.\n"),
    ],
)
def test_tables_and_launchers(kind, text, tmp_path):
    assert root_of(tmp_path, text).kind == kind
    assert named(tmp_path, text + TRAINED) is None


@pytest.mark.parametrize(
    "text",
    [
        "              4711     gpu      fit        u  R      2:55      1 n7\n",
        "              4711     gpu      to it      u CG      2:55      1 n7\n",
        "n7      Ready      <none>   21m   v1.20.6\n",
        "none   slurm     2025-03-01T10:00:00 n7\n",
    ],
)
def test_tables_of_jobs_and_nodes_that_are_well(text, tmp_path):
    assert named(tmp_path, text) is None
