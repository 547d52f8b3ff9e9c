/* A walk over directories, buffer by buffer of their listings, and what a cache reads for it, limited or not.
 *
 * find_reads_laid_out in layoutscope/walk/visits.py does the same where ways are loops, which this one refuses.
 */

#include "lru.h"
#include "reads.h"

/* Columns of the buffers, of 64 bits each; those behind COUNT may be empty. */
enum { DIRECTORY, FIRST, COUNT, AHEAD, BEFORE, BEFORE_DIRECTORY, BUFFER_COLUMNS };
/* Host time: of each buffer, of the searches, and of all that was done so far, in doubles as the times of the reads. */
enum { OF_BUFFERS, OF_SEARCHES, CLOCK, OF_READS, TIME_COLUMNS };
/* Causes; those of the searches stand behind them. */
enum { LIST, NEXT, INDEX, MAPPED, FIRST_SEARCH };

/* Searches that are made for an entry: nodes that they end in, why, and the host's time. */
typedef struct {
    Columns nodes;
    const uint8_t *causes;
    const uint8_t *host_us;
} Searches;

typedef struct {
    Reads reads;
    Cache *limited; /* NULL where nothing is ever dropped */
    Way way;        /* to the node that was touched last, with a limited cache */
    Bytes times[TIME_COLUMNS];
    double clock;
    int64_t directory;
    int64_t num_entries;
    uint8_t next_cause;
    bool are_chained;
} Walk;

/* Columns come with their bytes alone: nothing says that they lie as their type would have it. */

static inline int64_t word_at(Bytes column, int64_t row)
{
    int64_t word;
    memcpy(&word, column.data + row * (int64_t)sizeof word, sizeof word);
    return word;
}

static inline float float_at(const uint8_t *column, int64_t row)
{
    float number;
    memcpy(&number, column + row * (int64_t)sizeof number, sizeof number);
    return number;
}

/* Whether a node was touched last, and nothing on the way to it was dropped by that: the cache stays as it is. */
static inline bool is_in_use(const Walk *walk, int32_t node, bool is_alone)
{
    const Way *way = &walk->way;
    if (way->length == 0 || way->node[0] != node || is_alone != way->is_alone)
        return false;
    for (int k = 0; k < way->length; k++)
        if (!walk->limited->cached.data[way->node[k]])
            return false;
    return true;
}

/* Touch a node, unless it is none, by a cache of limited size; false where it cannot be read. */
static bool touch_limited(Walk *walk, int32_t node, uint8_t cause, bool is_alone)
{
    Reads *reads = &walk->reads;
    Way *way = &walk->way;
    if (node < 0 || is_in_use(walk, node, is_alone))
        return true;
    if (!find_way(way, node, is_alone))
        return false;
    for (int k = way->length - 1; k >= 0; k--) {
        if (!use(walk->limited, way->node[k]))
            continue;
        if (reads->count == reads->node.length)
            return false;
        const uint8_t how = way->how[k];
        reads->node.data[reads->count] = way->node[k];
        reads->cause.data[reads->count] = how == AS_TARGET ? cause : how == AS_MAP ? reads->mapped_cause : reads->index_cause;
        reads->touch.data[reads->count++] = walk->directory;
    }
    return !walk->limited->refused;
}

/* Touch a node, then let the host's time pass; what is read has the time before. */
static inline bool visit(Walk *walk, int32_t node, uint8_t cause, float host_us)
{
    Reads *reads = &walk->reads;
    const int64_t before = reads->count;
    const bool is_alone = walk->are_chained && cause == walk->next_cause;
    if (walk->limited ? !touch_limited(walk, node, cause, is_alone)
                      : !touch_node(reads, node, cause, is_alone, walk->directory))
        return false;
    for (int64_t k = before; k < reads->count; k++)
        memcpy(walk->times[OF_READS].data + k * (int64_t)sizeof walk->clock, &walk->clock, sizeof walk->clock);
    walk->clock += host_us;
    return true;
}

/* Search an entry. */
static inline bool search(Walk *walk, const Searches *searches, int64_t entry)
{
    for (int64_t k = 0; k < searches->nodes.length; k++) {
        int32_t node;
        memcpy(&node, searches->nodes.data[k].data + entry * (int64_t)sizeof node, sizeof node);
        if (!visit(walk, node, searches->causes[k], float_at(searches->host_us, k)))
            return false;
    }
    return true;
}

/* Enter the leaves that some entries lie in, one after the other. */
static bool enter(Walk *walk, Numbers leaf, int64_t first, int64_t count)
{
    for (int64_t entry = first; entry < first + count; entry++)
        if ((entry == first || leaf.data[entry] != leaf.data[entry - 1]) &&
            !visit(walk, leaf.data[entry], walk->next_cause, 0))
            return false;
    return true;
}

static bool have_bytes(Columns columns, int64_t bytes)
{
    for (int64_t k = 0; k < columns.length; k++)
        if (columns.data[k].length != bytes)
            return false;
    return true;
}

/* Whether columns of buffers have a row for each, or none where they may be empty. */
static bool fit(Columns buffers, int64_t count)
{
    if (buffers.length != BUFFER_COLUMNS)
        return false;
    for (int64_t k = 0; k < BUFFER_COLUMNS; k++)
        if (buffers.data[k].length != count * 8 && (k <= COUNT || buffers.data[k].length != 0))
            return false;
    return buffers.data[BEFORE].length == buffers.data[BEFORE_DIRECTORY].length;
}

static int64_t word_or(Columns buffers, int column, int64_t row, int64_t otherwise)
{
    return buffers.data[column].length > 0 ? word_at(buffers.data[column], row) : otherwise;
}

/* Find what is read; returns how many rows of the answer were filled.
 *
 * Of each buffer, in this order: the entry that is looked up before (`BEFORE`, -1 for none); the leaf that the listing
 * starts in; the leaves of `AHEAD` entries; the searches that go with the listing of each entry; the leaf `behind`; the
 * searches of the entries that are `wanted`. `times` has the host's time on the way in, and the time of each read.
 *
 * An unlimited cache has `seen` and `state` (see `read_once`), a limited one what `lru_misses` has; the others are empty.
 */
KERNEL int64_t visit_once(Columns buffers, Numbers start, Numbers behind, Numbers leaf, Bytes wanted, Columns listed,
    Columns looked_up, Bytes causes, int64_t are_chained, Numbers parent, Numbers mapper, Words size_bytes,
    int64_t cache_bytes, Bytes seen, Bytes state, Numbers newer, Numbers older, Bytes cached, Words held, Columns times,
    Numbers answer_node, Bytes answer_cause, Words answer_directory)
{
    Cache cache = {.newer = newer, .older = older, .cached = cached, .size_bytes = size_bytes, .limit = cache_bytes};
    const bool is_limited = held.length > 0;
    const int64_t num_entries = leaf.length, num_searches = listed.length + looked_up.length;
    if (times.length != TIME_COLUMNS || causes.length != FIRST_SEARCH + num_searches || start.length > INT32_MAX ||
        num_entries > INT32_MAX || answer_node.length > INT32_MAX)
        return REFUSED;
    Walk walk = {
        .reads = {parent, mapper, seen, state, causes.data[INDEX], causes.data[MAPPED], answer_node, answer_cause,
            answer_directory, 0},
        .times = {times.data[OF_BUFFERS], times.data[OF_SEARCHES], times.data[CLOCK], times.data[OF_READS]},
        .limited = is_limited ? &cache : NULL,
        .way = {.parent = parent, .mapper = mapper},
        .next_cause = causes.data[NEXT],
        .are_chained = are_chained != 0,
    };
    if (is_limited ? held.length != STATE_LENGTH || !is_sound_cache(&cache, &walk.way) ||
                answer_cause.length != answer_node.length || answer_directory.length != answer_node.length
                   : !are_sound(&walk.reads))
        return REFUSED;
    cache.held = is_limited ? held.data[HELD] : 0;
    if (!fit(buffers, start.length) || !have_bytes(listed, num_entries * 4) ||
        !have_bytes(looked_up, num_entries * 4) || wanted.length != num_entries ||
        (behind.length != 0 && behind.length != start.length) || walk.times[OF_BUFFERS].length != start.length * 4 ||
        walk.times[OF_SEARCHES].length != num_searches * 4 || walk.times[CLOCK].length != sizeof walk.clock ||
        walk.times[OF_READS].length != answer_node.length * (int64_t)sizeof walk.clock)
        return REFUSED;
    memcpy(&walk.clock, walk.times[CLOCK].data, sizeof walk.clock);
    const uint8_t *search_us = walk.times[OF_SEARCHES].data;
    const Searches with_name = {listed, causes.data + FIRST_SEARCH, search_us};
    const Searches after = {
        looked_up, with_name.causes + listed.length, search_us + listed.length * (int64_t)sizeof(float)};
    for (int64_t k = 0; k < start.length; k++) {
        const int64_t first = word_at(buffers.data[FIRST], k), count = word_at(buffers.data[COUNT], k);
        const int64_t ahead = word_or(buffers, AHEAD, k, 0), before = word_or(buffers, BEFORE, k, -1);
        if (first < 0 || first > num_entries || count < 0 || count > num_entries - first || ahead < 0 ||
            ahead > num_entries - first || before >= num_entries)
            return REFUSED;
        walk.directory = word_or(buffers, BEFORE_DIRECTORY, k, 0);
        if (before >= 0 && !search(&walk, &after, before))
            return REFUSED;
        walk.directory = word_at(buffers.data[DIRECTORY], k);
        if (!visit(&walk, start.data[k], causes.data[LIST], float_at(walk.times[OF_BUFFERS].data, k)) ||
            !enter(&walk, leaf, first, ahead))
            return REFUSED;
        for (int64_t entry = first; listed.length > 0 && entry < first + count; entry++)
            if (!search(&walk, &with_name, entry))
                return REFUSED;
        if (behind.length > 0 && !visit(&walk, behind.data[k], causes.data[NEXT], 0))
            return REFUSED;
        for (int64_t entry = first; entry < first + count; entry++)
            if (wanted.data[entry] && !search(&walk, &after, entry))
                return REFUSED;
    }
    memcpy(walk.times[CLOCK].data, &walk.clock, sizeof walk.clock);
    return walk.reads.count;
}
