"""One process per installation that keeps a runner open, for command lines that come and go."""
