"""What training loops wrote with ``tidemill.track``: read, checked, each record once.

A line that cannot be used is refused by its number and with the reason; the others count all the
same.
"""
