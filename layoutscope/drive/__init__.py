"""Service time of an access trace on a drive."""
