"""Results as text for a terminal or a pipe: one module a result, readable from 80 columns on."""
