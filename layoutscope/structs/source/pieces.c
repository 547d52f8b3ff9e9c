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

KERNEL int64_t read_pieces(int64_t descriptor, int64_t most_bytes, int64_t gap_bytes, Words offsets, Words lengths,
    Words places, Bytes scratch, Bytes target, Words used)
{
    (void)descriptor, (void)most_bytes, (void)gap_bytes, (void)offsets, (void)lengths, (void)places, (void)scratch;
    (void)target, (void)used;
    return REFUSED;
}

#else

#include <unistd.h>

/* Whether a piece lies in the file and its place in the target. */
static int is_possible(int64_t offset, int64_t length, int64_t place, int64_t room)
{
    return offset >= 0 && length >= 0 && place >= 0 && length <= room && place <= room - length && offset <= INT64_MAX - length;
}

/* Read pieces until one is too long or does not come whole at once; returns how many did. Why it did not, the next attempt tells.
   Pieces with short gaps between them are read together, by way of the scratch buffer. `used`: requests and bytes. */
KERNEL int64_t read_pieces(int64_t descriptor, int64_t most_bytes, int64_t gap_bytes, Words offsets, Words lengths,
    Words places, Bytes scratch, Bytes target, Words used)
{
    const int64_t count = offsets.length;
    if (lengths.length != count || places.length != count || used.length != 2 || descriptor < 0 || descriptor > INT32_MAX)
        return REFUSED;
    used.data[0] = used.data[1] = 0;
    for (int64_t k = 0, next; k < count; k = next) {
        const int64_t start = offsets.data[k];
        int64_t stop = start;
        for (next = k; next < count; next++) {
            const int64_t offset = offsets.data[next], length = lengths.data[next];
            if (!is_possible(offset, length, places.data[next], target.length)) {
                if (next == k)
                    return REFUSED;
                break;
            }
            const int64_t end = offset + length > stop ? offset + length : stop;
            if (length > most_bytes ||
                (next > k && (offset < start || offset - stop > gap_bytes || end - start > scratch.length)))
                break;
            stop = end;
        }
        if (next == k)
            return k;
        uint8_t *const data = next == k + 1 ? target.data + places.data[k] : scratch.data;
        if (pread((int)descriptor, data, (size_t)(stop - start), (off_t)start) != stop - start)
            return k;
        for (int64_t row = k; row < next && data == scratch.data; row++)
            memcpy(target.data + places.data[row], data + (offsets.data[row] - start), (size_t)lengths.data[row]);
        used.data[0]++;
        used.data[1] += stop - start;
    }
    return count;
}

#endif
