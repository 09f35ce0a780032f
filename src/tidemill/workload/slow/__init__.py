"""What is slow: ranks against their peers, jobs against their past, nodes whoever is on them."""
