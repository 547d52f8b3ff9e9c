/* What a cache of limited size reads for touches of nodes (lru.h). */

#include "lru.h"

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
    if (!is_sound_cache(&cache, &way) || alone.length != touched.length || state.length != STATE_LENGTH ||
        room < LONGEST_WAY || answer_place.length != room || answer_how.length != room ||
        state.data[TOUCH] < -known.length || state.data[TOUCH] > touched.length)
        return REFUSED;
    cache.held = state.data[HELD];
    int64_t count = 0, touch = state.data[TOUCH];
    for (; touch < touched.length && count <= room - LONGEST_WAY; touch++) {
        const int32_t target = touch < 0 ? known.data[touch + known.length] : touched.data[touch];
        if (target < 0)
            continue;
        way.length = 0;
        if (touch < 0 ? !step(&way, target, AS_TARGET) : !find_way(&way, target, alone.data[touch]))
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
