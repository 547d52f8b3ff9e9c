/* Records of leaves, decoded into columns by a plan (layoutscope/structs/leaves.py).
 *
 * Records are taken some hundred at a time, while their bytes are near: first each is looked at, and given a row; then
 * the fields of all those of one kind are moved one field after the other, which saves asking for each value what is to
 * be done with it; last comes what has no fixed length, record by record.
 */

#include "leafplan.h"

enum { AT_ONCE = 512, UTF8_BYTES_OF_UNIT = 3, ASCII_AT_ONCE = 4, SOON = 8, LINE_BYTES = 64, MOST_NEAR = 256 };

/* The records that were handed over, and what becomes of them. */
typedef struct {
    Bytes buffer;
    int64_t node_bytes;
    Words numbers, node;
    Words start[VALUE + 1];
    Numbers length[VALUE + 1];
    Words row;
    Bytes leaf, damaged;
} Batch;

typedef struct {
    const uint8_t *part[ITEM + 1];
    int64_t length[VALUE + 1];
    uint64_t word[NUM_PLACES]; /* what stands in no bytes, by place */
} Record;

/* Records of one leaf, or repetitions of one list, whose fields are moved together. */
typedef struct {
    int64_t count;
    int64_t record[AT_ONCE], row[AT_ONCE];
    const uint8_t *part[VALUE + 1][AT_ONCE];
    uint64_t owner[AT_ONCE], before[AT_ONCE]; /* of repetitions */
    uint64_t value[AT_ONCE];
    const int64_t *list; /* whose repetitions they are, none of records */
} Group;

typedef enum { DECODED, UNFIT, FULL } Outcome;

static inline uint64_t number_in(const uint8_t *bytes, int form)
{
    switch (form) {
    case BYTE:
        return bytes[0];
    case LITTLE_2:
        return little(bytes, 2);
    case BIG_2:
        return big(bytes, 2);
    case LITTLE_4:
        return little(bytes, 4);
    case BIG_4:
        return big(bytes, 4);
    case LITTLE_8:
        return little(bytes, 8);
    default:
        return big(bytes, 8);
    }
}

/* What becomes of values that were read: signs, shifts, sums, masks, limits and comparisons, as the field says. */
static inline void compute(const int64_t *field, uint64_t *value, int64_t count)
{
    if (field[PLACE] <= ITEM && field[FLAGS] & SIGNED && field[WIDTH] < 8) {
        const uint64_t sign = (uint64_t)1 << (8 * field[WIDTH] - 1);
        for (int64_t k = 0; k < count; k++)
            value[k] = (value[k] ^ sign) - sign;
    }
    if (field[SHIFT] || field[ADD] || field[MASK] != -1)
        for (int64_t k = 0; k < count; k++)
            value[k] = ((value[k] >> field[SHIFT]) + (uint64_t)field[ADD]) & (uint64_t)field[MASK];
    if (field[FLAGS] & CLIPPED)
        for (int64_t k = 0; k < count; k++)
            value[k] = value[k] > INT64_MAX ? INT64_MAX : value[k];
    if (field[TEST] != NO_TEST)
        for (int64_t k = 0; k < count; k++)
            value[k] = (value[k] == (uint64_t)field[OPERAND]) == (field[TEST] == EQUAL);
}

/* What is made of a number that was read. */
static inline uint64_t computed(const Plan *plan, int64_t number, uint64_t value)
{
    const Source *source = plan->sources + number;
    if (source->is_special)
        compute(field_at(plan, number), &value, 1);
    else
        value = ((value >> source->shift) + source->add) & source->mask;
    return value;
}

static inline uint64_t value_of(const Plan *plan, int64_t number, const Record *record)
{
    const Source *source = plan->sources + number;
    return computed(plan, number, source->form == WORD
        ? record->word[source->place]
        : number_in(record->part[source->place] + source->offset, source->form));
}

#define STORE(type)                                                                                                    \
    for (int64_t k = 0; k < count; k++) {                                                                              \
        const type narrow = (type)value[k];                                                                            \
        memcpy(data + row[k] * (int64_t)sizeof narrow, &narrow, sizeof narrow);                                        \
    }                                                                                                                  \
    break

/* Put values into rows of a column, which has room for them, in the width of the column. */
static inline void put(const Plan *plan, int64_t column, const int64_t *row, const uint64_t *value, int64_t count)
{
    uint8_t *data = plan->columns.data[column].data;
    switch (output_at(plan, column)[OUT_BYTES]) {
    case 1:
        STORE(uint8_t);
    case 2:
        STORE(uint16_t);
    case 4:
        STORE(uint32_t);
    default:
        STORE(uint64_t);
    }
}

#define STORE_ALL(type)                                                                                                \
    for (int64_t k = 0; k < count; k++) {                                                                              \
        const type narrow = (type)value[k];                                                                            \
        memcpy(data + (row + k) * (int64_t)sizeof narrow, &narrow, sizeof narrow);                                     \
    }                                                                                                                  \
    break

/* The same for rows that follow one another. */
static void put_run(const Plan *plan, int64_t column, int64_t row, const uint64_t *value, int64_t count)
{
    uint8_t *data = plan->columns.data[column].data;
    switch (output_at(plan, column)[OUT_BYTES]) {
    case 1:
        STORE_ALL(uint8_t);
    case 2:
        STORE_ALL(uint16_t);
    case 4:
        STORE_ALL(uint32_t);
    default:
        STORE_ALL(uint64_t);
    }
}

static void put_fields(const Plan *plan, const Record *record, int64_t first, int64_t stop, int64_t row)
{
    for (int64_t k = first; k < stop; k++) {
        const uint64_t value = value_of(plan, k, record);
        put(plan, field_at(plan, k)[COLUMN], &row, &value, 1);
    }
}

#define LOAD(number)                                                                                                   \
    {                                                                                                                  \
        for (int64_t k = 0; k < count; k++)                                                                            \
            value[k] = (number);                                                                                       \
        break;                                                                                                         \
    }

/* Read a field of all records of a group. */
static void load(const Batch *batch, const Source *source, Group *group)
{
    const int64_t count = group->count, *record = group->record, at = source->offset;
    const uint64_t node_bytes = (uint64_t)batch->node_bytes;
    const int64_t *start = batch->start[source->place == KEY_AT ? KEY : VALUE].data;
    const uint8_t *const *from = group->part[source->place == KEY ? KEY : VALUE];
    uint64_t *value = group->value;
    switch (source->form) {
    case WORD:
        if (source->place == NODE)
            LOAD((uint64_t)batch->numbers.data[batch->node.data[record[k]]]);
        if (source->place == KEY_AT || source->place == VALUE_AT)
            LOAD((uint64_t)start[record[k]] - (uint64_t)batch->node.data[record[k]] * node_bytes);
        if (group->list != NULL && source->place == OWNER)
            LOAD(group->owner[k]);
        if (group->list != NULL && source->place == BEFORE)
            LOAD(group->before[k]);
        LOAD(0);
    case BYTE:
        LOAD(from[k][at]);
    case LITTLE_2:
        LOAD(little(from[k] + at, 2));
    case BIG_2:
        LOAD(big(from[k] + at, 2));
    case LITTLE_4:
        LOAD(little(from[k] + at, 4));
    case BIG_4:
        LOAD(big(from[k] + at, 4));
    case LITTLE_8:
        LOAD(little(from[k] + at, 8));
    default:
        LOAD(big(from[k] + at, 8));
    }
}

/* Whether the next units are all ASCII; if so, they are put down. */
static inline bool put_ascii(const uint8_t *units, uint8_t *to)
{
    uint64_t four = big(units, ASCII_AT_ONCE * 2);
    if (four & 0xff80ff80ff80ff80)
        return false;
    four = (four | four >> 8) & 0x0000ffff0000ffff;
    uint32_t bytes = (uint32_t)(four | four >> 16);
    bytes = HOST_IS_BIG ? bytes : __builtin_bswap32(bytes);
    memcpy(to, &bytes, sizeof bytes);
    return true;
}

/* Whether a text of big-endian UTF-16 is ASCII. */
static inline bool is_ascii(const uint8_t *units, int64_t count)
{
    uint64_t bits = 0;
    int64_t k = 0;
    for (; count - k >= ASCII_AT_ONCE; k += ASCII_AT_ONCE)
        bits |= big(units + 2 * k, ASCII_AT_ONCE * 2);
    for (; k < count; k++)
        bits |= big(units + 2 * k, 2);
    return !(bits & 0xff80ff80ff80ff80);
}

/* Encode big-endian UTF-16 as UTF-8; a half of a surrogate pair without the other half becomes U+FFFD. */
static int64_t to_utf8(const uint8_t *units, int64_t count, uint8_t *out)
{
    uint8_t *to = out;
    int64_t k = 0;
    for (; count - k >= ASCII_AT_ONCE && put_ascii(units + 2 * k, to); k += ASCII_AT_ONCE)
        to += ASCII_AT_ONCE;
    /* What is left of a text that was ASCII so far: its last units together, some of them once more. */
    if (k > 0 && k == to - out && k < count && count - k < ASCII_AT_ONCE &&
        put_ascii(units + 2 * (count - ASCII_AT_ONCE), out + count - ASCII_AT_ONCE))
        return count;
    for (; k < count; k++) {
        uint32_t code = (uint32_t)big(units + 2 * k, 2);
        if (code < 0x80) {
            *to++ = (uint8_t)code;
            continue;
        }
        if (code >= 0xd800 && code < 0xe000) {
            const uint32_t low = code < 0xdc00 && k + 1 < count ? (uint32_t)big(units + 2 * (k + 1), 2) : 0;
            const bool is_pair = low >= 0xdc00 && low < 0xe000;
            code = is_pair ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
            k += is_pair;
        }
        if (code >= 0x10000) {
            *to++ = (uint8_t)(0xf0 | code >> 18);
            *to++ = (uint8_t)(0x80 | (code >> 12 & 0x3f));
        } else if (code >= 0x800) {
            *to++ = (uint8_t)(0xe0 | code >> 12);
        }
        *to++ = code >= 0x800 ? (uint8_t)(0x80 | (code >> 6 & 0x3f)) : (uint8_t)(0xc0 | code >> 6);
        *to++ = (uint8_t)(0x80 | (code & 0x3f));
    }
    return to - out;
}

/* Where the text of a record lies in its part, behind the fixed bytes; false where it does not fit. */
static inline bool text_fits(
    const Plan *plan, const int64_t *leaf, const int64_t *text, const Record *record, int64_t *start, int64_t *units)
{
    const Source *source = plan->sources + text[TEXT_FIELD];
    const int64_t part = source->place;
    const uint64_t count = computed(plan, text[TEXT_FIELD], number_in(record->part[part] + source->offset, source->form));
    *start = leaf[part == KEY ? KEY_BYTES : VALUE_BYTES];
    *units = (int64_t)count;
    return count <= (uint64_t)MOST && *units * text[UNIT_BYTES] <= record->length[part] - *start;
}

/* Copy what is short for the most part, in blocks of which the last one overlaps the one before. */
static inline void copy(uint8_t *to, const uint8_t *from, int64_t size)
{
    enum { BLOCK = 16, HALF = 8 };
    if (size < HALF) {
        for (int64_t k = 0; k < size; k++)
            to[k] = from[k];
        return;
    }
    if (size < BLOCK) {
        memcpy(to, from, HALF);
        memcpy(to + size - HALF, from + size - HALF, HALF);
        return;
    }
    for (int64_t k = 0; k < size - BLOCK; k += BLOCK)
        memcpy(to + k, from + k, BLOCK);
    memcpy(to + size - BLOCK, from + size - BLOCK, BLOCK);
}

/* Put a text that fits behind those before it; returns the field of its length if it turned out to be ASCII. What
 * such a field tells of is no text of others either. */
static int64_t put_text(
    Plan *plan, const int64_t *leaf, const int64_t *text, const Record *record, int64_t row, int64_t plain_field)
{
    int64_t start, units;
    if (text[CODING] == CHECKED || (text[CODING] == OTHERS && text[TEXT_FIELD] == plain_field) ||
        !text_fits(plan, leaf, text, record, &start, &units))
        return plain_field;
    const int64_t size = units * text[UNIT_BYTES];
    int64_t *used = plan->counts.data + output_at(plan, text[DATA_COLUMN])[OUT_COUNTER];
    const uint8_t *from = record->part[plan->sources[text[TEXT_FIELD]].place] + start;
    uint8_t *to = plan->columns.data[text[DATA_COLUMN]].data + *used;
    int64_t written = size;
    if (text[CODING] == UTF16) {
        written = to_utf8(from, units, to);
    } else if (text[CODING] == OTHERS && is_ascii(from, units)) {
        written = 0;
    } else {
        const uint8_t *zero = text[CODING] == TO_ZERO && size > 0 ? memchr(from, 0, (size_t)size) : NULL;
        written = zero ? zero - from : size;
        copy(to, from, written);
    }
    *used += written;
    const uint64_t length = (uint64_t)written;
    if (length > 0)
        put(plan, text[LENGTH_COLUMN], &row, &length, 1);
    return text[CODING] == UTF16 && written == units ? text[TEXT_FIELD] : plain_field;
}

static inline bool are_zero(const uint64_t *value, int64_t count)
{
    uint64_t bits = 0;
    for (int64_t k = 0; k < count; k++)
        bits |= value[k];
    return bits == 0;
}

/* Move fields into the rows of a group. Zeros stand there already: columns of nothing else are never touched. */
static void put_columns(const Plan *plan, const Batch *batch, int64_t first, int64_t stop, Group *group)
{
    const bool is_run = group->row[group->count - 1] - group->row[0] == group->count - 1;
    for (int64_t f = first; f < stop; f++) {
        const int64_t *field = field_at(plan, f);
        load(batch, plan->sources + f, group);
        if (!plan->sources[f].is_plain)
            compute(field, group->value, group->count);
        if (are_zero(group->value, group->count))
            continue;
        if (is_run)
            put_run(plan, field[COLUMN], group->row[0], group->value, group->count);
        else
            put(plan, field[COLUMN], group->row, group->value, group->count);
    }
}

/* Put the repetitions that were gathered. */
static void put_gathered(const Plan *plan, const Batch *batch, Group *gathered)
{
    if (gathered->count > 0)
        put_columns(plan, batch, gathered->list[LIST_FIRST_FIELD], gathered->list[LIST_STOP_FIELD], gathered);
    gathered->count = 0;
}

/* The next repetition that may be used; what is computed of it tells whether it is. */
static inline int64_t first_used(const Source *source, const uint8_t *value, int64_t time, int64_t times, int64_t stride)
{
    if (!source->is_plain || (source->form != BIG_4 && source->form != LITTLE_4))
        return time;
    while (time < times && !little(value + source->offset + time * stride, 4))
        time++;
    return time;
}

/* Gather the used ones of a field's repetitions, which have rows of their own. */
static void gather_list(Plan *plan, const Batch *batch, const int64_t *list, int64_t k, const Record *record, Group *gathered)
{
    const Source *source = plan->sources + list[USED_FIELD];
    const int64_t times = list[TIMES], stride = list[STRIDE];
    uint64_t before = 0;
    for (int64_t time = first_used(source, record->part[VALUE], 0, times, stride); time < times;
         time = first_used(source, record->part[VALUE], time + 1, times, stride)) {
        const uint8_t *value = record->part[VALUE] + time * stride;
        const uint64_t used = computed(plan, list[USED_FIELD], number_in(value + source->offset, source->form));
        if (!used)
            continue;
        if (gathered->list != list || gathered->count == AT_ONCE)
            put_gathered(plan, batch, gathered);
        gathered->list = list;
        const int64_t place = gathered->count++;
        gathered->record[place] = k;
        gathered->row[place] = plan->counts.data[list[LIST_COUNTER]]++;
        gathered->part[KEY][place] = record->part[KEY];
        gathered->part[VALUE][place] = value;
        gathered->owner[place] = (uint64_t)batch->row.data[k];
        gathered->before[place] = before;
        before += used;
    }
}

/* Put the known ones among the items of a collection: a head with their number, descriptions, then their data; false if
 * it is damaged. */
static bool put_items(const Plan *plan, const int64_t *leaf, Record *record, int64_t row)
{
    const int64_t *form = plan->form.data;
    const uint8_t *items = record->part[VALUE] + leaf[VALUE_BYTES];
    const int64_t length = record->length[VALUE] - leaf[VALUE_BYTES];
    if (length == 0)
        return true;
    record->part[ITEM] = items;
    const uint64_t counted = length < form[HEAD_BYTES] ? UINT64_MAX : value_of(plan, form[COUNT_FIELD], record);
    if (counted > (uint64_t)length || form[HEAD_BYTES] + (int64_t)counted * form[ENTRY_BYTES] > length)
        return false;
    /* Nothing of a damaged collection counts: items are put when all of them were looked at, the last of each kind. */
    const uint8_t *last[MOST_CASES] = {NULL};
    const int64_t num_cases = leaf[STOP_CASE] - leaf[FIRST_CASE];
    int64_t start = form[HEAD_BYTES] + (int64_t)counted * form[ENTRY_BYTES];
    for (int64_t k = 0; k < (int64_t)counted; k++) {
        record->part[ITEM] = items + form[HEAD_BYTES] + k * form[ENTRY_BYTES];
        const uint64_t kind = value_of(plan, form[ITEM_KIND_FIELD], record);
        const uint64_t size = value_of(plan, form[ITEM_SIZE_FIELD], record);
        const uint64_t pace = value_of(plan, form[ITEM_PACE_FIELD], record);
        if (start > length || size > (uint64_t)(length - start))
            return false;
        for (int64_t c = 0; c < num_cases; c++) {
            const int64_t *known = row_of(plan->cases, leaf[FIRST_CASE] + c, CASE_WORDS);
            if (kind == (uint64_t)known[CASE_KIND] && size >= (uint64_t)known[CASE_BYTES])
                last[c] = items + start;
        }
        start = pace > (uint64_t)MOST ? MOST : start + (int64_t)pace;
    }
    for (int64_t c = 0; c < num_cases; c++) {
        const int64_t *known = row_of(plan->cases, leaf[FIRST_CASE] + c, CASE_WORDS);
        record->part[ITEM] = last[c];
        if (last[c] != NULL)
            put_fields(plan, record, known[CASE_FIRST_FIELD], known[CASE_STOP_FIELD], row);
    }
    return true;
}

/* Whether a slice lies in the buffer. */
static bool lies_in(Bytes buffer, int64_t start, int64_t length)
{
    return start >= 0 && length >= 0 && length <= buffer.length && start <= buffer.length - length;
}

/* A record whose slices lie in the buffer; its words are taken by who needs them. */
static inline void take(Record *record, const Batch *batch, int64_t k)
{
    for (int part = KEY; part <= VALUE; part++) {
        record->part[part] = batch->buffer.data + batch->start[part].data[k];
        record->length[part] = batch->length[part].data[k];
    }
}

static inline void take_words(Record *record, const Batch *batch, int64_t k)
{
    const int64_t node = batch->node.data[k];
    const uint64_t start = (uint64_t)node * (uint64_t)batch->node_bytes;
    record->word[KEY_AT] = (uint64_t)batch->start[KEY].data[k] - start;
    record->word[VALUE_AT] = (uint64_t)batch->start[VALUE].data[k] - start;
    record->word[NODE] = (uint64_t)batch->numbers.data[node];
    record->word[CONSTANT] = record->word[OWNER] = record->word[BEFORE] = 0;
}

/* Promise room; what has none is noted. */
static inline bool promise(Plan *plan, int64_t *promised, int64_t counter, int64_t more)
{
    promised[counter] += more;
    if (promised[counter] <= plan->capacity[counter] - plan->counts.data[counter])
        return true;
    plan->counts.data[plan->num_counters] = counter;
    return false;
}

/* Have a record brought near that will be looked at soon: the first lines of the cache that it fills. */
BROUGHT_NEAR void bring_near(const Batch *batch, int64_t k)
{
    if (k >= batch->node.length)
        return;
    for (int part = KEY; part <= VALUE; part++) {
        const int64_t start = batch->start[part].data[k], length = smaller(batch->length[part].data[k], MOST_NEAR);
        for (int64_t at = start; start >= 0 && at - start < length && at < batch->buffer.length; at += LINE_BYTES)
            __builtin_prefetch(batch->buffer.data + at);
    }
}

/* Whether the slices of a record lie in the buffer, and its kind in them. */
static inline bool lies_well(const Batch *batch, int64_t k, const Source *kind)
{
    if (!within(batch->node.data[k], batch->numbers.length) ||
        !lies_in(batch->buffer, batch->start[KEY].data[k], batch->length[KEY].data[k]) ||
        !lies_in(batch->buffer, batch->start[VALUE].data[k], batch->length[VALUE].data[k]))
        return false;
    return kind->place > VALUE || batch->length[kind->place].data[k] >= kind->stop;
}

/* Tell of some records which leaf of the plan each is, as far as its kind and the lengths of its parts tell. */
static void tell_leaves(const Plan *plan, const Batch *batch, int64_t first, int64_t end, Group *group)
{
    const Source *kind = plan->sources + plan->form.data[KIND_FIELD];
    group->count = 0;
    for (int64_t k = first; k < end; k++) {
        batch->row.data[k] = -1;
        batch->leaf.data[k] = NO_LEAF;
        batch->damaged.data[k] = 0;
        bring_near(batch, k + SOON);
        if (!lies_well(batch, k, kind))
            continue;
        const int64_t place = group->count++;
        group->record[place] = k;
        group->part[KEY][place] = batch->buffer.data + batch->start[KEY].data[k];
        group->part[VALUE][place] = batch->buffer.data + batch->start[VALUE].data[k];
    }
    load(batch, kind, group);
    if (!kind->is_plain)
        compute(field_at(plan, plan->form.data[KIND_FIELD]), group->value, group->count);
    for (int64_t place = 0; place < group->count; place++) {
        const int64_t k = group->record[place];
        const uint64_t number = group->value[place];
        if (number >= (uint64_t)plan->leaf_of_kind.length || plan->leaf_of_kind.data[number] < 0)
            continue;
        const int64_t its_leaf = plan->leaf_of_kind.data[number], *leaf = row_of(plan->leaves, its_leaf, LEAF_WORDS);
        if (batch->length[KEY].data[k] >= leaf[KEY_BYTES] && batch->length[VALUE].data[k] >= leaf[VALUE_BYTES])
            batch->leaf.data[k] = (uint8_t)its_leaf;
    }
}

/* Promise room for the texts and lists of a record. */
static inline Outcome promise_rest(Plan *plan, const Batch *batch, int64_t k, const int64_t *leaf, int64_t *promised)
{
    Record record;
    take(&record, batch, k);
    int64_t start, units;
    for (int64_t t = leaf[FIRST_TEXT]; t < leaf[STOP_TEXT]; t++) {
        const int64_t *text = row_of(plan->texts, t, TEXT_WORDS);
        if (!text_fits(plan, leaf, text, &record, &start, &units))
            return UNFIT;
        if (text[CODING] == CHECKED)
            continue;
        const int64_t most = units * (text[CODING] == UTF16 ? UTF8_BYTES_OF_UNIT : text[UNIT_BYTES]);
        if (!promise(plan, promised, output_at(plan, text[DATA_COLUMN])[OUT_COUNTER], most))
            return FULL;
    }
    /* As many as there can be: counting those that are used would take as long as to put them. */
    for (int64_t t = leaf[FIRST_LIST]; t < leaf[STOP_LIST]; t++) {
        const int64_t *list = row_of(plan->lists, t, LIST_WORDS);
        if (!promise(plan, promised, list[LIST_COUNTER], list[TIMES]))
            return FULL;
    }
    return DECODED;
}

/* Promise the room that a record takes whose leaf is known, and give it a row. */
static inline Outcome promise_room(Plan *plan, const Batch *batch, int64_t k, int64_t *promised)
{
    const int64_t *leaf = row_of(plan->leaves, batch->leaf.data[k], LEAF_WORDS);
    if (leaf[FIRST_TEXT] < leaf[STOP_TEXT] || leaf[FIRST_LIST] < leaf[STOP_LIST]) {
        const Outcome outcome = promise_rest(plan, batch, k, leaf, promised);
        if (outcome != DECODED) {
            batch->leaf.data[k] = NO_LEAF;
            return outcome;
        }
    }
    const int64_t row = plan->counts.data[leaf[COUNTER]] + promised[leaf[COUNTER]];
    if (!promise(plan, promised, leaf[COUNTER], 1))
        return FULL;
    batch->row.data[k] = row;
    return DECODED;
}

/* Move the fields of records that were looked at, those of one leaf together. */
static void put_groups(Plan *plan, const Batch *batch, int64_t first, int64_t stop, Group *group)
{
    int16_t next[AT_ONCE], last[NO_LEAF], begin[NO_LEAF];
    const int64_t num_leaves = plan->leaves.length / LEAF_WORDS;
    for (int64_t leaf = 0; leaf < num_leaves; leaf++)
        begin[leaf] = -1;
    for (int64_t k = first; k < stop; k++) {
        const uint8_t leaf = batch->leaf.data[k];
        const int16_t number = (int16_t)(k - first);
        next[number] = -1;
        if (leaf == NO_LEAF)
            continue;
        if (begin[leaf] < 0)
            begin[leaf] = number;
        else
            next[last[leaf]] = number;
        last[leaf] = number;
    }
    for (int64_t its_leaf = 0; its_leaf < num_leaves; its_leaf++) {
        const int64_t *leaf = row_of(plan->leaves, its_leaf, LEAF_WORDS);
        group->count = 0;
        for (int64_t number = begin[its_leaf]; number >= 0; number = next[number]) {
            const int64_t k = first + number, place = group->count++;
            group->record[place] = k;
            group->row[place] = batch->row.data[k];
            group->part[KEY][place] = batch->buffer.data + batch->start[KEY].data[k];
            group->part[VALUE][place] = batch->buffer.data + batch->start[VALUE].data[k];
        }
        if (group->count == 0)
            continue;
        put_columns(plan, batch, leaf[FIRST_FIELD], leaf[STOP_FIELD], group);
        plan->counts.data[leaf[COUNTER]] += group->count;
    }
}

/* Put texts, repetitions and items of a record that was looked at. */
static void put_rest(Plan *plan, const Batch *batch, int64_t k, Group *gathered)
{
    const int64_t *leaf = row_of(plan->leaves, batch->leaf.data[k], LEAF_WORDS), row = batch->row.data[k];
    Record record;
    take(&record, batch, k);
    int64_t plain_field = -1;
    for (int64_t t = leaf[FIRST_TEXT]; t < leaf[STOP_TEXT]; t++)
        plain_field = put_text(plan, leaf, row_of(plan->texts, t, TEXT_WORDS), &record, row, plain_field);
    for (int64_t t = leaf[FIRST_LIST]; t < leaf[STOP_LIST]; t++)
        gather_list(plan, batch, row_of(plan->lists, t, LIST_WORDS), k, &record, gathered);
    if (leaf[FIRST_CASE] == leaf[STOP_CASE])
        return;
    take_words(&record, batch, k);
    batch->damaged.data[k] = !put_items(plan, leaf, &record, row);
}

/* Decode records from `first` on; returns the one to go on with, which is not the last while a column was full.
 *
 * Columns hold zeros behind what was counted so far: memory that the system gives holds them anyhow, and clears a page
 * only when it is first written to.
 *
 * Of each record that was passed: the number of its leaf in the plan (NO_LEAF where it was left out), its row in the
 * leaf's table, and whether its items are damaged.
 */
KERNEL int64_t decode_leaves(Bytes buffer, int64_t node_bytes, Words numbers, Words node, Words key_start,
    Numbers key_length, Words value_start, Numbers value_length, Words form, Numbers leaf_of_kind, Words leaves,
    Words fields, Words texts, Words lists, Words cases, Words outputs, Columns columns, Words counts, int64_t first,
    Words row, Bytes leaf, Bytes damaged)
{
    Plan plan = {form, leaves, fields, texts, lists, cases, outputs, leaf_of_kind, columns, counts, .num_counters = 0};
    const Batch batch = {buffer, node_bytes, numbers, node, {key_start, value_start}, {key_length, value_length}, row,
        leaf, damaged};
    const int64_t total = node.length;
    if (!is_sound(&plan) || key_start.length != total || key_length.length != total || value_start.length != total ||
        value_length.length != total || row.length != total || leaf.length != total || damaged.length != total ||
        first < 0)
        return REFUSED;
    Group group = {.list = NULL}, gathered = {.count = 0};
    bool has_rest[NO_LEAF] = {false};
    for (int64_t k = 0; k < leaves.length / LEAF_WORDS; k++) {
        const int64_t *its = row_of(leaves, k, LEAF_WORDS);
        has_rest[k] = its[FIRST_TEXT] < its[STOP_TEXT] || its[FIRST_LIST] < its[STOP_LIST] ||
            its[FIRST_CASE] < its[STOP_CASE];
    }
    while (first < total) {
        const int64_t end = smaller(total - first, AT_ONCE) + first;
        int64_t promised[MOST_COUNTERS] = {0}, stop = first;
        Outcome outcome = DECODED;
        tell_leaves(&plan, &batch, first, end, &group);
        for (; stop < end; stop++) {
            outcome = leaf.data[stop] == NO_LEAF ? UNFIT : promise_room(&plan, &batch, stop, promised);
            if (outcome == FULL)
                break;
        }
        put_groups(&plan, &batch, first, stop, &group);
        for (int64_t k = first; k < stop; k++)
            if (leaf.data[k] != NO_LEAF && has_rest[leaf.data[k]])
                put_rest(&plan, &batch, k, &gathered);
        put_gathered(&plan, &batch, &gathered);
        if (outcome == FULL)
            return stop;
        first = stop;
    }
    return larger(first, 0);
}
