/* A level of a tree that is filled write by write, its nodes split when they are full.
 *
 * layoutscope/aging/trees.py explains rules and columns.
 */

#include "kernel.h"

enum {
    HALF_OF_RECORDS = -1,
    BALANCED = -2, /* records go to the node before, where it has room, or to a new one there */
};

typedef struct {
    int64_t capacity_bytes;
    int64_t room_bytes; /* what of a full node stays, or one of the above */
    int64_t less_per_record;
    bool stays_at_cut;
} Rule;

typedef struct {
    Rule rule;
    Words size; /* of each record, 0 while it is not there */
    Numbers held; /* the records of each node in key order, `width` places to a node */
    int64_t width;
    Numbers count; /* of these places that are in use */
    Numbers first, order; /* of the nodes in key order: the record at which each begins, and its number */
    Words load, lost, born, batch;
    Numbers taken_by;
    Words taken_at, taken_in;
    int64_t num_nodes, num_taken, num_held;
    bool refused;
} Level;

typedef struct {
    int32_t record;
    int64_t more, lost, when, batch;
    bool is_new;
} Write;

/* The first of some numbers, which rise, that is not below this one. */
static int64_t place_of(const int32_t *numbers, int64_t count, int32_t number)
{
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(int32_t *numbers, int64_t count, int64_t place, int32_t number)
{
    memmove(numbers + place + 1, numbers + place, (size_t)(count - place) * sizeof *numbers);
    numbers[place] = number;
}

/* Have a transaction take a block for a node that it has not changed yet. */
static void take(Level *level, int32_t node, const Write *write)
{
    if (level->batch.data[node] == write->batch)
        return;
    level->batch.data[node] = write->batch;
    if (level->num_taken == level->taken_by.length) {
        level->refused = true;
        return;
    }
    level->taken_by.data[level->num_taken] = node;
    level->taken_at.data[level->num_taken] = write->when;
    level->taken_in.data[level->num_taken++] = write->batch;
}

/* How many records of a full node stay in it, if the next one gets this place among them. */
static int64_t cut_of(const Level *level, const int32_t *held, int64_t count, int64_t place)
{
    const Rule *rule = &level->rule;
    if (rule->room_bytes == HALF_OF_RECORDS)
        return count - count / 2;
    const int64_t room = rule->room_bytes - rule->less_per_record * count;
    int64_t filled = 0, kept = 0;
    while (kept < count - 1) {
        filled += level->size.data[held[kept++]] - rule->less_per_record;
        if (filled > room)
            break;
    }
    return larger(kept - (place < kept), 1);
}

static int64_t sum_of(const Level *level, const int32_t *held, int64_t count)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < count; k++)
        sum += level->size.data[held[k]];
    return sum;
}

/* Put a new node, still empty, at a place of the order. */
static int32_t add_node(Level *level, int64_t at, int32_t begins, const Write *write)
{
    const int32_t new = (int32_t)level->num_nodes;
    level->count.data[new] = 0;
    level->load.data[new] = level->lost.data[new] = 0;
    level->born.data[new] = write->when;
    level->batch.data[new] = -1;
    take(level, new, write);
    insert(level->first.data, level->num_nodes, at, begins);
    insert(level->order.data, level->num_nodes, at, new);
    level->num_nodes++;
    return new;
}

/* Split the node at a place of the order in two; returns the place where the record belongs. */
static int64_t split(Level *level, int64_t at, const Write *write)
{
    if (level->num_nodes == level->count.length) {
        level->refused = true;
        return at;
    }
    const int32_t node = level->order.data[at], new = (int32_t)level->num_nodes;
    int32_t *held = level->held.data + node * level->width, *other = level->held.data + new * level->width;
    const int32_t count = level->count.data[node];
    const int64_t place = place_of(held, count, write->record), cut = cut_of(level, held, count, place);
    memcpy(other, held + cut, (size_t)(count - cut) * sizeof *held);
    const bool goes = place > cut || (place == cut && !(write->is_new && level->rule.stays_at_cut));
    add_node(level, at + 1, goes && write->record < *other ? write->record : *other, write);
    level->count.data[new] = (int32_t)(count - cut);
    level->count.data[node] = (int32_t)cut;
    level->load.data[new] = sum_of(level, other, count - cut);
    level->load.data[node] = sum_of(level, held, cut);
    level->lost.data[node] = 0;
    return at + goes;
}

/* Move records from the begin of the node at a place to the node before it, until that holds as much or no more fits.
 *
 * At least so many; false if the node is too full even so, and nothing was moved.
 */
static bool balance(Level *level, int64_t at, int64_t least)
{
    const int32_t left = level->order.data[at - 1], right = level->order.data[at];
    int32_t *to = level->held.data + left * level->width, *from = level->held.data + right * level->width;
    const int64_t capacity = level->rule.capacity_bytes;
    int64_t before = level->load.data[left], behind = level->load.data[right], moved = 0, size = 0;
    while (before < behind && moved < level->count.data[right]) {
        size = level->size.data[from[moved++]];
        before += size;
        behind -= size;
    }
    if (before > capacity && moved > least) {
        moved--;
        before -= size;
        behind += size;
    }
    if (moved < least || (!least && behind > capacity) || level->count.data[left] + moved > level->width)
        return false;
    memcpy(to + level->count.data[left], from, (size_t)moved * sizeof *from);
    level->count.data[left] += (int32_t)moved;
    level->count.data[right] -= (int32_t)moved;
    memmove(from, from + moved, (size_t)level->count.data[right] * sizeof *from);
    level->load.data[left] = before;
    level->load.data[right] = behind;
    if (moved)
        level->first.data[at] = *from;
    return true;
}

static bool is_too_full(const Level *level, int32_t node, const Write *write)
{
    return level->count.data[node] > 1 &&
        level->load.data[node] + level->lost.data[node] + write->more + write->lost > level->rule.capacity_bytes;
}

/* Make room in a node that holds too much: in the node before it, else in a new one there. */
static void spread(Level *level, int64_t at, const Write *write)
{
    const int32_t node = level->order.data[at];
    while (level->load.data[node] > level->rule.capacity_bytes && level->count.data[node] > 1) {
        if (at && balance(level, at, 0)) {
            take(level, level->order.data[at - 1], write);
            return;
        }
        if (level->num_nodes == level->count.length) {
            level->refused = true;
            return;
        }
        add_node(level, at, level->first.data[at], write);
        if (!balance(level, ++at, 1)) {
            level->refused = true;
            return;
        }
    }
}

/* Write a record; split what is too full for it. */
static void put(Level *level, Write write)
{
    /* The node that begins at the record, or before it: the first begins before all. */
    int64_t at = place_of(level->first.data, level->num_nodes, write.record + 1) - 1;
    int32_t node = level->order.data[at];
    take(level, node, &write);
    write.is_new = !level->size.data[write.record];
    const bool is_balanced = level->rule.room_bytes == BALANCED;
    while (!is_balanced && !level->refused && is_too_full(level, node, &write)) {
        at = split(level, at, &write);
        node = level->order.data[at];
        write.lost = write.is_new ? write.lost : 0;
    }
    if (write.is_new) {
        int32_t *held = level->held.data + node * level->width;
        const int32_t count = level->count.data[node];
        /* A record without a size would come again. */
        if (level->refused || count == level->width || !write.more) {
            level->refused = true;
            return;
        }
        insert(held, count, place_of(held, count, write.record), write.record);
        level->count.data[node]++;
        level->num_held++;
    }
    level->size.data[write.record] += write.more;
    level->load.data[node] += write.more;
    level->lost.data[node] += write.lost;
    if (is_balanced)
        spread(level, at, &write);
}

/* Whether the buffers fit each other, and there is room for the first node. */
static bool is_sound(const Level *level)
{
    const int64_t nodes = level->count.length;
    return nodes > 0 && nodes < INT32_MAX && level->size.length < INT32_MAX && level->first.length == nodes &&
        level->order.length == nodes && level->load.length == nodes && level->lost.length == nodes &&
        level->born.length == nodes && level->batch.length == nodes && level->width > 0 && level->width < INT32_MAX &&
        level->held.length == nodes * level->width && level->taken_by.length > 0 &&
        level->taken_at.length == level->taken_by.length && level->taken_in.length == level->taken_by.length;
}

/* The first node is there before anything is written. */
static void begin(Level *level)
{
    memset(level->size.data, 0, (size_t)level->size.length * sizeof *level->size.data);
    level->first.data[0] = -1;
    level->order.data[0] = level->count.data[0] = level->taken_by.data[0] = 0;
    level->load.data[0] = level->lost.data[0] = level->born.data[0] = level->batch.data[0] = 0;
    level->taken_at.data[0] = level->taken_in.data[0] = 0;
    level->num_nodes = level->num_taken = 1;
}

/* Sums of less than 2^31 of these stay below 2^62. */
static bool is_small(int64_t number)
{
    return within(number, INT32_MAX);
}

/* Write records one after the other; returns how many nodes there are then, with how often one got a block in `taken`.
 *
 * `node` gets the place of each record's node in key order. What is no record of the table, has no size, or is not
 * written at all is refused, and so is what there is no room for.
 */
KERNEL int64_t grow_level(Words record, Words more, Words lost, Words when, Words batch, int64_t capacity_bytes,
    int64_t room_bytes, int64_t less_per_record, int64_t stays_at_cut, Words size, Words node, Numbers held,
    Numbers count, Numbers first, Numbers order, Words load, Words unused, Words born, Words last_batch,
    Numbers taken_by, Words taken_at, Words taken_in, Words taken)
{
    Level level = {.rule = {capacity_bytes, room_bytes, less_per_record, stays_at_cut != 0}, .size = size,
        .held = held, .count = count, .first = first, .order = order, .load = load, .lost = unused, .born = born,
        .batch = last_batch, .taken_by = taken_by, .taken_at = taken_at, .taken_in = taken_in};
    level.width = count.length > 0 ? held.length / count.length : 0;
    const int64_t num_writes = record.length;
    if (!is_sound(&level) || node.length != size.length || taken.length != 1 || !is_small(num_writes) ||
        more.length != num_writes || lost.length != num_writes || when.length != num_writes ||
        batch.length != num_writes || !is_small(capacity_bytes) || room_bytes < BALANCED ||
        room_bytes >= INT32_MAX || !is_small(less_per_record))
        return REFUSED;
    begin(&level);
    for (int64_t k = 0; k < num_writes; k++) {
        if (!within(record.data[k], size.length) || !is_small(more.data[k]) || !is_small(lost.data[k]))
            return REFUSED;
        put(&level,
            (Write){(int32_t)record.data[k], more.data[k], lost.data[k], when.data[k], batch.data[k], false});
        if (level.refused)
            return REFUSED;
    }
    if (level.num_held != size.length)
        return REFUSED;
    for (int64_t at = 0; at < level.num_nodes; at++) {
        const int32_t *own = held.data + order.data[at] * level.width;
        for (int64_t k = 0; k < count.data[order.data[at]]; k++)
            node.data[own[k]] = at;
    }
    taken.data[0] = level.num_taken;
    return level.num_nodes;
}
