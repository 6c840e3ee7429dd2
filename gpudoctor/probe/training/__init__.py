"""What is really trained: batches, labels, parameters, schedules, states. Seen on steps that are looked at closely.

A light step is only timed, and nothing here runs in it (`clock.light`). A device's numbers are handed to
`numerics.read_all` and never waited for. Each module gives its hook an entry in `probe/start.py`.
"""
