"""Where `nvidia-smi -q` writes each reading: paths of its XML and of its text, of present and former drivers.

The text's names are those of the XML as far as `blocks.named` makes them so. Drivers 418 to 565 are tested.
"""

_GPU_POWER = ("gpu_power_readings", "power_readings")
_LINK = ("pci/pci_gpu_link_info", "pci/gpu_link_info")


def _in(sections: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(f"{section}/{name}" for section in sections for name in names)


PATHS: dict[str, tuple[str, ...]] = {
    "name": ("product_name",),
    "uuid": ("uuid", "gpu_uuid"),
    "architecture": ("product_architecture",),
    "minor": ("minor_number",),
    "memory_total": ("fb_memory_usage/total", "memory_usage/total"),
    "memory_used": ("fb_memory_usage/used", "memory_usage/used"),
    "utilization": ("utilization/gpu_util", "utilization/gpu"),
    "ecc_enabled": ("ecc_mode/current_ecc", "ecc_mode/current"),
    "ecc_pending": ("ecc_mode/pending_ecc", "ecc_mode/pending"),
    "ecc_sram_threshold_exceeded": ("ecc_errors/aggregate/sram_threshold_exceeded",),
    "remapped_corrected": ("remapped_rows/remapped_row_corr", "remapped_rows/correctable_error"),
    "remapped_uncorrected": ("remapped_rows/remapped_row_unc", "remapped_rows/uncorrectable_error"),
    "remap_pending": ("remapped_rows/remapped_row_pending", "remapped_rows/pending"),
    "remap_failure": ("remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred"),
    "row_remap_exhausted_banks": (
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_none",
        "remapped_rows/bank_remap_availability_histogram/none",
    ),
    "retired_single": ("retired_pages/multiple_single_bit_retirement/retired_count",
                       "retired_pages/single_bit_ecc"),
    "retired_double": ("retired_pages/double_bit_retirement/retired_count", "retired_pages/double_bit_ecc"),
    "retired_pages_pending": (
        "retired_pages/pending_blacklist", "retired_pages/pending_retirement",
        "retired_pages/pending_page_blacklist", "retired_pages/pending",
    ),
    "recovery_action": ("gpu_recovery_action",),
    "reset_required": ("gpu_reset_status/reset_required",),
    "drain_recommended": ("gpu_reset_status/drain_and_reset_recommended",),
    "clock_sm": ("clocks/sm_clock", "clocks/sm"),
    "clock_sm_max": ("max_clocks/sm_clock", "max_clocks/sm"),
    "clock_application": ("applications_clocks/graphics_clock", "applications_clocks/graphics"),
    "clock_application_default": (
        "default_applications_clocks/graphics_clock", "default_applications_clocks/graphics",
    ),
    "power": _in(_GPU_POWER, "power_draw", "average_power_draw", "instant_power_draw",
                 "instantaneous_power_draw"),
    "power_limit": _in(_GPU_POWER, "current_power_limit", "enforced_power_limit", "power_limit"),
    "power_limit_default": _in(_GPU_POWER, "default_power_limit"),
    "temperature": ("temperature/gpu_temp", "temperature/gpu_current_temp", "temperature/gpu"),
    "temperature_slowdown": ("temperature/gpu_temp_slow_threshold", "temperature/gpu_slowdown_temp"),
    "temperature_max": ("temperature/gpu_temp_max_gpu_threshold", "temperature/gpu_max_operating_temp"),
    "temperature_memory": ("temperature/memory_temp", "temperature/memory_current_temp"),
    "temperature_memory_max": ("temperature/gpu_temp_max_mem_threshold",
                               "temperature/memory_max_operating_temp"),
    "temperature_margin": ("temperature/gpu_temp_tlimit", "temperature/gpu_t_limit_temp"),
    "pcie_width": _in(_LINK, "link_widths/current_link_width", "link_width/current"),
    "pcie_width_max": _in(_LINK, "link_widths/max_link_width", "link_width/max"),
    "pcie_generation": _in(_LINK, "pcie_gen/current_link_gen", "pcie_generation/current"),
    "pcie_generation_max": _in(_LINK, "pcie_gen/max_link_gen", "pcie_generation/max"),
    "pcie_replays": ("pci/replay_counter", "pci/replays_since_reset"),
    "fabric_state": ("fabric/state",),
    "fabric_status": ("fabric/status",),
    "fabric_summary": ("fabric/health/summary", "fabric/health/health_summary"),
    "persistence": ("persistence_mode",),
    "compute_mode": ("compute_mode",),
    "mig_enabled": ("mig_mode/current_mig", "mig_mode/current"),
    "vbios": ("vbios_version",),
    "display_active": ("display_active",),
}  # fmt: skip
"""By field of `Gpu`, or by a part of one."""
REASONS = {
    "idle": 0x1, "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8,
    "sync_boost": 0x10, "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80, "display_clock_setting": 0x100, "display_clocks_setting": 0x100,
}  # fmt: skip
"""NVML's bits of the reasons for lower clocks."""
REASON_SECTIONS = ("clocks_event_reasons", "clocks_throttle_reasons")
COUNTER_SECTION = "clocks_event_reasons_counters"
COUNTERS = {
    "sw_power_cap": "power", "sw_power_capping": "power",
    "sw_therm_slowdown": "thermal", "sw_thermal_slowdown": "thermal",
    "hw_therm_slowdown": "hw_thermal", "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake": "power_brake", "hw_power_braking": "power_brake",
}  # fmt: skip
"""Times since the driver was loaded, by the names of `Gpu.throttle_time`."""
