"""The labels every engine object of ours carries, written before it exists."""

from __future__ import annotations

INSTALLATION = "sandboxrun.installation"
"""Which state directory it belongs to. Nothing of another installation is ever touched."""
ROLE = "sandboxrun.role"
OWNER = "sandboxrun.owner"
"""The process that must be alive for it to be kept."""
RUN = "sandboxrun.run"
WORKSPACE = "sandboxrun.workspace"

ROLE_RUN = "run"
ROLE_WORKSPACE = "workspace"
ROLE_THROWAWAY = "throwaway"
ROLE_LOOK = "look"
"""A container that is never started, to look into an image."""
ROLE_STORE = "store"
"""The volume that holds the layers of all workspaces."""
ROLE_MOUNT = "mount"
"""A volume that mounts one stack of layers for one run."""
