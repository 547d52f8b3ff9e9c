/* What an unlimited cache reads for touches of nodes: each node once, after what must be read before it. */

#ifndef LAYOUTSCOPE_READS_H
#define LAYOUTSCOPE_READS_H

#include "kernel.h"

/* Longest chain of nodes that is followed; longer ones are refused, as loops are. */
enum { DEEPEST = 64 };
enum { UNKNOWN, ON_THE_WAY, READ };
enum { PARENT, MAPPER, ITSELF };

typedef struct {
    int32_t node;
    uint8_t cause, next;
} Step;

/* A cache and what it has read: the tree and what it knows (see `read_once`), and the rows of the answer. */
typedef struct {
    Numbers parent, mapper;
    Bytes seen, state;
    uint8_t index_cause, mapped_cause;
    Numbers node;
    Bytes cause;
    Words touch;
    int64_t count;
} Reads;

/* Whether the buffers fit each other. */
static inline bool are_sound(const Reads *reads)
{
    const int64_t size = reads->state.length, room = reads->node.length;
    return reads->mapper.length == reads->parent.length && reads->parent.length <= size && size <= INT32_MAX &&
        reads->seen.length == 2 * size && reads->cause.length == room && reads->touch.length == room;
}

static inline bool note(Reads *reads, int32_t node, uint8_t cause, int64_t touch)
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
static inline bool read_with_way(Reads *reads, int32_t node, uint8_t cause, uint8_t first, int64_t touch)
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

/* Touch a node, unless it is none; false where it cannot be read. Who comes from its neighbour needs no parent. */
static inline bool touch_node(Reads *reads, int32_t node, uint8_t cause, bool is_alone, int64_t touch)
{
    const int64_t size = reads->state.length;
    if (node < 0)
        return true;
    if (node >= size || reads->state.data[node] == ON_THE_WAY)
        return false;
    uint8_t *mark = reads->seen.data + node + (is_alone ? size : 0);
    if (*mark)
        return true;
    *mark = 1;
    return read_with_way(reads, node, cause, is_alone ? MAPPER : PARENT, touch);
}

#endif
