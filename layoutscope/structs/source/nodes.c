/* Where the records of HFS+ B-tree nodes are.
 *
 * TN1150, "Node Structure": offsets of records grow from the end of a node towards its start, one entry more than there
 * are records; a key starts with its length. Both are big-endian numbers of 16 bits.
 */

#include "kernel.h"

enum { OFFSET_BYTES = 2, LENGTH_BYTES = 2 };
enum { OTHER, LEAF, INDEX };

/* An entry of the offset table of a node that ends here. */
static int64_t offset_of(const uint8_t *end, int64_t entry)
{
    return (int64_t)big(end - OFFSET_BYTES * (entry + 1), 2);
}

/* Locate the records of nodes that lie one after the other; returns how many there are.
 *
 * Of each record that can lie there: the place of its node, its number in it, and where key, data and the end of the
 * record lie in the buffer. Of each node: where its free space starts (-1 where that cannot be told), and whether
 * records were left out.
 */
KERNEL int64_t locate_records(Bytes buffer, int64_t node_bytes, int64_t head_bytes, int64_t pointer_bytes,
    int64_t index_key_bytes, int64_t least_key_bytes, Bytes kinds, Words num_records, Words node, Words slot, Words key,
    Words data, Words stop, Words free_offset, Bytes damaged)
{
    const int64_t num_nodes = kinds.length, room = node.length;
    if (node_bytes <= 0 || node_bytes > UINT16_MAX || head_bytes < 0 || pointer_bytes < 0 || pointer_bytes > UINT16_MAX ||
        index_key_bytes > UINT16_MAX || head_bytes > node_bytes - LENGTH_BYTES - OFFSET_BYTES ||
        num_nodes > buffer.length / node_bytes || num_records.length != num_nodes || slot.length != room ||
        key.length != room || data.length != room || stop.length != room || free_offset.length != num_nodes ||
        damaged.length != num_nodes)
        return REFUSED;
    const int64_t most = (node_bytes - head_bytes) / OFFSET_BYTES - 1;
    int64_t found = 0;
    for (int64_t n = 0; n < num_nodes; n++) {
        const int64_t start = n * node_bytes;
        const uint8_t *bytes = buffer.data + start, *end = bytes + node_bytes;
        free_offset.data[n] = -1;
        damaged.data[n] = 0;
        if (kinds.data[n] == OTHER)
            continue;
        damaged.data[n] = num_records.data[n] > most;
        const int64_t count = larger(0, smaller(num_records.data[n], most));
        const int64_t limit = node_bytes - OFFSET_BYTES * (count + 1);
        const bool is_index = kinds.data[n] == INDEX;
        int64_t first = count > 0 ? offset_of(end, 0) : 0;
        for (int64_t k = 0; k < count; k++) {
            const int64_t at = first, until = first = offset_of(end, k + 1);
            bool is_sound = at >= head_bytes && at + LENGTH_BYTES <= until && until <= limit && at % 2 == 0;
            int64_t behind = 0;
            if (is_sound) {
                const int64_t length = is_index && index_key_bytes >= 0 ? index_key_bytes : (int64_t)big(bytes + at, 2);
                behind = at + LENGTH_BYTES + length + length % 2;
                is_sound = behind + (is_index ? pointer_bytes : 0) <= until && behind - at >= least_key_bytes;
            }
            if (!is_sound) {
                damaged.data[n] = 1;
                continue;
            }
            if (found >= room)
                return REFUSED;
            node.data[found] = n;
            slot.data[found] = k;
            key.data[found] = start + at;
            data.data[found] = start + behind;
            stop.data[found] = start + until;
            found++;
        }
        const int64_t free = offset_of(end, count);
        if (free >= head_bytes && free <= limit)
            free_offset.data[n] = free;
    }
    return found;
}
