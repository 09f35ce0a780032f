"""MIG: how one accelerator divides into instances with memory and compute of their own."""
