"""Processes that run models for a service: one a device, restarted when they die."""
