"""Let ``python -m sandboxrun`` be the command line."""

from __future__ import annotations

from sandboxrun.interfaces.cli.entry import main

if __name__ == "__main__":
    main()
