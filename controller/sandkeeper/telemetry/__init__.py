"""What an operator of the operator sees: metrics, logs, probes."""
