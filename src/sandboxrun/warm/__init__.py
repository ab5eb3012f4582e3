"""Containers made ready ahead of time, and what is done behind the verdict of a run."""
