"""What monitoring systems are told of the pipelines, and what they may do with it.

figures.py              the figures of a pipeline, for all of them
prometheus.py           serves them to Prometheus: `freshet metrics`
alert-rules.yml         alerting rules for Prometheus
grafana-dashboard.json  a dashboard for Grafana
"""
