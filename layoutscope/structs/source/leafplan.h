/* Plans of leaf records as layoutscope/structs/leaves.py writes them, and whether they can be followed.
 *
 * Plans come from the program. All of one is checked before the first record, so that of each record only its slices,
 * its kind and what it counts itself are left to check.
 */

#ifndef LAYOUTSCOPE_LEAFPLAN_H
#define LAYOUTSCOPE_LEAFPLAN_H

#include "kernel.h"

/* Columns of the tables. */
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
enum {
    KIND_FIELD, HEAD_BYTES, COUNT_FIELD, ENTRY_BYTES, ITEM_KIND_FIELD, ITEM_SIZE_FIELD, ITEM_PACE_FIELD, FORM_WORDS
};

enum { KEY, VALUE, ITEM, CONSTANT, NODE, KEY_AT, VALUE_AT, OWNER, BEFORE, NUM_PLACES };
enum { BIG = 1, SIGNED = 2, CLIPPED = 4 };
enum { NO_TEST, EQUAL, DIFFERS, NUM_TESTS };
enum { CHECKED, RAW, TO_ZERO, UTF16, OTHERS, NUM_CODINGS };

/* How a number stands: as a word that is no part of the image, or in bytes, the lowest or the highest of which is first. */
enum { WORD, BYTE, LITTLE_2, BIG_2, LITTLE_4, BIG_4, LITTLE_8, BIG_8 };

enum { MOST_COUNTERS = 64, MOST_FIELDS = 1024, MOST_CASES = 16, NO_LEAF = 255 };
static const int64_t MOST = INT32_MAX; /* of any width, place or count in the tables */

/* What a counter counts: records, repetitions, or the bytes of a column, whose number is added. */
enum { NOTHING, RECORDS, REPETITIONS, TEXT_BYTES };

/* What of a field is needed for each value; most are plain, that is, nothing is computed of them, and few are special,
 * that is, more is computed than shifts, sums and masks. */
typedef struct {
    int32_t offset;
    int64_t stop;
    uint8_t place, form, shift;
    bool is_plain, is_special;
    uint64_t add, mask;
} Source;

typedef struct {
    Words form, leaves, fields, texts, lists, cases, outputs;
    Numbers leaf_of_kind;
    Columns columns;
    Words counts; /* by counter, and in the end the counter for which there was no room */
    int64_t num_counters;
    int64_t capacity[MOST_COUNTERS], counted[MOST_COUNTERS];
    Source sources[MOST_FIELDS];
} Plan;

static inline const int64_t *row_of(Words table, int64_t row, int64_t words)
{
    return table.data + row * words;
}

static inline const int64_t *field_at(const Plan *plan, int64_t field)
{
    return row_of(plan->fields, field, FIELD_WORDS);
}

static inline const int64_t *output_at(const Plan *plan, int64_t column)
{
    return row_of(plan->outputs, column, OUT_WORDS);
}

static inline bool is_number(int64_t value)
{
    return value >= 0 && value <= MOST;
}

/* Whether a counter counts this and nothing else. */
static inline bool counts_only(Plan *plan, int64_t counter, int64_t what)
{
    if (plan->counted[counter] == NOTHING)
        plan->counted[counter] = what;
    return plan->counted[counter] == what;
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
            output_at(plan, column)[OUT_COUNTER] != counter)
            return false;
    }
    return true;
}

static bool is_sound_text(Plan *plan, const int64_t *text, int64_t counter, const int64_t *bytes)
{
    if (!is_sound_field(plan, text[TEXT_FIELD], bytes, 0) || field_at(plan, text[TEXT_FIELD])[PLACE] > VALUE ||
        !within(text[CODING], NUM_CODINGS) || text[UNIT_BYTES] < (text[CODING] >= UTF16 ? 2 : 1) ||
        text[UNIT_BYTES] > 8)
        return false;
    if (text[CODING] == CHECKED)
        return true;
    if (!within(text[LENGTH_COLUMN], plan->columns.length) || !within(text[DATA_COLUMN], plan->columns.length))
        return false;
    const int64_t *data = output_at(plan, text[DATA_COLUMN]);
    return output_at(plan, text[LENGTH_COLUMN])[OUT_COUNTER] == counter && data[OUT_BYTES] == 1 &&
        counts_only(plan, data[OUT_COUNTER], TEXT_BYTES + text[DATA_COLUMN]);
}

static bool is_sound_list(Plan *plan, const int64_t *list, const int64_t *bytes)
{
    if (!within(list[LIST_COUNTER], plan->num_counters) || !counts_only(plan, list[LIST_COUNTER], REPETITIONS) ||
        !is_number(list[TIMES]) || !is_number(list[STRIDE]))
        return false;
    const int64_t further = list[TIMES] > 0 ? (list[TIMES] - 1) * list[STRIDE] : 0;
    if (!is_sound_field(plan, list[USED_FIELD], bytes, further) || field_at(plan, list[USED_FIELD])[PLACE] != VALUE ||
        !are_sound_fields(plan, list[LIST_FIRST_FIELD], list[LIST_STOP_FIELD], list[LIST_COUNTER], bytes, further))
        return false;
    /* Repetitions stand in values: a key is not repeated with them. */
    for (int64_t k = list[LIST_FIRST_FIELD]; k < list[LIST_STOP_FIELD]; k++)
        if (field_at(plan, k)[PLACE] == KEY)
            return false;
    return true;
}

static bool is_sound_leaf(Plan *plan, const int64_t *leaf)
{
    const int64_t bytes[] = {leaf[KEY_BYTES], leaf[VALUE_BYTES], 0};
    if (!within(leaf[COUNTER], plan->num_counters) || !counts_only(plan, leaf[COUNTER], RECORDS) ||
        !is_number(leaf[KEY_BYTES]) || !is_number(leaf[VALUE_BYTES]) ||
        !are_sound_fields(plan, leaf[FIRST_FIELD], leaf[STOP_FIELD], leaf[COUNTER], bytes, 0) ||
        !is_range(leaf[FIRST_TEXT], leaf[STOP_TEXT], plan->texts.length / TEXT_WORDS) ||
        !is_range(leaf[FIRST_LIST], leaf[STOP_LIST], plan->lists.length / LIST_WORDS) ||
        !is_range(leaf[FIRST_CASE], leaf[STOP_CASE], plan->cases.length / CASE_WORDS) ||
        leaf[STOP_CASE] - leaf[FIRST_CASE] > MOST_CASES)
        return false;
    for (int64_t k = leaf[FIRST_TEXT]; k < leaf[STOP_TEXT]; k++)
        if (!is_sound_text(plan, row_of(plan->texts, k, TEXT_WORDS), leaf[COUNTER], bytes))
            return false;
    for (int64_t k = leaf[FIRST_LIST]; k < leaf[STOP_LIST]; k++)
        if (!is_sound_list(plan, row_of(plan->lists, k, LIST_WORDS), bytes))
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
        plan->capacity[k] = INT64_MAX, plan->counted[k] = NOTHING;
    for (int64_t k = 0; k < plan->columns.length; k++) {
        const int64_t *output = output_at(plan, k);
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

/* What is needed of a field; of one that is not sound, something that nobody asks for. */
static Source source_of(const int64_t *field)
{
    const bool is_big = field[FLAGS] & BIG;
    Source source = {.place = (uint8_t)field[PLACE], .form = WORD, .shift = field[SHIFT] & 63};
    source.add = (uint64_t)field[ADD], source.mask = (uint64_t)field[MASK];
    source.is_special = field[TEST] != NO_TEST || field[FLAGS] & (SIGNED | CLIPPED);
    source.is_plain = !field[SHIFT] && !field[ADD] && field[MASK] == -1 && !source.is_special;
    if (!within(field[PLACE], ITEM + 1))
        return source;
    source.offset = is_number(field[OFFSET]) ? (int32_t)field[OFFSET] : 0;
    source.stop = source.offset + (is_number(field[WIDTH]) ? field[WIDTH] : 0);
    source.form = BYTE;
    if (field[WIDTH] > 1)
        source.form = (field[WIDTH] == 2 ? LITTLE_2 : field[WIDTH] == 4 ? LITTLE_4 : LITTLE_8) + is_big;
    return source;
}

/* Whether the whole plan can be followed. */
static bool is_sound(Plan *plan)
{
    const int64_t num_leaves = plan->leaves.length / LEAF_WORDS;
    const int64_t num_fields = plan->fields.length / FIELD_WORDS;
    if (!measure(plan) || !is_sound_form(plan) || num_leaves >= NO_LEAF || num_fields > MOST_FIELDS)
        return false;
    for (int64_t k = 0; k < num_leaves; k++)
        if (!is_sound_leaf(plan, row_of(plan->leaves, k, LEAF_WORDS)))
            return false;
    for (int64_t k = 0; k < plan->leaf_of_kind.length; k++)
        if (plan->leaf_of_kind.data[k] >= num_leaves)
            return false;
    for (int64_t k = 0; k < num_fields; k++)
        plan->sources[k] = source_of(field_at(plan, k));
    return true;
}

#endif
