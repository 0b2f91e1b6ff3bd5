"""The Grafana dashboards as code; the chart ships what is written from here."""
