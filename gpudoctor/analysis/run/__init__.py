"""What a recording says: pure functions from columns and records to numbers.

- `steady`: the part of a run after warm-up, compile and a cold first epoch; seconds and shares of its phases.
- `numbers`: statistics of steps, throughput, phases and lines of a whole run, for reports and comparisons.
- `costs`: what single places of the user's script cost: sites that hooks saw, lines that the sampler saw.
- `trends`, `growth`: robust slopes with significance; memory that grows, and when it runs out.
- `ranks`: ranks aligned by step, who waits for whom.
- `bounds`: what a measured share can give back at most.
"""
