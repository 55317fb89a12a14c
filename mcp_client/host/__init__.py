"""Many servers as one set of tools: the host, its naming, filters and configuration."""
