/* Records of leaves, decoded into columns by a plan. Twin of layoutscope/ondisk/leaftwin.py.
 *
 * Records are taken some hundred at a time, while their bytes are near: first each is looked at, and given a row; then
 * the fields of all those of one kind are moved one field after the other, which saves asking for each value what is to
 * be done with it; last comes what has no fixed length, record by record.
 */

#include "leafplan.h"

enum { AT_ONCE = 512, UTF8_BYTES_OF_UNIT = 3, ASCII_AT_ONCE = 8, SOON = 8, LINE_BYTES = 64, MOST_NEAR = 256 };

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

/* Records of one leaf, whose fields are moved together. */
typedef struct {
    int64_t count;
    int64_t record[AT_ONCE], row[AT_ONCE];
    const uint8_t *part[VALUE + 1][AT_ONCE];
    uint64_t value[AT_ONCE];
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

static inline uint64_t value_of(const Plan *plan, int64_t number, const Record *record, int64_t shifted_bytes)
{
    const Source *source = plan->sources + number;
    uint64_t value = source->form == WORD
        ? record->word[source->place]
        : number_in(record->part[source->place] + source->offset + shifted_bytes, source->form);
    if (!source->is_plain)
        compute(field_at(plan, number), &value, 1);
    return value;
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

static void put_fields(
    const Plan *plan, const Record *record, int64_t first, int64_t stop, int64_t row, int64_t shifted_bytes)
{
    for (int64_t k = first; k < stop; k++) {
        const uint64_t value = value_of(plan, k, record, shifted_bytes);
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
    uint8_t others = 0;
    for (int k = 0; k < ASCII_AT_ONCE; k++)
        others |= units[2 * k] | (units[2 * k + 1] & 0x80);
    for (int k = 0; k < ASCII_AT_ONCE && !others; k++)
        to[k] = units[2 * k + 1];
    return !others;
}

/* Encode big-endian UTF-16 as UTF-8; a half of a surrogate pair without the other half becomes U+FFFD. */
static int64_t to_utf8(const uint8_t *units, int64_t count, uint8_t *out)
{
    uint8_t *to = out;
    int64_t k = 0;
    for (; count - k >= ASCII_AT_ONCE && put_ascii(units + 2 * k, to); k += ASCII_AT_ONCE)
        to += ASCII_AT_ONCE;
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
    const int64_t part = plan->sources[text[TEXT_FIELD]].place;
    const uint64_t count = value_of(plan, text[TEXT_FIELD], record, 0);
    *start = leaf[part == KEY ? KEY_BYTES : VALUE_BYTES];
    *units = (int64_t)count;
    return count <= (uint64_t)MOST && *units * text[UNIT_BYTES] <= record->length[part] - *start;
}

/* Put a text that fits behind those before it. */
static void put_text(Plan *plan, const int64_t *leaf, const int64_t *text, const Record *record, int64_t row)
{
    int64_t start, units;
    if (text[CODING] == CHECKED || !text_fits(plan, leaf, text, record, &start, &units))
        return;
    const int64_t size = units * text[UNIT_BYTES];
    int64_t *used = plan->counts.data + output_at(plan, text[DATA_COLUMN])[OUT_COUNTER];
    const uint8_t *from = record->part[plan->sources[text[TEXT_FIELD]].place] + start;
    uint8_t *to = plan->columns.data[text[DATA_COLUMN]].data + *used;
    int64_t written = size;
    if (text[CODING] == UTF16) {
        written = to_utf8(from, units, to);
    } else {
        const uint8_t *zero = text[CODING] == TO_ZERO && size > 0 ? memchr(from, 0, (size_t)size) : NULL;
        written = zero ? zero - from : size;
        memcpy(to, from, (size_t)written);
    }
    *used += written;
    const uint64_t length = (uint64_t)written;
    put(plan, text[LENGTH_COLUMN], &row, &length, 1);
}

/* How many of a field's repetitions are used. */
static int64_t num_used(const Plan *plan, const int64_t *list, const Record *record)
{
    const Source *source = plan->sources + list[USED_FIELD];
    int64_t found = 0;
    if (source->is_plain && (source->form == BIG_4 || source->form == LITTLE_4)) {
        const uint8_t *from = record->part[source->place] + source->offset;
        for (int64_t k = 0; k < list[TIMES]; k++)
            found += little(from + k * list[STRIDE], 4) != 0;
        return found;
    }
    for (int64_t k = 0; k < list[TIMES]; k++)
        found += value_of(plan, list[USED_FIELD], record, k * list[STRIDE]) != 0;
    return found;
}

/* Put the used ones of a field's repetitions into rows of their own. */
static void put_list(Plan *plan, const int64_t *list, Record *record, int64_t owner)
{
    int64_t left = num_used(plan, list, record);
    record->word[OWNER] = (uint64_t)owner;
    record->word[BEFORE] = 0;
    for (int64_t k = 0; left > 0; k++) {
        const uint64_t used = value_of(plan, list[USED_FIELD], record, k * list[STRIDE]);
        if (!used)
            continue;
        const int64_t row = plan->counts.data[list[LIST_COUNTER]]++;
        put_fields(plan, record, list[LIST_FIRST_FIELD], list[LIST_STOP_FIELD], row, k * list[STRIDE]);
        record->word[BEFORE] += used;
        left--;
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
    const uint64_t counted = length < form[HEAD_BYTES] ? UINT64_MAX : value_of(plan, form[COUNT_FIELD], record, 0);
    if (counted > (uint64_t)length || form[HEAD_BYTES] + (int64_t)counted * form[ENTRY_BYTES] > length)
        return false;
    const int64_t first = form[HEAD_BYTES] + (int64_t)counted * form[ENTRY_BYTES];
    /* Nothing of a damaged collection counts: the first round only measures. */
    for (int round = 0; round < 2; round++) {
        int64_t start = first;
        for (int64_t k = 0; k < (int64_t)counted; k++) {
            record->part[ITEM] = items + form[HEAD_BYTES] + k * form[ENTRY_BYTES];
            const uint64_t kind = value_of(plan, form[ITEM_KIND_FIELD], record, 0);
            const uint64_t size = value_of(plan, form[ITEM_SIZE_FIELD], record, 0);
            const uint64_t pace = value_of(plan, form[ITEM_PACE_FIELD], record, 0);
            if (start > length || size > (uint64_t)(length - start))
                return false;
            record->part[ITEM] = items + start;
            for (int64_t c = leaf[FIRST_CASE]; round && c < leaf[STOP_CASE]; c++) {
                const int64_t *known = row_of(plan->cases, c, CASE_WORDS);
                if (kind == (uint64_t)known[CASE_KIND] && size >= (uint64_t)known[CASE_BYTES])
                    put_fields(plan, record, known[CASE_FIRST_FIELD], known[CASE_STOP_FIELD], row, 0);
            }
            start = pace > (uint64_t)MOST ? MOST : start + (int64_t)pace;
        }
    }
    return true;
}

/* Whether a slice lies in the buffer. */
static bool lies_in(Bytes buffer, int64_t start, int64_t length)
{
    return start >= 0 && length >= 0 && length <= buffer.length && start <= buffer.length - length;
}

/* A record whose slices lie in the buffer; word by word, as compilers clear a whole record in a slower way. */
static inline void take(Record *record, const Batch *batch, int64_t k)
{
    const int64_t node = batch->node.data[k];
    const uint64_t start = (uint64_t)node * (uint64_t)batch->node_bytes;
    for (int part = KEY; part <= VALUE; part++) {
        const int64_t its_start = batch->start[part].data[k];
        record->part[part] = batch->buffer.data + its_start;
        record->length[part] = batch->length[part].data[k];
        record->word[part == KEY ? KEY_AT : VALUE_AT] = (uint64_t)its_start - start;
    }
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
static inline void bring_near(const Batch *batch, int64_t k)
{
    if (k >= batch->node.length)
        return;
    for (int part = KEY; part <= VALUE; part++) {
        const int64_t start = batch->start[part].data[k], length = smaller(batch->length[part].data[k], MOST_NEAR);
        for (int64_t at = start; start >= 0 && at - start < length && at < batch->buffer.length; at += LINE_BYTES)
            __builtin_prefetch(batch->buffer.data + at);
    }
}

/* Find out what a record is, and promise the room that it takes. */
static inline Outcome look_at(Plan *plan, const Batch *batch, int64_t k, int64_t *promised)
{
    if (!within(batch->node.data[k], batch->numbers.length) ||
        !lies_in(batch->buffer, batch->start[KEY].data[k], batch->length[KEY].data[k]) ||
        !lies_in(batch->buffer, batch->start[VALUE].data[k], batch->length[VALUE].data[k]))
        return UNFIT;
    Record record;
    take(&record, batch, k);
    const int64_t *kind = field_at(plan, plan->form.data[KIND_FIELD]), part = kind[PLACE];
    if (part <= VALUE && record.length[part] < kind[OFFSET] + kind[WIDTH])
        return UNFIT;
    const uint64_t number = value_of(plan, plan->form.data[KIND_FIELD], &record, 0);
    if (number >= (uint64_t)plan->leaf_of_kind.length || plan->leaf_of_kind.data[number] < 0)
        return UNFIT;
    const int64_t its_leaf = plan->leaf_of_kind.data[number], *leaf = row_of(plan->leaves, its_leaf, LEAF_WORDS);
    if (record.length[KEY] < leaf[KEY_BYTES] || record.length[VALUE] < leaf[VALUE_BYTES])
        return UNFIT;
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
    for (int64_t t = leaf[FIRST_LIST]; t < leaf[STOP_LIST]; t++) {
        const int64_t *list = row_of(plan->lists, t, LIST_WORDS);
        if (!promise(plan, promised, list[LIST_COUNTER], num_used(plan, list, &record)))
            return FULL;
    }
    const int64_t row = plan->counts.data[leaf[COUNTER]] + promised[leaf[COUNTER]];
    if (!promise(plan, promised, leaf[COUNTER], 1))
        return FULL;
    batch->row.data[k] = row;
    batch->leaf.data[k] = (uint8_t)its_leaf;
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
        for (int64_t f = leaf[FIRST_FIELD]; f < leaf[STOP_FIELD]; f++) {
            const int64_t *field = field_at(plan, f);
            load(batch, plan->sources + f, group);
            if (!plan->sources[f].is_plain)
                compute(field, group->value, group->count);
            put(plan, field[COLUMN], group->row, group->value, group->count);
        }
        plan->counts.data[leaf[COUNTER]] += group->count;
    }
}

/* Put texts, repetitions and items of a record that was looked at. */
static void put_rest(Plan *plan, const Batch *batch, int64_t k)
{
    const int64_t *leaf = row_of(plan->leaves, batch->leaf.data[k], LEAF_WORDS), row = batch->row.data[k];
    Record record;
    take(&record, batch, k);
    for (int64_t t = leaf[FIRST_TEXT]; t < leaf[STOP_TEXT]; t++)
        put_text(plan, leaf, row_of(plan->texts, t, TEXT_WORDS), &record, row);
    for (int64_t t = leaf[FIRST_LIST]; t < leaf[STOP_LIST]; t++)
        put_list(plan, row_of(plan->lists, t, LIST_WORDS), &record, row);
    if (leaf[FIRST_CASE] < leaf[STOP_CASE])
        batch->damaged.data[k] = !put_items(plan, leaf, &record, row);
}

/* Decode records from `first` on; returns the one to go on with, which is not the last while a column was full.
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
    Group group;
    while (first < total) {
        const int64_t end = smaller(total - first, AT_ONCE) + first;
        int64_t promised[MOST_COUNTERS] = {0}, stop = first;
        Outcome outcome = DECODED;
        for (; stop < end; stop++) {
            row.data[stop] = -1;
            leaf.data[stop] = NO_LEAF;
            damaged.data[stop] = 0;
            bring_near(&batch, stop + SOON);
            outcome = look_at(&plan, &batch, stop, promised);
            if (outcome == FULL)
                break;
        }
        put_groups(&plan, &batch, first, stop, &group);
        for (int64_t k = first; k < stop; k++)
            if (leaf.data[k] != NO_LEAF)
                put_rest(&plan, &batch, k);
        if (outcome == FULL)
            return stop;
        first = stop;
    }
    return larger(first, 0);
}
