/* The order that sorts numbers, digit by digit. */

#include "kernel.h"

enum { DIGIT_BITS = 11, NUM_DIGITS = 1 << DIGIT_BITS, WORD_BITS = 64 };

/* A digit of a number; the highest bit is turned over, so that numbers below zero come first. */
static inline uint64_t digit_of(int64_t number, int shift)
{
    return (((uint64_t)number ^ (uint64_t)1 << (WORD_BITS - 1)) >> shift) & (NUM_DIGITS - 1);
}

/* Deal places out by a digit of their numbers, in the order in which they come. */
static void deal(Words values, const int64_t *from, int64_t *to, int shift)
{
    int64_t next[NUM_DIGITS] = {0}, before = 0;
    for (int64_t k = 0; k < values.length; k++)
        next[digit_of(values.data[k], shift)]++;
    for (int64_t digit = 0; digit < NUM_DIGITS; digit++) {
        const int64_t count = next[digit];
        next[digit] = before;
        before += count;
    }
    for (int64_t k = 0; k < values.length; k++)
        to[next[digit_of(values.data[from[k]], shift)]++] = from[k];
}

/* Say in which order numbers ascend, equal ones as they stand; returns how many there are. Both buffers have a place for
 * each number, and are not the same.
 *
 * Bits that all numbers share are passed over: places of nodes differ in some twenty bits above those of a block.
 */
KERNEL int64_t order_numbers(Words values, Words order, Words scratch)
{
    if (order.length != values.length || scratch.length != values.length)
        return REFUSED;
    uint64_t differing = 0;
    bool is_ascending = true;
    for (int64_t k = 0; k < values.length; k++) {
        differing |= (uint64_t)values.data[k] ^ (uint64_t)values.data[0];
        is_ascending &= k == 0 || values.data[k - 1] <= values.data[k];
        order.data[k] = k;
    }
    if (is_ascending)
        return values.length;
    int64_t *from = order.data, *to = scratch.data;
    for (int shift = __builtin_ctzll(differing); shift < WORD_BITS && differing >> shift; shift += DIGIT_BITS) {
        if (!(differing >> shift & (NUM_DIGITS - 1)))
            continue;
        deal(values, from, to, shift);
        int64_t *const dealt = to;
        to = from;
        from = dealt;
    }
    if (from != order.data)
        memcpy(order.data, from, (size_t)values.length * sizeof *from);
    return values.length;
}
