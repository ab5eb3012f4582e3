"""Shell text to a tree. Two parsers must agree; this package says when they do not."""
