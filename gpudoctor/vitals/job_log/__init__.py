"""Reads what a job printed: any launcher's prefixes, any number of ranks, one pass, bounded memory."""

from gpudoctor.vitals.job_log.reader import read_job_log

__all__ = ["read_job_log"]
