"""The rooms of server_probe.py: what a running server makes of RoPE, and whether its context holds."""
