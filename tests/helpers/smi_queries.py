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


def xml(*gpus: Mapping[str, str], attached: int | None = None, driver: str = "565.57.01") -> str:
    """The XML of driver 565."""
    blocks = [_XML.format(bus=f"{0x18 + n:02X}", n=n, **{**READINGS, **gpu}) for n, gpu in enumerate(gpus)]
    head = XML_HEAD.format(driver=driver, attached=attached or len(gpus))
    return head + "".join(blocks) + "</nvidia_smi_log>\n"


TEXT_HEAD = """
==============NVSMI LOG==============

Timestamp                                 : Thu Nov 14 06:30:01 2024
Driver Version                            : {driver}
CUDA Version                              : 12.7

Attached GPUs                             : {attached}
"""
XML_HEAD = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Thu Nov 14 06:30:01 2024</timestamp>
	<driver_version>{driver}</driver_version>
	<cuda_version>12.7</cuda_version>
	<attached_gpus>{attached}</attached_gpus>
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
_XML = """	<gpu id="00000000:{bus}:00.0">
		<product_name>{name}</product_name>
		<product_architecture>Hopper</product_architecture>
		<display_active>{display}</display_active>
		<persistence_mode>{persistence}</persistence_mode>
		<mig_mode><current_mig>{mig}</current_mig><pending_mig>{mig}</pending_mig></mig_mode>
		<mig_devices>
			None
		</mig_devices>
		<uuid>GPU-00000000-0000-0000-0000-00000000000{n}</uuid>
		<minor_number>{n}</minor_number>
		<vbios_version>96.00.74.00.01</vbios_version>
		<gpu_reset_status><reset_required>Requested functionality has been deprecated</reset_required></gpu_reset_status>
		<gpu_recovery_action>{recovery}</gpu_recovery_action>
		<pci>
			<pci_bus_id>00000000:{bus}:00.0</pci_bus_id>
			<pci_gpu_link_info>
				<pcie_gen>
					<max_link_gen>5</max_link_gen>
					<current_link_gen>{generation}</current_link_gen>
					<device_current_link_gen>{generation}</device_current_link_gen>
				</pcie_gen>
				<link_widths>
					<max_link_width>16x</max_link_width>
					<current_link_width>{width}</current_link_width>
				</link_widths>
			</pci_gpu_link_info>
			<replay_counter>{replays}</replay_counter>
		</pci>
		<clocks_event_reasons>
			<clocks_event_reason_gpu_idle>{idle}</clocks_event_reason_gpu_idle>
			<clocks_event_reason_sw_power_cap>{power_cap}</clocks_event_reason_sw_power_cap>
			<clocks_event_reason_hw_slowdown>{hw}</clocks_event_reason_hw_slowdown>
			<clocks_event_reason_hw_thermal_slowdown>{hw_thermal}</clocks_event_reason_hw_thermal_slowdown>
			<clocks_event_reason_hw_power_brake_slowdown>{hw_brake}</clocks_event_reason_hw_power_brake_slowdown>
			<clocks_event_reason_sw_thermal_slowdown>{sw_thermal}</clocks_event_reason_sw_thermal_slowdown>
			<clocks_event_reason_display_clocks_setting>Not Active</clocks_event_reason_display_clocks_setting>
		</clocks_event_reasons>
		<clocks_event_reasons_counters>
			<clocks_event_reasons_counters_sw_power_cap>2000000 us</clocks_event_reasons_counters_sw_power_cap>
			<clocks_event_reasons_counters_sw_therm_slowdown>0 us</clocks_event_reasons_counters_sw_therm_slowdown>
			<clocks_event_reasons_counters_hw_therm_slowdown>0 us</clocks_event_reasons_counters_hw_therm_slowdown>
			<clocks_event_reasons_counters_hw_power_brake>{brake_time}</clocks_event_reasons_counters_hw_power_brake>
		</clocks_event_reasons_counters>
		<fb_memory_usage><total>81559 MiB</total><reserved>454 MiB</reserved><used>{used}</used></fb_memory_usage>
		<bar1_memory_usage><total>131072 MiB</total><used>4 MiB</used></bar1_memory_usage>
		<compute_mode>{mode}</compute_mode>
		<utilization><gpu_util>{util}</gpu_util><memory_util>40 %</memory_util></utilization>
		<ecc_mode><current_ecc>{ecc}</current_ecc><pending_ecc>{ecc}</pending_ecc></ecc_mode>
		<ecc_errors>
			<volatile>
				<sram_correctable>0</sram_correctable>
				<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
				<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
				<dram_correctable>{corrected}</dram_correctable>
				<dram_uncorrectable>{uncorrected}</dram_uncorrectable>
			</volatile>
			<aggregate>
				<sram_correctable>0</sram_correctable>
				<sram_uncorrectable_parity>{sram}</sram_uncorrectable_parity>
				<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
				<dram_correctable>{corrected}</dram_correctable>
				<dram_uncorrectable>{uncorrected}</dram_uncorrectable>
				<sram_threshold_exceeded>{threshold}</sram_threshold_exceeded>
			</aggregate>
			<aggregate_uncorrectable_sram_sources><sram_l2>{sram}</sram_l2></aggregate_uncorrectable_sram_sources>
		</ecc_errors>
		<retired_pages>
			<multiple_single_bit_retirement><retired_count>N/A</retired_count></multiple_single_bit_retirement>
			<double_bit_retirement><retired_count>N/A</retired_count></double_bit_retirement>
			<pending_blacklist>N/A</pending_blacklist>
			<pending_retirement>N/A</pending_retirement>
		</retired_pages>
		<remapped_rows>
			<remapped_row_corr>0</remapped_row_corr>
			<remapped_row_unc>{remapped}</remapped_row_unc>
			<remapped_row_pending>{pending}</remapped_row_pending>
			<remapped_row_failure>{failure}</remapped_row_failure>
			<row_remapper_histogram><row_remapper_histogram_none>{banks}</row_remapper_histogram_none></row_remapper_histogram>
		</remapped_rows>
		<temperature>
			<gpu_temp>{temperature}</gpu_temp>
			<gpu_temp_tlimit>40 C</gpu_temp_tlimit>
			<memory_temp>60 C</memory_temp>
		</temperature>
		<gpu_power_readings>
			<average_power_draw>650.00 W</average_power_draw>
			<instant_power_draw>699.10 W</instant_power_draw>
			<current_power_limit>{limit}</current_power_limit>
			<default_power_limit>{default}</default_power_limit>
		</gpu_power_readings>
		<module_power_readings><current_power_limit>N/A</current_power_limit></module_power_readings>
		<clocks><graphics_clock>1900 MHz</graphics_clock><sm_clock>1900 MHz</sm_clock></clocks>
		<applications_clocks><graphics_clock>1980 MHz</graphics_clock></applications_clocks>
		<default_applications_clocks><graphics_clock>1980 MHz</graphics_clock></default_applications_clocks>
		<max_clocks><graphics_clock>1980 MHz</graphics_clock><sm_clock>1980 MHz</sm_clock></max_clocks>
		<fabric><state>{fabric}</state><status>{status}</status><health><bandwidth>N/A</bandwidth></health></fabric>
		<supported_clocks>
			<supported_mem_clock><value>2619 MHz</value><supported_graphics_clock>1980 MHz</supported_graphics_clock></supported_mem_clock>
		</supported_clocks>
		<processes>
			<process_info>
				<gpu_instance_id>N/A</gpu_instance_id><pid>17142</pid><type>C</type>
				<process_name>/usr/bin/python train.py</process_name><used_memory>60500 MiB</used_memory>
			</process_info>
			<process_info>
				<pid>900</pid><type>G</type><process_name>/usr/lib/xorg/Xorg</process_name>
				<used_memory>N/A</used_memory>
			</process_info>
		</processes>
	</gpu>
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
