"""What a device decodes and reads."""
