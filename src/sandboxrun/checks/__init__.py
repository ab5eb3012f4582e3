"""What a sandbox promises, tried out from inside (`verify`), and what it needs (`doctor`)."""
