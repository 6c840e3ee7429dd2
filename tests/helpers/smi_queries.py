"""Outputs of `nvidia-smi -q` in layouts of several drivers, made of the readings that a test names."""

from collections.abc import Mapping

READINGS: Mapping[str, str] = {
    "name": "NVIDIA H100 80GB HBM3", "persistence": "Enabled", "mig": "Disabled", "recovery": "None",
    "width": "16x", "generation": "5", "replays": "0", "idle": "Not Active", "sw_thermal": "Not Active",
    "hw": "Not Active", "hw_thermal": "Not Active", "hw_brake": "Not Active", "power_cap": "Not Active",
    "used": "61000 MiB", "mode": "Default", "util": "98 %", "ecc": "Enabled", "corrected": "0",
    "uncorrected": "0", "sram": "0", "threshold": "No", "remapped": "0", "pending": "No", "failure": "No",
    "banks": "0 bank(s)", "temperature": "50 C", "limit": "700.00 W", "default": "700.00 W",
    "brake_time": "0 us", "fabric": "Completed", "status": "Success", "display": "Disabled",
}  # fmt: skip
"""A healthy card at work; each key is what a test may change."""


def text(*gpus: Mapping[str, str], attached: int | None = None, driver: str = "565.57.01") -> str:
    """The listing of driver 565."""
    blocks = [_TEXT.format(bus=f"{0x18 + n:02X}", n=n, **{**READINGS, **gpu}) for n, gpu in enumerate(gpus)]
    return TEXT_HEAD.format(driver=driver, attached=attached or len(gpus)) + "\n".join(blocks) + "\n"


TEXT_HEAD = """
==============NVSMI LOG==============

Timestamp                                 : Thu Nov 14 06:30:01 2024
Driver Version                            : {driver}
CUDA Version                              : 12.7

Attached GPUs                             : {attached}
"""
_TEXT = """GPU 00000000:{bus}:00.0
    Product Name                          : {name}
    Product Architecture                  : Hopper
    Display Active                        : {display}
    Persistence Mode                      : {persistence}
    MIG Mode
        Current                           : {mig}
        Pending                           : {mig}
    GPU UUID                              : GPU-00000000-0000-0000-0000-00000000000{n}
    Minor Number                          : {n}
    VBIOS Version                         : 96.00.74.00.01
    GPU Reset Status
        Reset Required                    : Requested functionality has been deprecated
        Drain and Reset Recommended       : Requested functionality has been deprecated
    GPU Recovery Action                   : {recovery}
    PCI
        Bus Id                            : 00000000:{bus}:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : {generation}
                Device Current            : {generation}
            Link Width
                Max                       : 16x
                Current                   : {width}
        Bridge Chip
            Type                          : N/A
        Replays Since Reset               : {replays}
    Clocks Event Reasons
        Idle                              : {idle}
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : {power_cap}
        HW Slowdown                       : {hw}
            HW Thermal Slowdown           : {hw_thermal}
            HW Power Brake Slowdown       : {hw_brake}
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : {sw_thermal}
        Display Clock Setting             : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 2000000 us
        Sync Boost                        : 0 us
        SW Thermal Slowdown               : 0 us
        HW Thermal Slowdown               : 0 us
        HW Power Braking                  : {brake_time}
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 454 MiB
        Used                              : {used}
    BAR1 Memory Usage
        Total                             : 131072 MiB
        Used                              : 4 MiB
    Compute Mode                          : {mode}
    Utilization
        Gpu                               : {util}
        Memory                            : 40 %
    ECC Mode
        Current                           : {ecc}
        Pending                           : {ecc}
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : {corrected}
            DRAM Uncorrectable            : {uncorrected}
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : {sram}
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : {corrected}
            DRAM Uncorrectable            : {uncorrected}
            SRAM Threshold Exceeded       : {threshold}
        Aggregate Uncorrectable SRAM Sources
            SRAM L2                       : {sram}
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : {remapped}
        Pending                           : {pending}
        Remapping Failure Occurred        : {failure}
        Bank Remap Availability Histogram
            Max                           : 2560 bank(s)
            None                          : {banks}
    Temperature
        GPU Current Temp                  : {temperature}
        GPU T.Limit Temp                  : 40 C
        GPU Shutdown T.Limit Temp         : -8 C
        Memory Current Temp               : 60 C
    GPU Power Readings
        Average Power Draw                : 650.00 W
        Instantaneous Power Draw          : 699.10 W
        Current Power Limit               : {limit}
        Default Power Limit               : {default}
    Module Power Readings
        Current Power Limit               : N/A
    Clocks
        Graphics                          : 1900 MHz
        SM                                : 1900 MHz
    Applications Clocks
        Graphics                          : 1980 MHz
    Default Applications Clocks
        Graphics                          : 1980 MHz
    Max Clocks
        Graphics                          : 1980 MHz
        SM                                : 1980 MHz
    Fabric
        State                             : {fabric}
        Status                            : {status}
        Health
            Bandwidth                     : N/A
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 17142
            Type                          : C
            Name                          : /usr/bin/python train.py
            Used GPU Memory               : 60500 MiB
        Process ID                        : 900
            Type                          : G
            Name                          : /usr/lib/xorg/Xorg
            Used GPU Memory               : N/A
"""
OLD_TEXT = """
==============NVSMI LOG==============

Timestamp                           : Wed Jun 28 11:21:36 2017
Driver Version                      : 418.67

Attached GPUs                       : 1
GPU 0000:06:00.0
    Product Name                    : Tesla V100-SXM2-16GB
    Persistence Mode                : Enabled
    GPU UUID                        : GPU-00000000-0000-0000-0000-0000000000aa
    PCI
        Bus Id                      : 0000:06:00.0
        GPU Link Info
            PCIe Generation
                Max                 : 3
                Current             : 3
            Link Width
                Max                 : 16x
                Current             : 16x
        Replays since reset         : 4
    Clocks Throttle Reasons
        Idle                        : Not Active
        SW Power Cap                : Active
        HW Slowdown                 : Not Active
        Unknown                     : Not Active
    FB Memory Usage
        Total                       : 16130 MiB
        Used                        : 11 MiB
    Compute Mode                    : Exclusive_Process
    Utilization
        Gpu                         : 5 %
    Ecc Mode
        Current                     : Enabled
        Pending                     : Disabled
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 3
                Total               : 7
            Double Bit
                Device Memory       : 1
                Total               : {double}
        Aggregate
            Single Bit
                Total               : 7
            Double Bit
                Total               : 2
    Retired Pages
        Single Bit ECC              : 2
        Double Bit ECC              : {pages}
        Pending                     : {waits}
    Temperature
        GPU Current Temp            : 41 C
        GPU Slowdown Temp           : 87 C
        GPU Max Operating Temp      : 83 C
        Memory Current Temp         : [Not Supported]
    Power Readings
        Power Draw                  : 39.12 W
        Power Limit                 : 300.00 W
        Default Power Limit         : 300.00 W
        Enforced Power Limit        : 250.00 W
    Clocks
        SM                          : 135 MHz
    Max Clocks
        SM                          : 1530 MHz
    Processes                       : None
"""
"""Driver 418: other names of power and throttling, ECC totals, page retirement; no CUDA version, no MIG."""
