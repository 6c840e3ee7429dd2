"""Lines of old and new kernels, of the drivers of GPUs, of squeue and of launchers by ssh."""

import pytest
from log_cases import found_in_log
from log_causes import autopsy, written

KERNEL = [
    ("GPU003", "NVRM: Xid (PCI:0000:3b:00): 94, pid=4711, name=python, Contained: SM (0x1). RST: No"),
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
    ("FAIL002", "python invoked oom-killer: gfp_mask=0x14200ca, order=0, oom_score_adj=0"),
    ("FAIL006", "traps: python[4711] trap invalid opcode ip:7f sp:7f error:0 in libfit.so[7f+1]"),
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
def test_what_a_kernel_says(form, tmp_path, capsys):
    shift = FORMS.index(form)  # each line in one of the forms
    for at, (code, line) in enumerate([*KERNEL, *(("no failure in its", line) for line in CALM)]):
        if at % len(FORMS) == shift:
            assert code in autopsy(capsys, written(tmp_path / "dmesg.txt", of_kernel(line, form)))[1], line


@pytest.mark.parametrize("line", [
    "[22342.96] [drm:mes_v11_0_submit_pkt_and_poll_completion.constprop.0 [amdgpu]] *ERROR* MES failed to response msg=3",
    "[22342.96] amdgpu 0000:c1:00.0: amdgpu: SMU: No response msg_reg: 12 resp_reg: 0",
    "[22342.96] NVRM: GPU0 _issueRpcAndWait: rpcRecvPoll timedout for fn 76",
])  # fmt: skip
def test_a_line_of_a_kernel_log_that_names_no_number_makes_a_finding(line, tmp_path):
    [finding] = found_in_log("GPU004", tmp_path, "[  900.12] eth0: link up\n" + line + "\n")
    assert finding.evidence[0].line == 2


def test_an_event_with_a_number_is_judged_by_it_once(tmp_path):
    line = "[ 4242.0] NVRM: Xid (PCI:0000:3b:00): 119, pid=4711, name=python, Timeout waiting for RPC\n"
    [finding] = found_in_log("GPU004", tmp_path, "[  900.12] eth0: link up\n" + line)
    assert "Xid 119" in str(finding.message)
