/* Apple's Fletcher-64 of objects. */

#include "kernel.h"

static const uint64_t MODULUS = 0xffffffff;

enum {
    STORED_BYTES = 8, /* the checksum itself is left out */
    WORD_BYTES = 4,
    CHUNK_WORDS = 1 << 15, /* so many words cannot overflow either sum */
};

static uint64_t little_endian(const uint8_t *bytes)
{
    return bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[3] << 24;
}

static uint64_t fletcher(const uint8_t *object, int64_t size_bytes)
{
    uint64_t low = 0, high = 0;
    for (int64_t at = STORED_BYTES; at < size_bytes;) {
        const int64_t stop = smaller(size_bytes, at + CHUNK_WORDS * WORD_BYTES);
        for (; at < stop; at += WORD_BYTES) {
            low += little_endian(object + at);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    const uint64_t check_low = MODULUS - (low + high) % MODULUS;
    const uint64_t check_high = MODULUS - (low + check_low) % MODULUS;
    return check_high << 32 | check_low;
}

/* Compute what the first eight bytes of each object should be. */
KERNEL int64_t fletcher64(Bytes objects, int64_t size_bytes, Words sums)
{
    int64_t total;
    if (size_bytes < STORED_BYTES || size_bytes % WORD_BYTES != 0 ||
        __builtin_mul_overflow(sums.length, size_bytes, &total) || total != objects.length)
        return REFUSED;
    for (int64_t k = 0; k < sums.length; k++)
        sums.data[k] = (int64_t)fletcher(objects.data + k * size_bytes, size_bytes);
    return 0;
}
