"""What a recording says: pure functions from columns and records to numbers, and to places in the source.

- `steady_state`: a process after its warm-up; `steady_run`: the ranks together, and whether they are judged.
- `cost_attribution`: what phases, lines and calls cost; from `line_costs` (sites that hooks saw, lines that the
  sampler saw) and `line_ownership` (whose doing a line is).
- `run_numbers`: steps, throughput, phases and lines of a whole run, for reports and comparisons.
- `trends`, `curves`, `memory_growth`: slopes with significance; the loss and the gradients; memory that grows.
- `aligned_ranks`, `rank_positions`: who waits for whom, and where each rank stands when nothing moves.
- `recorded_statements`, `recorded_loaders`, `statement_effects`: the lines of a run in its source.
"""
