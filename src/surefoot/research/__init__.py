"""Research: benchmarks, simulated logs, studies of many trials, and the claims of the paper."""
