/* What comes first: places of numbers that stand for the first time, and reads with what must be read before them.
 *
 * Twins of first_places in layoutscope/arrays/lookup.py and of plain_once in layoutscope/walk/cache.py.
 */

#include "kernel.h"

/* Longest chain of nodes that is followed; longer ones are left to the twin, as loops are. */
enum { DEEPEST = 64 };
enum { UNKNOWN, ON_THE_WAY, READ };
enum { PARENT, MAPPER, ITSELF };

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

typedef struct {
    int32_t node;
    uint8_t cause, next;
} Step;

typedef struct {
    Numbers parent, mapper;
    Bytes state;
    uint8_t index_cause, mapped_cause;
    Numbers node;
    Bytes cause;
    Words touch;
    int64_t count;
} Reads;

static bool note(Reads *reads, int32_t node, uint8_t cause, int64_t touch)
{
    if (reads->count == reads->node.length)
        return false;
    reads->node.data[reads->count] = node;
    reads->cause.data[reads->count] = cause;
    reads->touch.data[reads->count++] = touch;
    reads->state.data[node] = READ;
    return true;
}

/* Read a node after its parent and after what tells where it lies, each with theirs; `first` says where to begin. */
static bool read_with_way(Reads *reads, int32_t node, uint8_t cause, uint8_t first, int64_t touch)
{
    Step way[DEEPEST];
    int depth = 1;
    way[0] = (Step){node, cause, first};
    const bool is_new = reads->state.data[node] == UNKNOWN;
    if (is_new)
        reads->state.data[node] = ON_THE_WAY;
    while (depth > 0) {
        Step *step = way + depth - 1;
        const uint8_t turn = step->next++;
        if (turn >= ITSELF) {
            if ((depth > 1 || is_new) && !note(reads, step->node, step->cause, touch))
                return false;
            depth--;
            continue;
        }
        const Numbers table = turn == PARENT ? reads->parent : reads->mapper;
        const int32_t other = step->node < table.length ? table.data[step->node] : -1;
        if (other < 0)
            continue;
        if (!within(other, reads->state.length) || reads->state.data[other] == ON_THE_WAY || depth == DEEPEST)
            return false;
        if (reads->state.data[other] == READ)
            continue;
        reads->state.data[other] = ON_THE_WAY;
        const bool is_mapped = turn == MAPPER || step->cause == reads->mapped_cause;
        way[depth++] = (Step){other, is_mapped ? reads->mapped_cause : reads->index_cause, PARENT};
    }
    return true;
}

/* Find what an unlimited cache reads for touches; returns how many rows of the answer were filled.
 *
 * `seen` has two zeros for each number that can be touched, for touches of both kinds; `state` has one. `alone` are
 * touches that need no parent.
 */
KERNEL int64_t read_once(Numbers touched, Bytes alone, Bytes cause, Numbers parent, Numbers mapper, int64_t index_cause,
    int64_t mapped_cause, Bytes seen, Bytes state, Numbers answer_node, Bytes answer_cause, Words answer_touch)
{
    const int64_t size = state.length, count = touched.length;
    if (alone.length != count || cause.length != count || mapper.length != parent.length || parent.length > size ||
        size > INT32_MAX || seen.length != 2 * size || !within(index_cause, 256) || !within(mapped_cause, 256) ||
        answer_cause.length != answer_node.length || answer_touch.length != answer_node.length)
        return REFUSED;
    Reads reads = {parent, mapper, state, (uint8_t)index_cause, (uint8_t)mapped_cause, answer_node, answer_cause,
        answer_touch, 0};
    for (int64_t k = 0; k < count; k++) {
        const int32_t node = touched.data[k];
        if (node < 0)
            continue;
        if (node >= size || state.data[node] == ON_THE_WAY)
            return REFUSED;
        uint8_t *mark = seen.data + node + (alone.data[k] ? size : 0);
        if (*mark)
            continue;
        *mark = 1;
        if (!read_with_way(&reads, node, cause.data[k], alone.data[k] ? MAPPER : PARENT, k))
            return REFUSED;
    }
    return reads.count;
}
