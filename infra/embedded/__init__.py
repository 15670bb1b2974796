"""The embedded farm: real services on loopback, started and stopped for one user's sweeps."""
