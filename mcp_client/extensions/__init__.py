"""What a server may offer beyond the core: extensions, each declared and in files of its own."""
