"""The command line: arguments to api to report."""
