"""markers."""
