"""What a server offers: tools, resources and prompts, their lists, changes, trust and pins."""
