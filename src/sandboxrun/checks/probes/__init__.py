"""The probes, by group."""
