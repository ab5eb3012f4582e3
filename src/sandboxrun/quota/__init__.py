"""Stage 4: what runs may use at once, in one ledger for all processes of an installation."""
