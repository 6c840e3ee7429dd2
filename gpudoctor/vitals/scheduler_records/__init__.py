"""What a scheduler kept of a job: `sacct`, `scontrol show job`, `kubectl describe pod`, its events.

`slurm` reads its forms, `kubernetes` makes a text of a log of its own; `into_log` makes events of a job's log of them.
"""

from gpudoctor.vitals.scheduler_records.into_log import begins_as_record, is_scheduler_record, with_scheduler_records

__all__ = ["begins_as_record", "is_scheduler_record", "with_scheduler_records"]
