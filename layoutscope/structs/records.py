"""The record types of every grammar, by name: ``BTREE_NODE.level``; see :mod:`layoutscope.structs.recordtypes`."""

from layoutscope._generated.records import *  # noqa: F403
