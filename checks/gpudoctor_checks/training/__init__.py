"""What a run really trained: labels, inputs, parameters, schedule, ranks, states."""
