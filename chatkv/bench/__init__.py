"""Workloads, measurements, reports."""
