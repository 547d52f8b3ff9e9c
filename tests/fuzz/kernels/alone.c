/* A fuzzer for where libFuzzer is not: runs files, and changes of them, for some seconds.
 *
 * Usage: program SECONDS SEED FILE... The last input before a sanitizer stops the program is kept as ``crash``.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 16, ROUNDS_BETWEEN_LOOKS = 256 };

static uint64_t state;

static uint64_t any(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void run(const uint8_t *data, size_t size)
{
    FILE *kept = fopen("crash", "wb");
    if (kept) {
        fwrite(data, 1, size, kept);
        fclose(kept);
    }
    LLVMFuzzerTestOneInput(data, size);
}

static void change(uint8_t *data, size_t size)
{
    static const uint8_t telling[] = {0, 1, 2, 0x7f, 0x80, 0xff};
    for (uint64_t k = 1 + any(6); k > 0 && size > 0; k--) {
        const size_t at = any(size);
        const size_t width = (size_t)1 << any(4);
        switch (any(3)) {
        case 0:
            data[at] ^= (uint8_t)(1 << any(8));
            break;
        case 1:
            data[at] = telling[any(sizeof telling)];
            break;
        default:
            /* A whole number becomes very small or very large. */
            if (at + width <= size)
                memset(data + at, any(2) ? 0xff : 0, width);
        }
    }
}

int main(int count, char **words)
{
    static uint8_t files[64][MOST_BYTES], data[MOST_BYTES];
    size_t sizes[64];
    const int num_files = count - 3 < 64 ? count - 3 : 64;
    if (num_files < 1)
        return 2;
    state = strtoull(words[2], NULL, 10) * 2 + 1;
    for (int k = 0; k < num_files; k++) {
        FILE *file = fopen(words[k + 3], "rb");
        if (!file)
            return 2;
        sizes[k] = fread(files[k], 1, MOST_BYTES, file);
        fclose(file);
        run(files[k], sizes[k]);
    }
    const clock_t end = clock() + (clock_t)(atof(words[1]) * CLOCKS_PER_SEC);
    uint64_t rounds = 0;
    while (rounds % ROUNDS_BETWEEN_LOOKS != 0 || clock() < end) {
        const uint64_t which = any((uint64_t)num_files);
        const size_t size = any(8) ? sizes[which] : any(sizes[which] + 1);
        memcpy(data, files[which], size);
        change(data, size);
        LLVMFuzzerTestOneInput(data, size);
        rounds++;
    }
    remove("crash");
    printf("%llu\n", (unsigned long long)rounds);
    return 0;
}
