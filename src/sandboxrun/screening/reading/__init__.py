"""Words to values: what a shell word can become when it is expanded."""
