"""One state directory, one SQLite store, and what several processes agree on through them."""
