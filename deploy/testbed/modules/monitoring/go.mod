module sandkeeper.dev/testbed/monitoring

go 1.26.0

// For the definitions of its kinds, which it ships: what the chart makes of them is checked against these.
require github.com/prometheus-operator/prometheus-operator v0.85.0
