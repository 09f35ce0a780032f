"""The API server of a cluster, asked over HTTP: who asks, how, and what it answers. GET only."""
