"""What a scheduler kept of a job: Slurm's accounting (`sacct`)."""
