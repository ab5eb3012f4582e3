"""What a simple command would do: data tables, and the few rules that data cannot express."""
