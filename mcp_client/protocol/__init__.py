"""What the specification says. Nothing here waits: values in, values out."""
