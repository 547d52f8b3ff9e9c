/* Hashes of plain names in directory records of APFS: CRC-32C of their characters, each of 32 bits. */

#include "kernel.h"

static const uint32_t CASTAGNOLI = 0x82f63b78; /* its bits reversed */
static const uint32_t START = 0xffffffff;

enum { ASCII_END = 128, BYTES = 4, VALUES = 256, CASE = 'a' - 'A' };

/* Registers after 32 zero bits, by each byte of the register before: they add up by XOR. */
typedef struct {
    uint32_t after[BYTES][VALUES];
} Table;

static void fill(Table *table)
{
    for (uint32_t byte = 0; byte < BYTES; byte++)
        for (uint32_t value = 0; value < VALUES; value++) {
            uint32_t rest = value << 8 * byte;
            for (int bit = 0; bit < 32; bit++)
                rest = rest >> 1 ^ (rest & 1) * CASTAGNOLI;
            table->after[byte][value] = rest;
        }
}

/* Hash a name; false if a character of it is not of ASCII. */
static bool hash(const Table *table, const uint8_t *name, int64_t length, bool is_folded, uint32_t *result)
{
    uint32_t rest = START;
    for (int64_t k = 0; k < length; k++) {
        uint32_t character = name[k];
        if (character >= ASCII_END)
            return false;
        if (is_folded && character >= 'A' && character <= 'Z')
            character += CASE;
        rest ^= character;
        rest = table->after[0][rest & 0xff] ^ table->after[1][rest >> 8 & 0xff] ^ table->after[2][rest >> 16 & 0xff] ^
            table->after[3][rest >> 24];
    }
    *result = rest;
    return true;
}

/* Hash names that lie one after the other, as far as they are plain and not empty; returns how many are. */
KERNEL int64_t hash_plain_names(Bytes names, Words length, int64_t is_folded, int64_t mask, Numbers hashes, Bytes known)
{
    if (hashes.length != length.length || known.length != length.length)
        return REFUSED;
    Table table;
    fill(&table);
    int64_t start = 0, found = 0;
    for (int64_t k = 0; k < length.length; k++) {
        const int64_t size = length.data[k];
        if (size < 0 || size > names.length - start)
            return REFUSED;
        uint32_t result = 0;
        const bool is_known = size > 0 && hash(&table, names.data + start, size, is_folded != 0, &result);
        hashes.data[k] = is_known ? (int32_t)(result & (uint32_t)mask) : 0;
        known.data[k] = is_known;
        found += is_known;
        start += size;
    }
    return found;
}
