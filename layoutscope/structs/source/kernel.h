/* What all kernels share.
 *
 * Images are hostile, and so is every number that comes from one. A kernel gets flat buffers with their lengths, writes
 * into nothing else, allocates nothing and calls nobody back. It checks each index before it uses it and each sum that
 * may overflow, and refuses what fails a check. What a refused call leaves in its buffers is of no use.
 */

#ifndef LAYOUTSCOPE_KERNEL_H
#define LAYOUTSCOPE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define KERNEL __declspec(dllexport)
#else
#define KERNEL __attribute__((visibility("default")))
#endif

/* A function that only brings memory near has no result: GCC leaves calls of such ones out, unless they are inlined. */
#if defined(__GNUC__)
#define BROUGHT_NEAR static inline __attribute__((always_inline))
#else
#define BROUGHT_NEAR static inline
#endif

enum { REFUSED = -1 };

/* Buffers, with the number of their elements. */
typedef struct {
    int64_t *data;
    int64_t length;
} Words;

typedef struct {
    int32_t *data;
    int64_t length;
} Numbers;

typedef struct {
    uint8_t *data;
    int64_t length;
} Bytes;

/* Columns of any type, each with the number of its bytes. */
typedef struct {
    Bytes *data;
    int64_t length;
} Columns;

/* Whether an index lies in a buffer of this length. */
static inline bool within(int64_t index, int64_t length)
{
    return index >= 0 && index < length;
}

/* Sums, differences and products that note in `refused` when they overflow. */

static inline int64_t plus(int64_t a, int64_t b, bool *refused)
{
    int64_t sum;
    *refused |= __builtin_add_overflow(a, b, &sum);
    return sum;
}

static inline int64_t minus(int64_t a, int64_t b, bool *refused)
{
    int64_t difference;
    *refused |= __builtin_sub_overflow(a, b, &difference);
    return difference;
}

static inline int64_t times(int64_t a, int64_t b, bool *refused)
{
    int64_t product;
    *refused |= __builtin_mul_overflow(a, b, &product);
    return product;
}

/* Numbers of 2, 4 or 8 bytes wherever they stand, in either order; compilers do not join single bytes in loops. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
enum { HOST_IS_BIG = 1 };
#else
enum { HOST_IS_BIG = 0 };
#endif

static inline uint64_t number_at(const uint8_t *bytes, int width, bool is_big)
{
    uint64_t wide;
    uint32_t half;
    uint16_t quarter;
    switch (width) {
    case 2:
        memcpy(&quarter, bytes, sizeof quarter);
        return is_big == HOST_IS_BIG ? quarter : __builtin_bswap16(quarter);
    case 4:
        memcpy(&half, bytes, sizeof half);
        return is_big == HOST_IS_BIG ? half : __builtin_bswap32(half);
    default:
        memcpy(&wide, bytes, sizeof wide);
        return is_big == HOST_IS_BIG ? wide : __builtin_bswap64(wide);
    }
}

static inline uint64_t little(const uint8_t *bytes, int width)
{
    return number_at(bytes, width, false);
}

static inline uint64_t big(const uint8_t *bytes, int width)
{
    return number_at(bytes, width, true);
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
