"""Blocks, trees and records: what containers and volumes are stored in."""
