"""What monitoring systems are told of the pipelines, and what they may do with it.

prometheus.py           serves them to Prometheus: `freshet metrics`
alert-rules.yml         alerting rules for Prometheus
grafana-dashboard.json  a dashboard for Grafana
"""
