"""Workspaces: the state that outlives containers."""
