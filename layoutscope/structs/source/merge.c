/* Runs of two tables laid out in turn. */

#include <string.h>

#include "kernel.h"

/* Whether columns have a width each, and as many rows as these. */
static bool have_rows(Columns columns, Words widths, int64_t rows)
{
    if (columns.length != widths.length)
        return false;
    for (int64_t k = 0; k < columns.length; k++) {
        int64_t bytes;
        if (widths.data[k] <= 0 || __builtin_mul_overflow(rows, widths.data[k], &bytes) ||
            columns.data[k].length != bytes)
            return false;
    }
    return true;
}

static int64_t total(Words counts, bool *refused)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < counts.length; k++) {
        *refused |= counts.data[k] < 0;
        sum = plus(sum, counts.data[k], refused);
    }
    return sum;
}

/* Lay out group 0 of the first table, group 0 of the second, group 1 of the first …; returns the number of rows. */
KERNEL int64_t merge_runs(
    Words first_counts, Words second_counts, Words widths, Columns first, Columns second, Columns merged)
{
    bool refused = first_counts.length != second_counts.length;
    const int64_t firsts = total(first_counts, &refused), seconds = total(second_counts, &refused);
    const int64_t rows = plus(firsts, seconds, &refused);
    if (refused || !have_rows(first, widths, firsts) || !have_rows(second, widths, seconds) ||
        !have_rows(merged, widths, rows))
        return REFUSED;
    for (int64_t k = 0; k < widths.length; k++) {
        const uint8_t *one = first.data[k].data, *other = second.data[k].data;
        uint8_t *to = merged.data[k].data;
        for (int64_t group = 0; group < first_counts.length; group++) {
            const int64_t ones = first_counts.data[group] * widths.data[k];
            const int64_t others = second_counts.data[group] * widths.data[k];
            if (ones > 0) {
                memcpy(to, one, (size_t)ones);
                one += ones;
                to += ones;
            }
            if (others > 0) {
                memcpy(to, other, (size_t)others);
                other += others;
                to += others;
            }
        }
    }
    return rows;
}
