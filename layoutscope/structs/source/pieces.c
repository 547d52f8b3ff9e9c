/* Many small pieces, each to its place in a buffer: read from a file, or copied. */

#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64

#include "kernel.h"

/* Copy pieces of a buffer into another one; returns how many. */
KERNEL int64_t copy_pieces(Bytes source, Words offsets, Words lengths, Words places, Bytes target)
{
    if (lengths.length != offsets.length || places.length != offsets.length)
        return REFUSED;
    for (int64_t k = 0; k < offsets.length; k++) {
        const int64_t offset = offsets.data[k], length = lengths.data[k], place = places.data[k];
        if (offset < 0 || length < 0 || place < 0 || length > source.length || offset > source.length - length ||
            length > target.length || place > target.length - length)
            return REFUSED;
        if (length > 0)
            memcpy(target.data + place, source.data + offset, (size_t)length);
    }
    return offsets.length;
}

#if defined(_WIN32)

KERNEL int64_t read_pieces(int64_t descriptor, int64_t most_bytes, Words offsets, Words lengths, Words places,
    Bytes target)
{
    (void)descriptor, (void)most_bytes, (void)offsets, (void)lengths, (void)places, (void)target;
    return REFUSED;
}

#else

#include <unistd.h>

/* Read pieces until one is too long or does not come whole at once; returns how many did. Why it did not, the next attempt tells. */
KERNEL int64_t read_pieces(int64_t descriptor, int64_t most_bytes, Words offsets, Words lengths, Words places,
    Bytes target)
{
    if (lengths.length != offsets.length || places.length != offsets.length || descriptor < 0 || descriptor > INT32_MAX)
        return REFUSED;
    for (int64_t k = 0; k < offsets.length; k++) {
        const int64_t length = lengths.data[k], place = places.data[k];
        if (offsets.data[k] < 0 || length < 0 || place < 0 || length > target.length || place > target.length - length)
            return REFUSED;
        if (length > most_bytes)
            return k;
        if (pread((int)descriptor, target.data + place, (size_t)length, (off_t)offsets.data[k]) != length)
            return k;
    }
    return offsets.length;
}

#endif
