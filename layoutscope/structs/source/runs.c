/* Sets of blocks as sorted runs, each a first block and a length. */

#include "kernel.h"

enum { FIRST, LENGTH, RUN_WORDS };

/* Put a stretch behind a set, joined with the last run where the two touch; false where there is no room for it. */
static bool append(Words runs, int64_t *count, int64_t first, int64_t stop)
{
    int64_t *last = runs.data + (*count - 1) * RUN_WORDS;
    if (*count > 0 && first <= last[FIRST] + last[LENGTH]) {
        bool refused = false;
        last[LENGTH] = larger(last[LENGTH], minus(stop, last[FIRST], &refused));
        return !refused;
    }
    if (*count >= runs.length / RUN_WORDS)
        return false;
    runs.data[*count * RUN_WORDS + FIRST] = first;
    runs.data[*count * RUN_WORDS + LENGTH] = stop - first;
    ++*count;
    return true;
}

/* Whether blocks have numbers that can be counted with. Those before a place that others are counted from are negative. */
static bool is_stretch(int64_t first, int64_t length)
{
    return length >= 0 && (first <= 0 || length <= INT64_MAX - first);
}

/* Join runs that ascend by their first blocks and may overlap; returns how many there are then. */
KERNEL int64_t join_runs(Words first, Words length, Words runs)
{
    int64_t count = 0;
    if (length.length != first.length)
        return REFUSED;
    for (int64_t k = 0; k < first.length; k++) {
        const int64_t at = first.data[k];
        if (!is_stretch(at, length.data[k]) || (k > 0 && at < first.data[k - 1]) ||
            !append(runs, &count, at, at + length.data[k]))
            return REFUSED;
    }
    return count;
}

static bool is_sound(Words runs)
{
    if (runs.length % RUN_WORDS != 0)
        return false;
    int64_t end = INT64_MIN;
    for (int64_t k = 0; k < runs.length; k += RUN_WORDS) {
        if (!is_stretch(runs.data[k + FIRST], runs.data[k + LENGTH]) || runs.data[k + FIRST] < end)
            return false;
        end = runs.data[k + FIRST] + runs.data[k + LENGTH];
    }
    return true;
}

/* The next edge of a run behind a place that all edges before were passed at, or the end of all numbers. */
static int64_t next_edge(Words runs, int64_t edge)
{
    if (edge >= runs.length)
        return INT64_MAX;
    const int64_t *run = runs.data + (edge & ~(int64_t)1);
    return edge & 1 ? run[FIRST] + run[LENGTH] : run[FIRST];
}

/* Keep the blocks that are in the first set alone (1), in the second alone (2), or in both (3); both ascend. */
KERNEL int64_t combine_runs(Words runs, Words other, int64_t wanted, Words found)
{
    if (!is_sound(runs) || !is_sound(other) || wanted < 1 || wanted > 3)
        return REFUSED;
    int64_t count = 0, at = INT64_MIN, mine = 0, theirs = 0;
    while (mine < runs.length || theirs < other.length) {
        const int64_t my_edge = next_edge(runs, mine), their_edge = next_edge(other, theirs);
        const int64_t edge = smaller(my_edge, their_edge);
        if (((mine & 1) | (theirs & 1) << 1) == wanted && edge > at && !append(found, &count, at, edge))
            return REFUSED;
        at = edge;
        mine += my_edge == edge && mine < runs.length;
        theirs += their_edge == edge && theirs < other.length;
    }
    return count;
}

/* Join pieces that ascend by their starts where the gap between two is small enough; returns how many there are then. */
KERNEL int64_t join_pieces(Words start, Words stop, int64_t gap, Words joined_start, Words joined_stop)
{
    if (stop.length != start.length || joined_start.length != start.length || joined_stop.length != start.length)
        return REFUSED;
    int64_t count = 0, reach = INT64_MIN;
    bool refused = false;
    for (int64_t k = 0; k < start.length && !refused; k++) {
        const bool goes_on = count > 0 && minus(start.data[k], reach, &refused) <= gap;
        if (!goes_on)
            joined_start.data[count++] = start.data[k];
        /* Of pieces that overlap, as on damaged volumes, the one that starts last need not be the one that ends last. */
        reach = larger(reach, stop.data[k]);
        joined_stop.data[count - 1] = reach;
    }
    return refused ? REFUSED : count;
}
