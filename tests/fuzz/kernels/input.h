/* Arguments of kernels, out of the bytes that a fuzzer makes.
 *
 * Each buffer is a number of elements in two bytes, then the elements as they lie in memory; it has memory of its own,
 * of exactly its size, so that the sanitizer sees each access outside. What the input has no more of is missing.
 */

#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { MOST_BUFFERS = 1024, MOST_COLUMNS = 200 };

typedef struct {
    const uint8_t *data;
    size_t left;
    void *kept[MOST_BUFFERS];
    int num_kept;
} Input;

static inline uint64_t take(Input *input, size_t bytes)
{
    uint64_t number = 0;
    for (size_t k = 0; k < bytes && input->left > 0; k++, input->data++, input->left--)
        number |= (uint64_t)*input->data << 8 * k;
    return number;
}

static inline void *buffer(Input *input, size_t element_bytes, int64_t *length)
{
    size_t count = (size_t)take(input, 2);
    if (count > input->left / element_bytes)
        count = input->left / element_bytes;
    if (input->num_kept == MOST_BUFFERS)
        abort();
    void *memory = malloc(count > 0 ? count * element_bytes : 1);
    if (!memory)
        abort();
    memcpy(memory, input->data, count * element_bytes);
    input->data += count * element_bytes;
    input->left -= count * element_bytes;
    input->kept[input->num_kept++] = memory;
    *length = (int64_t)count;
    return memory;
}

static inline int64_t take_number(Input *input)
{
    return (int64_t)take(input, 8);
}

static inline Words take_words(Input *input)
{
    Words found;
    found.data = buffer(input, 8, &found.length);
    return found;
}

static inline Numbers take_numbers(Input *input)
{
    Numbers found;
    found.data = buffer(input, 4, &found.length);
    return found;
}

static inline Bytes take_bytes(Input *input)
{
    Bytes found;
    found.data = buffer(input, 1, &found.length);
    return found;
}

static inline Columns take_columns(Input *input)
{
    Columns found;
    const int64_t count = (int64_t)take(input, 2);
    found.length = count < MOST_COLUMNS ? count : MOST_COLUMNS;
    found.data = malloc(sizeof(Bytes) * MOST_COLUMNS);
    if (!found.data)
        abort();
    for (int64_t k = 0; k < found.length; k++)
        found.data[k] = take_bytes(input);
    if (input->num_kept == MOST_BUFFERS)
        abort();
    input->kept[input->num_kept++] = found.data;
    return found;
}

static inline void release(Input *input)
{
    while (input->num_kept > 0)
        free(input->kept[--input->num_kept]);
}
