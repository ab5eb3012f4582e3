"""What a command writes: redacted, spooled, previewed, replayed, kept as an artifact."""
