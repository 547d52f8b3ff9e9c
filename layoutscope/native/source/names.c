/* The order of names in folders, which lie one after the other. Twin of Keys.misplaced in
 * layoutscope/filesystems/hfsplus/tree/keys.py.
 */

#include "kernel.h"

enum { NUM_UNITS = 1 << 16, END = -1 };

/* A name of big-endian units, as far as it was read. */
typedef struct {
    const uint8_t *next, *stop;
} Name;

/* The next unit of a name, folded if there is a table; units that fold to 0 are passed over. */
static int32_t next_unit(Name *name, Numbers table)
{
    while (name->next < name->stop) {
        const int32_t unit = name->next[0] << 8 | name->next[1];
        name->next += 2;
        const int32_t folded = table.length > 0 ? table.data[unit] : unit;
        if (folded != 0 || table.length == 0)
            return folded;
    }
    return END;
}

/* Whether a name fails to come after another one; the shorter one comes first, and equal ones have no order. */
static bool is_not_after(Name before, Name after, Numbers table)
{
    for (;;) {
        const int32_t one = next_unit(&before, table), other = next_unit(&after, table);
        if (one != other)
            return one > other;
        if (one == END)
            return true;
    }
}

/* Say of keys, each a number and a name, which do not come after the one before; returns how many. */
KERNEL int64_t misplaced_names(Words number, Bytes names, Words start, Words length, Numbers table, Bytes wrong)
{
    const int64_t count = number.length;
    if (start.length != count || length.length != count || wrong.length != count ||
        (table.length != 0 && table.length != NUM_UNITS))
        return REFUSED;
    int64_t found = 0;
    Name before = {0};
    for (int64_t k = 0; k < count; k++) {
        const int64_t first = start.data[k], size = length.data[k];
        if (first < 0 || size < 0 || size % 2 != 0 || size > names.length || first > names.length - size)
            return REFUSED;
        const Name name = {names.data + first, names.data + first + size};
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
