"""Results as JSON documents, each with the name and the version of its form."""
