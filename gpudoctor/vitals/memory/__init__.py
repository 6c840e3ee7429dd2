"""The memory of a patient's jobs, before they run: configs and scripts in, the estimator's answers out."""
