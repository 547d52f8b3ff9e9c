/* A cache of limited size over searches of trees: least recently used first out.
 *
 * layoutscope/walk/cache.py explains the buffers.
 */

#ifndef LAYOUTSCOPE_LRU_H
#define LAYOUTSCOPE_LRU_H

#include "kernel.h"

/* How a node is read: as what a search ends in, as an index node on the way, or to tell where another lies. */
enum { AS_TARGET, AS_INDEX, AS_MAP };
/* Longest way that is followed; longer ones are loops of a damaged volume. */
enum { LONGEST_WAY = 64 };
/* What the cache knows between two calls. */
enum { TOUCH, HELD, STATE_LENGTH };

typedef struct {
    Numbers newer, older; /* a ring, whose last element joins its ends */
    Bytes cached;
    Words size_bytes;
    int64_t held, limit;
    bool refused;
} Cache;

typedef struct {
    Numbers parent, mapper;
    int32_t node[LONGEST_WAY];
    uint8_t how[LONGEST_WAY];
    int length;
    bool is_alone;
} Way;

/* An element of the ring; the ring is the caller's, and no more trusted than the rest. */
static inline int32_t *element(Cache *cache, Numbers ring, int32_t node)
{
    if (!within(node, ring.length)) {
        cache->refused = true;
        node = 0;
    }
    return ring.data + node;
}

static inline void take_out(Cache *cache, int32_t node)
{
    const int32_t newer = *element(cache, cache->newer, node), older = *element(cache, cache->older, node);
    *element(cache, cache->newer, older) = newer;
    *element(cache, cache->older, newer) = older;
}

/* Put a node into the ring as the one used last. */
static inline void put_last(Cache *cache, int32_t node)
{
    const int32_t end = (int32_t)(cache->newer.length - 1);
    const int32_t last = *element(cache, cache->older, end);
    *element(cache, cache->newer, last) = node;
    *element(cache, cache->older, node) = last;
    *element(cache, cache->newer, node) = end;
    *element(cache, cache->older, end) = node;
}

/* Drop what was not used for longest, but never the node in use. */
static inline void shrink(Cache *cache, int32_t node)
{
    const int32_t end = (int32_t)(cache->newer.length - 1);
    while (cache->held > cache->limit && *element(cache, cache->newer, end) != node) {
        const int32_t victim = *element(cache, cache->newer, end);
        if (!within(victim, end) || !cache->cached.data[victim])
            cache->refused = true;
        if (cache->refused)
            return;
        take_out(cache, victim);
        cache->cached.data[victim] = 0;
        cache->held = minus(cache->held, cache->size_bytes.data[victim], &cache->refused);
    }
}

/* Use a node; whether it had to be read. */
static inline bool use(Cache *cache, int32_t node)
{
    const bool missed = !cache->cached.data[node];
    if (missed) {
        cache->cached.data[node] = 1;
        cache->held = plus(cache->held, cache->size_bytes.data[node], &cache->refused);
    } else {
        take_out(cache, node);
    }
    put_last(cache, node);
    shrink(cache, node);
    return missed;
}

static inline bool step(Way *way, int32_t node, uint8_t how)
{
    if (way->length == LONGEST_WAY || node >= way->parent.length)
        return false;
    way->node[way->length] = node;
    way->how[way->length++] = how;
    return true;
}

/* Find the way to a node, last step first; false where it leads out of the table. */
static inline bool find_way(Way *way, int32_t target, bool alone)
{
    way->length = 0;
    way->is_alone = alone;
    uint8_t how = AS_TARGET;
    for (int32_t node = target; node >= 0 && way->length < LONGEST_WAY; node = way->parent.data[node]) {
        if (!step(way, node, how))
            return false;
        for (int32_t map = way->mapper.data[node]; map >= 0 && way->length < LONGEST_WAY; map = way->parent.data[map])
            if (!step(way, map, AS_MAP))
                return false;
        how = AS_INDEX;
        if (alone)
            break;
    }
    return true;
}

/* Whether the buffers fit each other and the numbers of nodes fit the ring. */
static inline bool is_sound_cache(const Cache *cache, const Way *way)
{
    const int64_t num_nodes = way->parent.length;
    return num_nodes < INT32_MAX && way->mapper.length == num_nodes && cache->size_bytes.length == num_nodes &&
        cache->cached.length == num_nodes && cache->newer.length == num_nodes + 1 &&
        cache->older.length == num_nodes + 1;
}

#endif
