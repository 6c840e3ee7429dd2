"""The memory of a patient's jobs, before they run: configs and scripts in, the estimator's answers out.

`from_config`, `from_arguments` and `from_script` read what is written into `Told`; `jobs` puts together what
belongs to one run; `forecast` asks the estimator; `reader` finds model and card.
"""
