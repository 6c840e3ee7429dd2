"""The trial: bounded runs of the user's command, with and without a change, and what they prove."""
