/* A cache of limited size over searches of trees: least recently used first out.
 *
 * layoutscope/walk/cache.py explains the buffers.
 */

#include "kernel.h"

/* How a node is read: as what a search ends in, as an index node on the way, or to tell where another lies. */
enum { TARGET, INDEX, MAP };
/* Longest way that is followed; longer ones are loops of a damaged volume. */
enum { DEEPEST = 64 };
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
    int32_t node[DEEPEST];
    uint8_t how[DEEPEST];
    int length;
} Way;

/* An element of the ring; the ring is the caller's, and no more trusted than the rest. */
static int32_t *element(Cache *cache, Numbers ring, int32_t node)
{
    if (!within(node, ring.length)) {
        cache->refused = true;
        node = 0;
    }
    return ring.data + node;
}

static void take_out(Cache *cache, int32_t node)
{
    const int32_t newer = *element(cache, cache->newer, node), older = *element(cache, cache->older, node);
    *element(cache, cache->newer, older) = newer;
    *element(cache, cache->older, newer) = older;
}

/* Put a node into the ring as the one used last. */
static void put_last(Cache *cache, int32_t node)
{
    const int32_t end = (int32_t)(cache->newer.length - 1);
    const int32_t last = *element(cache, cache->older, end);
    *element(cache, cache->newer, last) = node;
    *element(cache, cache->older, node) = last;
    *element(cache, cache->newer, node) = end;
    *element(cache, cache->older, end) = node;
}

/* Drop what was not used for longest, but never the node in use. */
static void shrink(Cache *cache, int32_t node)
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
static bool use(Cache *cache, int32_t node)
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

static bool step(Way *way, int32_t node, uint8_t how)
{
    if (way->length == DEEPEST || node >= way->parent.length)
        return false;
    way->node[way->length] = node;
    way->how[way->length++] = how;
    return true;
}

/* Find the way to a node, last step first; false where it leads out of the table. */
static bool find_way(Way *way, int32_t target, bool alone)
{
    way->length = 0;
    uint8_t how = TARGET;
    for (int32_t node = target; node >= 0 && way->length < DEEPEST; node = way->parent.data[node]) {
        if (!step(way, node, how))
            return false;
        for (int32_t map = way->mapper.data[node]; map >= 0 && way->length < DEEPEST; map = way->parent.data[map])
            if (!step(way, map, MAP))
                return false;
        how = INDEX;
        if (alone)
            break;
    }
    return true;
}

/* Whether the buffers fit each other and the numbers of nodes fit the ring. */
static bool is_sound(const Cache *cache, const Way *way)
{
    const int64_t num_nodes = way->parent.length;
    return num_nodes < INT32_MAX && way->mapper.length == num_nodes && cache->size_bytes.length == num_nodes &&
        cache->cached.length == num_nodes && cache->newer.length == num_nodes + 1 &&
        cache->older.length == num_nodes + 1;
}

/* Find what is read for touches; returns how many rows of the answer were filled.
 *
 * `state` has the touch to go on with, counted from -known.length, and the bytes that are held. It is not the end while
 * the touch is not touched.length: the answer was full.
 */
KERNEL int64_t lru_misses(Numbers touched, Bytes alone, Numbers parent, Numbers mapper, Words size_bytes, Numbers known,
    int64_t cache_bytes, Numbers newer, Numbers older, Bytes cached, Words state, Numbers answer_node,
    Words answer_place, Bytes answer_how)
{
    Cache cache = {.newer = newer, .older = older, .cached = cached, .size_bytes = size_bytes, .limit = cache_bytes};
    Way way = {.parent = parent, .mapper = mapper};
    const int64_t room = answer_node.length;
    if (!is_sound(&cache, &way) || alone.length != touched.length || state.length != STATE_LENGTH ||
        room < DEEPEST || answer_place.length != room || answer_how.length != room ||
        state.data[TOUCH] < -known.length || state.data[TOUCH] > touched.length)
        return REFUSED;
    cache.held = state.data[HELD];
    int64_t count = 0, touch = state.data[TOUCH];
    for (; touch < touched.length && count <= room - DEEPEST; touch++) {
        const int32_t target = touch < 0 ? known.data[touch + known.length] : touched.data[touch];
        if (target < 0)
            continue;
        way.length = 0;
        if (touch < 0 ? !step(&way, target, TARGET) : !find_way(&way, target, alone.data[touch]))
            return REFUSED;
        while (way.length-- > 0) {
            const int32_t node = way.node[way.length];
            if (!use(&cache, node) || touch < 0)
                continue;
            answer_node.data[count] = node;
            answer_place.data[count] = touch;
            answer_how.data[count++] = way.how[way.length];
        }
        if (cache.refused)
            return REFUSED;
    }
    state.data[TOUCH] = touch;
    state.data[HELD] = cache.held;
    return count;
}
