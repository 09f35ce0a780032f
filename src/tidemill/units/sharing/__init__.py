"""Sharing one accelerator: what a tenant leaves free, who may sit beside it, and what it costs."""
