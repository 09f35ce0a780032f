"""What accelerators and boxes are: rates, memory, links, power, price; each row with its source."""
