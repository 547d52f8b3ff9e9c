/* Where the records of APFS B-tree nodes are, and the numbers that lead their keys.
 *
 * Apple File System Reference, "btree_node_phys_t": the table of contents stands behind the head of a node, keys grow
 * behind the table, values from the end of the node towards them; in a root they end before the tree's information.
 * An entry is two numbers, the places of key and value, where sizes are fixed (kvoff_t), else the place and the length
 * of both (kvloc_t). All are little-endian numbers of 16 bits.
 */

#include "kernel.h"

enum { IS_ROOT = 1, IS_LEAF = 2, IS_FIXED = 4, ALL_FLAGS = 7 };
enum { FIXED_ENTRY_BYTES = 4, ENTRY_BYTES = 8, GHOST = 0xffff };
enum { NUMBER_BYTES = 8 };
static const int64_t MOST = 1 << 30; /* of any size that the tables tell */

static bool is_size(int64_t value)
{
    return value >= 0 && value <= MOST;
}

/* Locate the records of nodes that lie one after the other; returns how many there are.
 *
 * `table` and `table_bytes` say where the table of contents of a node lies in it. A node is torn where its table leaves
 * it. A record that leaves its node is a stray: a leaf keeps its other records if these are more than half of them. Any
 * other node is torn by it: a child that an index node does not name any more takes its whole subtree along, and where
 * most records of a leaf are outside, its table is not what it was.
 */
KERNEL int64_t locate_slots(Bytes buffer, int64_t node_bytes, int64_t info_bytes, int64_t key_bytes, int64_t value_bytes,
    int64_t child_bytes, Bytes flags, Words num_records, Words table, Words table_bytes, Words node, Words key,
    Numbers key_length, Words value, Numbers value_length, Bytes torn, Words stray_node, Words stray, Words stray_entry,
    Words num_strays)
{
    const int64_t num_nodes = flags.length, room = node.length;
    if (node_bytes <= 0 || node_bytes > MOST || !is_size(info_bytes) || info_bytes > node_bytes || !is_size(key_bytes) ||
        !is_size(value_bytes) || !is_size(child_bytes) || num_nodes > buffer.length / node_bytes ||
        num_records.length != num_nodes || table.length != num_nodes || table_bytes.length != num_nodes ||
        key.length != room || key_length.length != room || value.length != room || value_length.length != room ||
        torn.length != num_nodes || stray_node.length != room || stray.length != room || stray_entry.length != room ||
        num_strays.length != 1)
        return REFUSED;
    int64_t found = 0, strays = 0;
    for (int64_t n = 0; n < num_nodes; n++) {
        const int64_t count = num_records.data[n], first = table.data[n], size = table_bytes.data[n];
        const uint8_t kind = flags.data[n];
        if (kind > ALL_FLAGS || !is_size(count) || !is_size(first) || !is_size(size))
            return REFUSED;
        const bool is_fixed = kind & IS_FIXED;
        const int64_t entry_bytes = is_fixed ? FIXED_ENTRY_BYTES : ENTRY_BYTES;
        const int64_t keys = first + size, end = node_bytes - (kind & IS_ROOT ? info_bytes : 0);
        torn.data[n] = count * entry_bytes > size || keys > end;
        if (torn.data[n] || count == 0)
            continue;
        if (count > room - found)
            return REFUSED;
        const int64_t start = n * node_bytes, fixed_value = kind & IS_LEAF ? value_bytes : child_bytes;
        const int64_t found_before = found, strays_before = strays;
        const uint8_t *entry = buffer.data + start + first;
        for (int64_t k = 0; k < count; k++, entry += entry_bytes) {
            const int64_t key_at = (int64_t)little(entry, 2), length = is_fixed ? key_bytes : (int64_t)little(entry + 2, 2);
            int64_t before_end = (int64_t)little(entry + (is_fixed ? 2 : 4), 2);
            int64_t its_length = is_fixed ? fixed_value : (int64_t)little(entry + 6, 2);
            if (before_end == GHOST)
                before_end = its_length = 0;
            /* A value starts as far before the end as its place says, and may not be longer than that. */
            if (key_at + length > end - keys || before_end > end - keys || its_length > before_end ||
                length < key_bytes) {
                stray_node.data[strays] = n;
                stray.data[strays] = k;
                stray_entry.data[strays++] = start + first + k * entry_bytes;
                continue;
            }
            node.data[found] = n;
            key.data[found] = start + keys + key_at;
            key_length.data[found] = (int32_t)length;
            value.data[found] = start + end - before_end;
            value_length.data[found++] = (int32_t)its_length;
        }
        if (strays > strays_before && !(kind & IS_LEAF && 2 * (strays - strays_before) < count)) {
            torn.data[n] = true;
            found = found_before;
            strays = strays_before;
        }
    }
    num_strays.data[0] = strays;
    return found;
}

/* The number of 64 bits at the same place of each key; turned to the left by some bits, the upper ones come last. */
KERNEL int64_t leading_numbers(Bytes buffer, int64_t key_bytes, int64_t offset, int64_t turn, Words key, Words numbers)
{
    if (!is_size(key_bytes) || !is_size(offset) || offset + NUMBER_BYTES > key_bytes || !within(turn, 64) ||
        numbers.length != key.length)
        return REFUSED;
    for (int64_t k = 0; k < key.length; k++) {
        const int64_t at = key.data[k];
        if (at < 0 || key_bytes > buffer.length || at > buffer.length - key_bytes)
            return REFUSED;
        const uint64_t number = little(buffer.data + at + offset, NUMBER_BYTES);
        numbers.data[k] = (int64_t)(turn > 0 ? number << turn | number >> (64 - turn) : number);
    }
    return key.length;
}
