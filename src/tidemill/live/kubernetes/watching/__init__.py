"""A cluster as it is now: a copy of its objects that list and watch keep up to date."""
