/* The order of names in folders, which lie one after the other. */

#include "kernel.h"

enum { NUM_UNITS = 1 << 16, END = -1, SLASH = 0x2f, COLON = 0x3a, WORD_BYTES = 8 };

/* A name, as far as it was read: a byte a unit, in which a colon stands for a slash, or big-endian units. */
typedef struct {
    const uint8_t *next, *stop;
    bool is_plain;
} Name;

/* Names in two buffers; of those in the second one, which alone have a length there, the first tells less. */
typedef struct {
    Bytes data;
    Words start;
    Numbers length;
} Names;

static inline int32_t unit_of(Name *name)
{
    if (!name->is_plain) {
        name->next += 2;
        return name->next[-2] << 8 | name->next[-1];
    }
    const uint8_t byte = *name->next++;
    return byte == COLON ? SLASH : byte;
}

/* The next unit of a name, folded if there is a table; units that fold to 0 are passed over. */
static int32_t next_unit(Name *name, Numbers table)
{
    while (name->next < name->stop) {
        const int32_t unit = unit_of(name), folded = table.length > 0 ? table.data[unit] : unit;
        if (folded != 0 || table.length == 0)
            return folded;
    }
    return END;
}

/* Pass over what is the same at the start of two names of which both are plain. */
static inline void pass_same(Name *one, Name *other)
{
    int64_t same = 0, most = smaller(one->stop - one->next, other->stop - other->next);
    uint64_t first, second;
    for (; most - same >= WORD_BYTES; same += WORD_BYTES) {
        memcpy(&first, one->next + same, WORD_BYTES);
        memcpy(&second, other->next + same, WORD_BYTES);
        if (first != second) {
            const int bits = HOST_IS_BIG ? __builtin_clzll(first ^ second) : __builtin_ctzll(first ^ second);
            most = same + bits / 8;
            break;
        }
    }
    while (same < most && one->next[same] == other->next[same])
        same++;
    one->next += same;
    other->next += same;
}

/* Whether a name fails to come after another one; the shorter one comes first, and equal ones have no order. */
static bool is_not_after(Name before, Name after, Numbers table)
{
    if (before.is_plain && after.is_plain)
        pass_same(&before, &after);
    for (;;) {
        const int32_t one = next_unit(&before, table), other = next_unit(&after, table);
        if (one != other)
            return one > other;
        if (one == END)
            return true;
    }
}

/* Take a name; false where it does not lie in its buffer. */
static inline bool take_name(Names names, int64_t k, bool is_plain, Name *name)
{
    const int64_t first = names.start.data[k], size = names.length.data[k];
    if (first < 0 || size < 0 || (!is_plain && size % 2 != 0) || size > names.data.length ||
        first > names.data.length - size)
        return false;
    *name = (Name){names.data.data + first, names.data.data + first + size, is_plain};
    return true;
}

/* Say of keys, each a number and a name, which do not come after the one before; returns how many. */
KERNEL int64_t misplaced_names(Words number, Bytes plain, Words start, Numbers length, Bytes others, Words other_start,
    Numbers other_length, Numbers table, Bytes wrong)
{
    const int64_t count = number.length;
    const bool has_others = other_length.length > 0;
    if (start.length != count || length.length != count || wrong.length != count ||
        (has_others && other_length.length != count) || other_start.length != other_length.length ||
        (table.length != 0 && table.length != NUM_UNITS))
        return REFUSED;
    const Names all = {plain, start, length}, rest = {others, other_start, other_length};
    int64_t found = 0;
    Name before = {0}, name;
    for (int64_t k = 0; k < count; k++) {
        const bool is_other = has_others && other_length.data[k] != 0;
        if (!take_name(is_other ? rest : all, k, !is_other, &name))
            return REFUSED;
        bool is_wrong = false;
        if (k > 0)
            is_wrong = number.data[k] < number.data[k - 1] ||
                (number.data[k] == number.data[k - 1] && is_not_after(before, name, table));
        wrong.data[k] = is_wrong;
        found += is_wrong;
        before = name;
    }
    return found;
}
