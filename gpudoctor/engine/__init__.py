"""The engine: finds checks and rules, runs them on a patient, silences, ranks and sums up. It never prints."""
