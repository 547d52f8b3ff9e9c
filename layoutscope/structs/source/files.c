/* Files and where they lie. */

#include "kernel.h"

/* How many bytes lie between two stretches. */
static int64_t between(int64_t start, int64_t stop, int64_t other_start, int64_t other_stop, bool *refused)
{
    return larger(larger(minus(other_start, stop, refused), minus(start, other_stop, refused)), 0);
}

/* Find how far the first extent of each file is from the leaf with its inode; returns how many files have both.
 *
 * `leaf_of` has -1 for each number of a file that may come. Of a file with several entries the last one counts, as all
 * should say the same; of several first extents the first. `place` is that of each row of the table of nodes.
 */
KERNEL int64_t apart_from_inodes(Words file_id, Bytes is_first, Words start, Words length, Words entry_file_id,
    Bytes is_file, Numbers leaf, Numbers leaf_of, Numbers place, Words node_start, Words node_stop, Words apart)
{
    if (is_first.length != file_id.length || start.length != file_id.length || length.length != file_id.length ||
        is_file.length != entry_file_id.length || leaf.length != entry_file_id.length ||
        node_stop.length != node_start.length)
        return REFUSED;
    for (int64_t k = 0; k < entry_file_id.length; k++) {
        if (!is_file.data[k])
            continue;
        if (!within(entry_file_id.data[k], leaf_of.length) || !within(leaf.data[k], place.length))
            return REFUSED;
        leaf_of.data[entry_file_id.data[k]] = leaf.data[k];
    }
    bool refused = false;
    int64_t count = 0;
    for (int64_t k = 0; k < file_id.length && !refused; k++) {
        const int64_t file = file_id.data[k];
        if (!is_first.data[k])
            continue;
        if (!within(file, leaf_of.length))
            return REFUSED;
        const int32_t row = leaf_of.data[file];
        if (row == -1)
            continue;
        leaf_of.data[file] = -1;
        if (!within(row, place.length) || !within(place.data[row], node_start.length) || count == apart.length)
            return REFUSED;
        const int64_t node = place.data[row], stop = plus(start.data[k], length.data[k], &refused);
        apart.data[count++] = between(start.data[k], stop, node_start.data[node], node_stop.data[node], &refused);
    }
    return refused ? REFUSED : count;
}
