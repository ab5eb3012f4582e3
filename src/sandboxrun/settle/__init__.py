"""Stage 9: from everything that is known of a run's end to its one status. Pure."""
