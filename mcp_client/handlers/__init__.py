"""What a server may ask of the host, and how it is answered."""
