/* Records of leaves, decoded into columns by a table. Twin of layoutscope/ondisk/leaves.py, which explains the tables.
 *
 * Tables come from the program, slices of records from the image. Of the tables everything is checked before the first
 * record, so that of each record only its slices, its kind and what it counts itself are left to check.
 */

#include <string.h>

#include "kernel.h"

/* Columns of the tables, as layoutscope/ondisk/leafplan.py writes them. */
enum { COLUMN, PLACE, OFFSET, WIDTH, FLAGS, SHIFT, ADD, MASK, TEST, OPERAND, FIELD_WORDS };
enum { OUT_COUNTER, OUT_BYTES, OUT_WORDS };
enum {
    COUNTER, KEY_BYTES, VALUE_BYTES, FIRST_FIELD, STOP_FIELD, FIRST_TEXT, STOP_TEXT, FIRST_LIST, STOP_LIST, FIRST_CASE,
    STOP_CASE, LEAF_WORDS
};
enum { TEXT_FIELD, UNIT_BYTES, CODING, LENGTH_COLUMN, DATA_COLUMN, TEXT_WORDS };
enum { LIST_COUNTER, USED_FIELD, TIMES, STRIDE, LIST_FIRST_FIELD, LIST_STOP_FIELD, LIST_WORDS };
enum { CASE_KIND, CASE_BYTES, CASE_FIRST_FIELD, CASE_STOP_FIELD, CASE_WORDS };
/* The form of the tree: where a record's kind stands, and how the items of a collection are described. */
enum { KIND_FIELD, HEAD_BYTES, COUNT_FIELD, ENTRY_BYTES, ITEM_KIND_FIELD, ITEM_SIZE_FIELD, ITEM_PACE_FIELD, FORM_WORDS };

enum { KEY, VALUE, ITEM, CONSTANT, NODE, KEY_AT, VALUE_AT, OWNER, BEFORE, NUM_PLACES };
enum { BIG = 1, SIGNED = 2, CLIPPED = 4 };
enum { NO_TEST, EQUAL, DIFFERS, NUM_TESTS };
enum { CHECKED, RAW, TO_ZERO, UTF16, NUM_CODINGS };

enum { MOST_COUNTERS = 64, MOST_STEPS = 256, NO_LEAF = 255, UTF8_BYTES_OF_UNIT = 3 };
static const int64_t MOST = INT32_MAX; /* of any width, place or count in the tables */

/* Where the value of a plain field comes from, times four; the logarithm of the column's width and 1 are added. */
enum { BYTE = 0, LITTLE_2 = 4, BIG_2 = 8, LITTLE_4 = 12, BIG_4 = 16, LITTLE_8 = 20, BIG_8 = 24, LITTLE_8_CLIPPED = 28,
    BIG_8_CLIPPED = 32, WORD = 36, NOT_PLAIN = 255 };

/* A field of which nothing is computed: most are such, and the time of a record is that of its fields. */
typedef struct {
    uint8_t *column;
    int32_t offset;
    uint8_t place, kind;
} Step;

typedef struct {
    Words form, leaves, fields, texts, lists, cases, outputs;
    Numbers leaf_of_kind;
    Columns columns;
    Words counts; /* rows or bytes by counter, and in the end the counter for which there was no room */
    int64_t num_counters;
    int64_t capacity[MOST_COUNTERS];
    Step steps[MOST_STEPS]; /* of the first fields */
} Plan;

typedef struct {
    const uint8_t *part[ITEM + 1];
    int64_t length[VALUE + 1];
    uint64_t word[NUM_PLACES]; /* what stands in no bytes, by place */
} Record;

typedef enum { DECODED, DAMAGED, UNFIT, FULL } Outcome;

static const int64_t *row_of(Words table, int64_t row, int64_t words)
{
    return table.data + row * words;
}

static const int64_t *field_at(const Plan *plan, int64_t field)
{
    return row_of(plan->fields, field, FIELD_WORDS);
}

static uint64_t little(const uint8_t *bytes, int width)
{
    uint64_t number = 0;
    for (int k = 0; k < width; k++)
        number |= (uint64_t)bytes[k] << 8 * k;
    return number;
}

static uint64_t big(const uint8_t *bytes, int width)
{
    uint64_t number = 0;
    for (int k = 0; k < width; k++)
        number = number << 8 | bytes[k];
    return number;
}

static uint64_t number_at(const uint8_t *bytes, int64_t width, bool is_big)
{
    switch (width) {
    case 1:
        return bytes[0];
    case 2:
        return is_big ? big(bytes, 2) : little(bytes, 2);
    case 4:
        return is_big ? big(bytes, 4) : little(bytes, 4);
    default:
        return is_big ? big(bytes, 8) : little(bytes, 8);
    }
}

static uint64_t value_of(const int64_t *field, const Record *record, int64_t shifted_bytes)
{
    uint64_t value;
    if (field[PLACE] > ITEM) {
        value = record->word[field[PLACE]];
    } else {
        value = number_at(record->part[field[PLACE]] + field[OFFSET] + shifted_bytes, field[WIDTH], field[FLAGS] & BIG);
        if (field[FLAGS] & SIGNED && field[WIDTH] < 8 && value >> (8 * field[WIDTH] - 1))
            value |= ~(uint64_t)0 << 8 * field[WIDTH];
    }
    value = ((value >> field[SHIFT]) + (uint64_t)field[ADD]) & (uint64_t)field[MASK];
    if (field[FLAGS] & CLIPPED && value > INT64_MAX)
        value = INT64_MAX;
    if (field[TEST] != NO_TEST)
        value = (value == (uint64_t)field[OPERAND]) == (field[TEST] == EQUAL);
    return value;
}

/* Put a value into a row of a column, which has room for it, in the width of the column. */
static void put(const Plan *plan, int64_t column, int64_t row, uint64_t value)
{
    uint8_t *data = plan->columns.data[column].data;
    switch (row_of(plan->outputs, column, OUT_WORDS)[OUT_BYTES]) {
    case 1:
        data[row] = (uint8_t)value;
        break;
    case 2: {
        const uint16_t narrow = (uint16_t)value;
        memcpy(data + 2 * row, &narrow, sizeof narrow);
        break;
    }
    case 4: {
        const uint32_t narrow = (uint32_t)value;
        memcpy(data + 4 * row, &narrow, sizeof narrow);
        break;
    }
    default:
        memcpy(data + 8 * row, &value, sizeof value);
    }
}

static bool is_number(int64_t value)
{
    return value >= 0 && value <= MOST;
}

static uint64_t clipped(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : value;
}

#define STORE(type, value)                                                                                             \
    {                                                                                                                  \
        const type narrow = (type)(value);                                                                             \
        memcpy(step->column + row * (int64_t)sizeof narrow, &narrow, sizeof narrow);                                   \
        break;                                                                                                         \
    }
#define MOVE(source, value)                                                                                            \
    case (source) + 1:                                                                                                 \
        STORE(uint8_t, value)                                                                                          \
    case (source) + 2:                                                                                                 \
        STORE(uint16_t, value)                                                                                         \
    case (source) + 3:                                                                                                 \
        STORE(uint32_t, value)                                                                                         \
    case (source) + 4:                                                                                                 \
        STORE(uint64_t, value)

/* Put a plain field into a row of its column, which has room for it; false if it is none. */
static bool put_plain(const Step *step, const Record *record, int64_t row, int64_t shifted_bytes)
{
    if (step->kind == NOT_PLAIN)
        return false;
    const uint8_t *from = step->place > ITEM ? NULL : record->part[step->place] + step->offset + shifted_bytes;
    switch (step->kind) {
        MOVE(BYTE, from[0])
        MOVE(LITTLE_2, little(from, 2))
        MOVE(BIG_2, big(from, 2))
        MOVE(LITTLE_4, little(from, 4))
        MOVE(BIG_4, big(from, 4))
        MOVE(LITTLE_8, little(from, 8))
        MOVE(BIG_8, big(from, 8))
        MOVE(LITTLE_8_CLIPPED, clipped(little(from, 8)))
        MOVE(BIG_8_CLIPPED, clipped(big(from, 8)))
        MOVE(WORD, record->word[step->place])
    default:
        return false;
    }
    return true;
}

static void put_fields(
    const Plan *plan, const Record *record, int64_t first, int64_t stop, int64_t row, int64_t shifted_bytes)
{
    for (int64_t k = first; k < stop; k++) {
        if (k < MOST_STEPS && put_plain(plan->steps + k, record, row, shifted_bytes))
            continue;
        const int64_t *field = field_at(plan, k);
        put(plan, field[COLUMN], row, value_of(field, record, shifted_bytes));
    }
}

/* Work out the step of a field that was found sound, and goes to a column. */
static Step step_of(const Plan *plan, const int64_t *field)
{
    Step step = {.kind = NOT_PLAIN};
    const int64_t flags = field[FLAGS];
    if (!within(field[COLUMN], plan->columns.length) || field[SHIFT] || field[ADD] || field[MASK] != -1 ||
        field[TEST] != NO_TEST || flags & SIGNED || !within(field[PLACE], NUM_PLACES))
        return step;
    uint8_t kind = WORD;
    if (field[PLACE] <= ITEM) {
        if (!is_number(field[OFFSET]))
            return step;
        switch (field[WIDTH]) {
        case 1:
            kind = BYTE;
            break;
        case 2:
            kind = flags & BIG ? BIG_2 : LITTLE_2;
            break;
        case 4:
            kind = flags & BIG ? BIG_4 : LITTLE_4;
            break;
        default:
            kind = flags & BIG ? BIG_8 : LITTLE_8;
            if (flags & CLIPPED)
                kind = flags & BIG ? BIG_8_CLIPPED : LITTLE_8_CLIPPED;
        }
        step.offset = (int32_t)field[OFFSET];
    } else if (flags & CLIPPED) {
        return step;
    }
    step.column = plan->columns.data[field[COLUMN]].data;
    step.place = (uint8_t)field[PLACE];
    switch (row_of(plan->outputs, field[COLUMN], OUT_WORDS)[OUT_BYTES]) {
    case 1:
        step.kind = kind + 1;
        break;
    case 2:
        step.kind = kind + 2;
        break;
    case 4:
        step.kind = kind + 3;
        break;
    default:
        step.kind = kind + 4;
    }
    return step;
}

/* Whether there is room for more; what has none is noted. */
static bool has_room(Plan *plan, int64_t counter, int64_t more)
{
    if (more <= plan->capacity[counter] - plan->counts.data[counter])
        return true;
    plan->counts.data[plan->num_counters] = counter;
    return false;
}

static int64_t unit_at(const uint8_t *units, int64_t number)
{
    return units[2 * number] << 8 | units[2 * number + 1];
}

/* Encode big-endian UTF-16 as UTF-8; a half of a surrogate pair without the other half becomes U+FFFD. */
static int64_t to_utf8(const uint8_t *units, int64_t count, uint8_t *out)
{
    uint8_t *to = out;
    for (int64_t k = 0; k < count; k++) {
        uint32_t code = (uint32_t)unit_at(units, k);
        if (code < 0x80) {
            *to++ = (uint8_t)code;
            continue;
        }
        if (code >= 0xd800 && code < 0xe000) {
            const uint32_t low = code < 0xdc00 && k + 1 < count ? (uint32_t)unit_at(units, k + 1) : 0;
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
static bool text_fits(
    const Plan *plan, const int64_t *leaf, const int64_t *text, const Record *record, int64_t *start, int64_t *units)
{
    const int64_t *field = field_at(plan, text[TEXT_FIELD]);
    const uint64_t count = value_of(field, record, 0);
    *start = leaf[field[PLACE] == KEY ? KEY_BYTES : VALUE_BYTES];
    *units = (int64_t)count;
    return count <= (uint64_t)MOST && *units <= (record->length[field[PLACE]] - *start) / text[UNIT_BYTES];
}

static Outcome put_text(Plan *plan, const int64_t *leaf, const int64_t *text, const Record *record, int64_t row)
{
    int64_t start, units;
    if (!text_fits(plan, leaf, text, record, &start, &units))
        return UNFIT;
    if (text[CODING] == CHECKED)
        return DECODED;
    const int64_t counter = row_of(plan->outputs, text[DATA_COLUMN], OUT_WORDS)[OUT_COUNTER];
    const int64_t size = units * text[UNIT_BYTES];
    if (!has_room(plan, counter, text[CODING] == UTF16 ? units * UTF8_BYTES_OF_UNIT : size))
        return FULL;
    const uint8_t *from = record->part[field_at(plan, text[TEXT_FIELD])[PLACE]] + start;
    uint8_t *to = plan->columns.data[text[DATA_COLUMN]].data + plan->counts.data[counter];
    int64_t written = size;
    if (text[CODING] == UTF16) {
        written = to_utf8(from, units, to);
    } else {
        const uint8_t *zero = text[CODING] == TO_ZERO && size > 0 ? memchr(from, 0, (size_t)size) : NULL;
        written = zero ? zero - from : size;
        memcpy(to, from, (size_t)written);
    }
    plan->counts.data[counter] += written;
    put(plan, text[LENGTH_COLUMN], row, (uint64_t)written);
    return DECODED;
}

/* Put the used ones of a field's repetitions into rows of their own. */
static Outcome put_list(Plan *plan, const int64_t *list, Record *record, int64_t owner)
{
    record->word[OWNER] = (uint64_t)owner;
    record->word[BEFORE] = 0;
    for (int64_t k = 0; k < list[TIMES]; k++) {
        const uint64_t used = value_of(field_at(plan, list[USED_FIELD]), record, k * list[STRIDE]);
        if (!used)
            continue;
        if (!has_room(plan, list[LIST_COUNTER], 1))
            return FULL;
        const int64_t row = plan->counts.data[list[LIST_COUNTER]]++;
        put_fields(plan, record, list[LIST_FIRST_FIELD], list[LIST_STOP_FIELD], row, k * list[STRIDE]);
        record->word[BEFORE] += used;
    }
    return DECODED;
}

/* Put the known ones among the items of a collection: a head with their number, descriptions, then their data. */
static Outcome put_items(const Plan *plan, const int64_t *leaf, Record *record, int64_t row)
{
    const int64_t *form = plan->form.data;
    const uint8_t *items = record->part[VALUE] + leaf[VALUE_BYTES];
    const int64_t length = record->length[VALUE] - leaf[VALUE_BYTES];
    if (length == 0)
        return DECODED;
    record->part[ITEM] = items;
    const uint64_t counted = length < form[HEAD_BYTES] ? UINT64_MAX : value_of(field_at(plan, form[COUNT_FIELD]), record, 0);
    if (counted > (uint64_t)length || form[HEAD_BYTES] + (int64_t)counted * form[ENTRY_BYTES] > length)
        return DAMAGED;
    const int64_t first = form[HEAD_BYTES] + (int64_t)counted * form[ENTRY_BYTES];
    /* Nothing of a damaged collection counts: the first round only measures. */
    for (int round = 0; round < 2; round++) {
        int64_t start = first;
        for (int64_t k = 0; k < (int64_t)counted; k++) {
            record->part[ITEM] = items + form[HEAD_BYTES] + k * form[ENTRY_BYTES];
            const uint64_t kind = value_of(field_at(plan, form[ITEM_KIND_FIELD]), record, 0);
            const uint64_t size = value_of(field_at(plan, form[ITEM_SIZE_FIELD]), record, 0);
            const uint64_t pace = value_of(field_at(plan, form[ITEM_PACE_FIELD]), record, 0);
            if (start > length || size > (uint64_t)(length - start))
                return DAMAGED;
            record->part[ITEM] = items + start;
            for (int64_t c = leaf[FIRST_CASE]; round && c < leaf[STOP_CASE]; c++) {
                const int64_t *known = row_of(plan->cases, c, CASE_WORDS);
                if (kind == (uint64_t)known[CASE_KIND] && size >= (uint64_t)known[CASE_BYTES])
                    put_fields(plan, record, known[CASE_FIRST_FIELD], known[CASE_STOP_FIELD], row, 0);
            }
            start = pace > (uint64_t)MOST ? MOST : start + (int64_t)pace;
        }
    }
    return DECODED;
}

static Outcome decode(Plan *plan, Record *record, int64_t *row, uint8_t *kind)
{
    const int64_t *kind_field = field_at(plan, plan->form.data[KIND_FIELD]);
    const int64_t part = kind_field[PLACE];
    if (part <= VALUE && record->length[part] < kind_field[OFFSET] + kind_field[WIDTH])
        return UNFIT;
    const uint64_t number = value_of(kind_field, record, 0);
    if (number >= (uint64_t)plan->leaf_of_kind.length || plan->leaf_of_kind.data[number] < 0)
        return UNFIT;
    *kind = (uint8_t)plan->leaf_of_kind.data[number];
    const int64_t *leaf = row_of(plan->leaves, *kind, LEAF_WORDS);
    if (record->length[KEY] < leaf[KEY_BYTES] || record->length[VALUE] < leaf[VALUE_BYTES])
        return UNFIT;
    if (!has_room(plan, leaf[COUNTER], 1))
        return FULL;
    *row = plan->counts.data[leaf[COUNTER]];
    Outcome outcome = DECODED;
    for (int64_t k = leaf[FIRST_TEXT]; outcome == DECODED && k < leaf[STOP_TEXT]; k++)
        outcome = put_text(plan, leaf, row_of(plan->texts, k, TEXT_WORDS), record, *row);
    if (outcome != DECODED)
        return outcome;
    put_fields(plan, record, leaf[FIRST_FIELD], leaf[STOP_FIELD], *row, 0);
    for (int64_t k = leaf[FIRST_LIST]; outcome == DECODED && k < leaf[STOP_LIST]; k++)
        outcome = put_list(plan, row_of(plan->lists, k, LIST_WORDS), record, *row);
    if (outcome == DECODED && leaf[FIRST_CASE] < leaf[STOP_CASE])
        outcome = put_items(plan, leaf, record, *row);
    if (outcome != FULL)
        plan->counts.data[leaf[COUNTER]]++;
    return outcome;
}

static bool is_range(int64_t first, int64_t stop, int64_t length)
{
    return first >= 0 && first <= stop && stop <= length;
}

/* Whether a field can be read where a record has so many bytes in each part; `further` are those of repetitions. */
static bool is_sound_field(const Plan *plan, int64_t number, const int64_t *bytes, int64_t further)
{
    if (!within(number, plan->fields.length / FIELD_WORDS))
        return false;
    const int64_t *field = field_at(plan, number);
    if (!within(field[PLACE], NUM_PLACES) || !within(field[SHIFT], 64) || !within(field[TEST], NUM_TESTS))
        return false;
    if (field[PLACE] > ITEM)
        return true;
    const int64_t width = field[WIDTH];
    return (width == 1 || width == 2 || width == 4 || width == 8) && is_number(field[OFFSET]) &&
        field[OFFSET] + width + further <= bytes[field[PLACE]];
}

/* Whether fields can be read, and go to columns that a counter counts. */
static bool are_sound_fields(
    const Plan *plan, int64_t first, int64_t stop, int64_t counter, const int64_t *bytes, int64_t further)
{
    if (!is_range(first, stop, plan->fields.length / FIELD_WORDS))
        return false;
    for (int64_t k = first; k < stop; k++) {
        const int64_t column = field_at(plan, k)[COLUMN];
        if (!is_sound_field(plan, k, bytes, further) || !within(column, plan->columns.length) ||
            row_of(plan->outputs, column, OUT_WORDS)[OUT_COUNTER] != counter)
            return false;
    }
    return true;
}

static bool is_sound_text(const Plan *plan, const int64_t *text, int64_t counter, const int64_t *bytes)
{
    if (!is_sound_field(plan, text[TEXT_FIELD], bytes, 0) || field_at(plan, text[TEXT_FIELD])[PLACE] > VALUE ||
        !within(text[CODING], NUM_CODINGS) || text[UNIT_BYTES] < (text[CODING] == UTF16 ? 2 : 1) ||
        text[UNIT_BYTES] > 8)
        return false;
    if (text[CODING] == CHECKED)
        return true;
    if (!within(text[LENGTH_COLUMN], plan->columns.length) || !within(text[DATA_COLUMN], plan->columns.length))
        return false;
    const int64_t *length = row_of(plan->outputs, text[LENGTH_COLUMN], OUT_WORDS);
    const int64_t *data = row_of(plan->outputs, text[DATA_COLUMN], OUT_WORDS);
    return length[OUT_COUNTER] == counter && data[OUT_COUNTER] != counter && data[OUT_BYTES] == 1;
}

static bool is_sound_list(const Plan *plan, const int64_t *list, int64_t counter, const int64_t *bytes)
{
    if (!within(list[LIST_COUNTER], plan->num_counters) || list[LIST_COUNTER] == counter ||
        !is_number(list[TIMES]) || !is_number(list[STRIDE]))
        return false;
    const int64_t further = list[TIMES] > 0 ? (list[TIMES] - 1) * list[STRIDE] : 0;
    return is_sound_field(plan, list[USED_FIELD], bytes, further) &&
        are_sound_fields(plan, list[LIST_FIRST_FIELD], list[LIST_STOP_FIELD], list[LIST_COUNTER], bytes, further);
}

static bool is_sound_leaf(const Plan *plan, const int64_t *leaf)
{
    const int64_t bytes[] = {leaf[KEY_BYTES], leaf[VALUE_BYTES], 0};
    if (!within(leaf[COUNTER], plan->num_counters) || !is_number(leaf[KEY_BYTES]) || !is_number(leaf[VALUE_BYTES]) ||
        !are_sound_fields(plan, leaf[FIRST_FIELD], leaf[STOP_FIELD], leaf[COUNTER], bytes, 0) ||
        !is_range(leaf[FIRST_TEXT], leaf[STOP_TEXT], plan->texts.length / TEXT_WORDS) ||
        !is_range(leaf[FIRST_LIST], leaf[STOP_LIST], plan->lists.length / LIST_WORDS) ||
        !is_range(leaf[FIRST_CASE], leaf[STOP_CASE], plan->cases.length / CASE_WORDS))
        return false;
    for (int64_t k = leaf[FIRST_TEXT]; k < leaf[STOP_TEXT]; k++)
        if (!is_sound_text(plan, row_of(plan->texts, k, TEXT_WORDS), leaf[COUNTER], bytes))
            return false;
    for (int64_t k = leaf[FIRST_LIST]; k < leaf[STOP_LIST]; k++)
        if (!is_sound_list(plan, row_of(plan->lists, k, LIST_WORDS), leaf[COUNTER], bytes))
            return false;
    for (int64_t k = leaf[FIRST_CASE]; k < leaf[STOP_CASE]; k++) {
        const int64_t *known = row_of(plan->cases, k, CASE_WORDS);
        const int64_t room[] = {leaf[KEY_BYTES], leaf[VALUE_BYTES], known[CASE_BYTES]};
        if (!is_number(known[CASE_BYTES]) ||
            !are_sound_fields(plan, known[CASE_FIRST_FIELD], known[CASE_STOP_FIELD], leaf[COUNTER], room, 0))
            return false;
    }
    return true;
}

/* Whether the kind of a record, and the head and descriptions of a collection, can be read. */
static bool is_sound_form(const Plan *plan)
{
    if (plan->form.length != FORM_WORDS)
        return false;
    const int64_t *form = plan->form.data;
    const int64_t anywhere[] = {MOST, MOST, 0};
    const int64_t head[] = {0, 0, form[HEAD_BYTES]}, entry[] = {0, 0, form[ENTRY_BYTES]};
    if (!is_sound_field(plan, form[KIND_FIELD], anywhere, 0))
        return false;
    if (plan->cases.length == 0)
        return true;
    return is_number(form[HEAD_BYTES]) && is_number(form[ENTRY_BYTES]) &&
        is_sound_field(plan, form[COUNT_FIELD], head, 0) && is_sound_field(plan, form[ITEM_KIND_FIELD], entry, 0) &&
        is_sound_field(plan, form[ITEM_SIZE_FIELD], entry, 0) && is_sound_field(plan, form[ITEM_PACE_FIELD], entry, 0);
}

/* Measure the columns: a counter counts as far as the shortest column that it counts has room. */
static bool measure(Plan *plan)
{
    plan->num_counters = plan->counts.length - 1;
    if (plan->num_counters < 0 || plan->num_counters > MOST_COUNTERS ||
        plan->outputs.length != plan->columns.length * OUT_WORDS)
        return false;
    for (int64_t k = 0; k < plan->num_counters; k++)
        plan->capacity[k] = INT64_MAX;
    for (int64_t k = 0; k < plan->columns.length; k++) {
        const int64_t *output = row_of(plan->outputs, k, OUT_WORDS);
        const int64_t bytes = output[OUT_BYTES], counter = output[OUT_COUNTER];
        if (!within(counter, plan->num_counters) || (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8))
            return false;
        plan->capacity[counter] = smaller(plan->capacity[counter], plan->columns.data[k].length / bytes);
    }
    for (int64_t k = 0; k < plan->num_counters; k++)
        if (plan->counts.data[k] < 0 || plan->counts.data[k] > plan->capacity[k])
            return false;
    return true;
}

static bool is_sound(Plan *plan)
{
    const int64_t num_leaves = plan->leaves.length / LEAF_WORDS;
    if (!measure(plan) || !is_sound_form(plan) || num_leaves >= NO_LEAF)
        return false;
    for (int64_t k = 0; k < num_leaves; k++)
        if (!is_sound_leaf(plan, row_of(plan->leaves, k, LEAF_WORDS)))
            return false;
    for (int64_t k = 0; k < plan->leaf_of_kind.length; k++)
        if (plan->leaf_of_kind.data[k] >= num_leaves)
            return false;
    for (int64_t k = 0; k < smaller(plan->fields.length / FIELD_WORDS, MOST_STEPS); k++)
        plan->steps[k] = step_of(plan, field_at(plan, k));
    return true;
}

/* Whether a slice lies in the buffer. */
static bool lies_in(Bytes buffer, int64_t start, int64_t length)
{
    return start >= 0 && length >= 0 && length <= buffer.length && start <= buffer.length - length;
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
    Plan plan = {form, leaves, fields, texts, lists, cases, outputs, leaf_of_kind, columns, counts, 0, {0}, {{0}}};
    const int64_t count = node.length;
    if (!is_sound(&plan) || key_start.length != count || key_length.length != count || value_start.length != count ||
        value_length.length != count || row.length != count || leaf.length != count || damaged.length != count ||
        first < 0)
        return REFUSED;
    int64_t k = first;
    for (; k < count; k++) {
        const int64_t its_node = node.data[k], key = key_start.data[k], value = value_start.data[k];
        Outcome outcome = UNFIT;
        row.data[k] = -1;
        leaf.data[k] = NO_LEAF;
        if (within(its_node, numbers.length) && lies_in(buffer, key, key_length.data[k]) &&
            lies_in(buffer, value, value_length.data[k])) {
            const uint64_t start = (uint64_t)its_node * (uint64_t)node_bytes;
            Record record = {
                .part = {buffer.data + key, buffer.data + value, NULL},
                .length = {key_length.data[k], value_length.data[k]},
                .word = {[NODE] = (uint64_t)numbers.data[its_node], [KEY_AT] = (uint64_t)key - start,
                    [VALUE_AT] = (uint64_t)value - start},
            };
            int64_t before[MOST_COUNTERS];
            for (int64_t c = 0; c < plan.num_counters; c++)
                before[c] = counts.data[c];
            outcome = decode(&plan, &record, row.data + k, leaf.data + k);
            if (outcome == UNFIT || outcome == FULL)
                memcpy(counts.data, before, (size_t)plan.num_counters * sizeof *before);
        }
        if (outcome == FULL)
            return k;
        if (outcome == UNFIT) {
            row.data[k] = -1;
            leaf.data[k] = NO_LEAF;
        }
        damaged.data[k] = outcome == DAMAGED;
    }
    return k;
}
