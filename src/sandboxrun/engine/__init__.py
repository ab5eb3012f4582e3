"""Container engines: the protocol they satisfy, the container spec, and the drivers."""
