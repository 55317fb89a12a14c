"""Values against their JSON Schemas, within bounds."""
