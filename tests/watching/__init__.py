"""Alerts and dashboards: by promtool, and on a real Prometheus that scrapes a real operator."""
