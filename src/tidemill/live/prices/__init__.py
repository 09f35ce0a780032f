"""What machines cost: flat rates, price files, list prices."""
