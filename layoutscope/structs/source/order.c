/* What comes first: places of numbers that stand for the first time, reads with what must be read before them, and how
 * many pairs of numbers stand in falling order.
 */

#include "reads.h"

/* Find the places where a number stands for the first time; returns how many. `seen` has a zero for each number. */
KERNEL int64_t first_places(Words codes, Bytes seen, Words places)
{
    int64_t count = 0;
    for (int64_t k = 0; k < codes.length; k++) {
        const int64_t code = codes.data[k];
        if (!within(code, seen.length))
            return REFUSED;
        if (seen.data[code])
            continue;
        if (count == places.length)
            return REFUSED;
        seen.data[code] = 1;
        places.data[count++] = k;
    }
    return count;
}

/* Find what an unlimited cache reads for touches; returns how many rows of the answer were filled.
 *
 * `seen` has two zeros for each number that can be touched, for touches of both kinds; `state` has one. `alone` are
 * touches that need no parent.
 */
KERNEL int64_t read_once(Numbers touched, Bytes alone, Bytes cause, Numbers parent, Numbers mapper, int64_t index_cause,
    int64_t mapped_cause, Bytes seen, Bytes state, Numbers answer_node, Bytes answer_cause, Words answer_touch)
{
    Reads reads = {parent, mapper, seen, state, (uint8_t)index_cause, (uint8_t)mapped_cause, answer_node, answer_cause,
        answer_touch, 0};
    if (!are_sound(&reads) || alone.length != touched.length || cause.length != touched.length ||
        !within(index_cause, 256) || !within(mapped_cause, 256))
        return REFUSED;
    for (int64_t k = 0; k < touched.length; k++)
        if (!touch_node(&reads, touched.data[k], cause.data[k], alone.data[k], k))
            return REFUSED;
    return reads.count;
}

/* Merge two ascending stretches; returns how many pairs of one of each stood in falling order. */
static int64_t merge_counted(const int64_t *one, int64_t ones, const int64_t *other, int64_t others, int64_t *merged)
{
    int64_t pairs = 0, k = 0, j = 0;
    while (k < ones && j < others) {
        const bool falls = other[j] < one[k];
        *merged++ = falls ? other[j] : one[k];
        pairs += falls ? ones - k : 0;
        j += falls;
        k += !falls;
    }
    memcpy(merged, one + k, (size_t)(ones - k) * sizeof *one);
    memcpy(merged + (ones - k), other + j, (size_t)(others - j) * sizeof *other);
    return pairs;
}

/* Count the pairs of numbers that stand in falling order; both buffers are written into. */
KERNEL int64_t count_inversions(Words values, Words scratch)
{
    const int64_t count = values.length;
    /* The pairs of so many numbers can be counted in 64 bits. */
    if (scratch.length != count || count > INT32_MAX)
        return REFUSED;
    int64_t pairs = 0, *from = values.data, *to = scratch.data;
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t first = 0; first < count; first += 2 * run) {
            const int64_t middle = smaller(first + run, count), end = smaller(middle + run, count);
            pairs += merge_counted(from + first, middle - first, from + middle, end - middle, to + first);
        }
        int64_t *const swapped = from;
        from = to;
        to = swapped;
    }
    return pairs;
}
