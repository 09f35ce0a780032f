"""L1, what we pay for: contracts, prices, entitlement, and the seam to what is Ready."""
