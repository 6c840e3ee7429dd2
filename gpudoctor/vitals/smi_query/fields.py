"""Where `nvidia-smi -q` writes each reading, in present and former drivers. Drivers 418 to 565 are tested."""

_GPU_POWER = ("gpu_power_readings", "power_readings")
_LINK = "pci/gpu_link_info"


def _in(sections: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(f"{section}/{name}" for section in sections for name in names)


PATHS: dict[str, tuple[str, ...]] = {
    "name": ("product_name",),
    "uuid": ("gpu_uuid",),
    "minor": ("minor_number",),
    "memory_total": ("fb_memory_usage/total", "memory_usage/total"),
    "memory_used": ("fb_memory_usage/used", "memory_usage/used"),
    "utilization": ("utilization/gpu",),
    "ecc_sram_threshold_exceeded": ("ecc_errors/aggregate/sram_threshold_exceeded",),
    "remapped_uncorrected": ("remapped_rows/uncorrectable_error",),
    "remap_pending": ("remapped_rows/pending",),
    "remap_failure": ("remapped_rows/remapping_failure_occurred",),
    "row_remap_exhausted_banks": ("remapped_rows/bank_remap_availability_histogram/none",),
    "retired_single": ("retired_pages/single_bit_ecc",),
    "retired_double": ("retired_pages/double_bit_ecc",),
    "retired_pages_pending": ("retired_pages/pending_page_blacklist", "retired_pages/pending"),
    "recovery_action": ("gpu_recovery_action",),
    "reset_required": ("gpu_reset_status/reset_required",),
    "drain_recommended": ("gpu_reset_status/drain_and_reset_recommended",),
    "clock_sm": ("clocks/sm",),
    "clock_sm_max": ("max_clocks/sm",),
    "power": _in(_GPU_POWER, "power_draw", "average_power_draw", "instantaneous_power_draw"),
    "power_limit": _in(_GPU_POWER, "current_power_limit", "enforced_power_limit", "power_limit"),
    "power_limit_default": _in(_GPU_POWER, "default_power_limit"),
    "temperature": ("temperature/gpu_current_temp", "temperature/gpu"),
    "temperature_slowdown": ("temperature/gpu_slowdown_temp",),
    "temperature_max": ("temperature/gpu_max_operating_temp",),
    "temperature_memory": ("temperature/memory_current_temp",),
    "temperature_memory_max": ("temperature/memory_max_operating_temp",),
    "temperature_margin": ("temperature/gpu_t_limit_temp",),
    "pcie_width": (f"{_LINK}/link_width/current",),
    "pcie_width_max": (f"{_LINK}/link_width/max",),
    "pcie_generation": (f"{_LINK}/pcie_generation/current",),
    "pcie_generation_max": (f"{_LINK}/pcie_generation/max",),
    "fabric_state": ("fabric/state",),
    "fabric_status": ("fabric/status",),
    "fabric_summary": ("fabric/health/summary",),
    "persistence": ("persistence_mode",),
    "compute_mode": ("compute_mode",),
    "mig_enabled": ("mig_mode/current",),
    "display_active": ("display_active",),
}
"""By field of `Gpu`, or by a part of one."""
REASONS = {
    "idle": 0x1, "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8,
    "sync_boost": 0x10, "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80, "display_clock_setting": 0x100, "display_clocks_setting": 0x100,
}  # fmt: skip
"""NVML's bits of the reasons for lower clocks."""
REASON_SECTIONS = ("clocks_event_reasons", "clocks_throttle_reasons")
