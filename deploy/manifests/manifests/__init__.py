"""What is generated for those who install: the schema of the chart's values, and manifests made from the chart."""
