/* A rotating disk, one read after another: arm, rotation, look-ahead and buffer segments.
 *
 * tests/unit/native/reference/hdd.py does the same function by function, and explains what they do.
 */

#include "surface.h"

/* Columns of an arm's state. */
enum { RUN, NEXT, READY, MOVED, LIMIT, ACTIVE, CLOCK, FREE, ARM_COLUMNS };
/* Columns of a buffer segment. */
enum { BEGIN, END, USED, SEGMENT_COLUMNS };
/* Columns of the times of a read. */
enum { SEEK, LATENCY, TRANSFER, SERVICE, TRAVEL, TIME_COLUMNS };
/* Columns of a piece of a read. */
enum { READ, DRIVE, FIRST, STOP, FLASH, PART_COLUMNS };

enum { MISS, PART_HIT, WHOLE_HIT };
enum { NEVER, NEXT_SECTOR, WINDOW };

/* So many pieces before it is served, the mark of a piece, and its run, are brought near. */
enum { NEAR = 6, FAR = 12 };

typedef struct {
    Surface *surface;
    int64_t *arm;
    int64_t *segments;
    int64_t num_segments;
} Drive;

static inline int64_t *segment_row(Drive *drive, int64_t segment)
{
    if (segment < 0 || segment >= drive->num_segments) {
        drive->surface->refused = true;
        segment = 0;
    }
    return drive->segments + segment * SEGMENT_COLUMNS;
}

/* Send the look-ahead to its next sector. */
static void aim(Drive *drive, int64_t now)
{
    Surface *surface = drive->surface;
    int64_t *arm = drive->arm;
    const int64_t run = run_at(surface, arm[NEXT], arm[RUN]);
    arm[MOVED] = plus(now, move_ticks(surface, arm[RUN], run), &surface->refused);
    arm[READY] = plus(arm[MOVED], wait_ticks(surface, run, arm[NEXT], arm[MOVED]), &surface->refused);
    arm[RUN] = run;
}

/* Let the drive read ahead until now. */
static void look_ahead(Drive *drive, int64_t now)
{
    Surface *surface = drive->surface;
    bool *refused = &surface->refused;
    int64_t *arm = drive->arm;
    while (!*refused && arm[NEXT] < arm[LIMIT] && arm[READY] < now) {
        const int64_t sector = sector_ticks(surface, run_row(surface, arm[RUN]));
        const int64_t end = smaller(run_row(surface, behind(surface, arm[RUN]))[LBN], arm[LIMIT]);
        const int64_t left = minus(end, arm[NEXT], refused);
        if (left < 1) {
            *refused = true;
            return;
        }
        const int64_t done = smaller(minus(now, arm[READY], refused) / sector, left);
        arm[NEXT] = plus(arm[NEXT], done, refused);
        arm[READY] = plus(arm[READY], times(done, sector, refused), refused);
        if (done < left)
            return;
        if (arm[NEXT] < arm[LIMIT])
            aim(drive, arm[READY]);
    }
}

/* Note in the active segment what has been read into it; the oldest sectors give way. */
static void keep(Drive *drive)
{
    Surface *surface = drive->surface;
    const int64_t *arm = drive->arm;
    if (arm[ACTIVE] < 0)
        return;
    int64_t *segment = segment_row(drive, arm[ACTIVE]);
    segment[END] = arm[NEXT];
    const int64_t oldest = minus(arm[NEXT], surface->figures.data[SEGMENT_SECTORS], &surface->refused);
    segment[BEGIN] = larger(segment[BEGIN], oldest);
}

/* Set where the look-ahead ends, after a read that ended before the sector `stop`. */
static void set_limit(Drive *drive, int64_t stop)
{
    Surface *surface = drive->surface;
    bool *refused = &surface->refused;
    int64_t *arm = drive->arm;
    const int64_t *figures = surface->figures.data;
    const int64_t last = run_row(surface, surface->num_rows - 1)[LBN];
    int64_t limit = minus(plus(stop, figures[SEGMENT_SECTORS], refused), figures[BEHIND_SECTORS], refused);
    if (figures[BEHIND_SECTORS] < 0 && stop < last) {
        const int64_t run = run_at(surface, stop, arm[RUN]);
        limit = run_row(surface, run)[TRACK_END];
        if (segment_row(drive, arm[ACTIVE])[BEGIN] < run_row(surface, run)[TRACK_BEGIN]) {
            const int64_t read = run_at(surface, minus(stop, 1, refused), run);
            limit = plus(limit, run_row(surface, read)[TRACK_SECTORS], refused);
        }
    }
    arm[LIMIT] = larger(arm[LIMIT], smaller(limit, last));
}

/* Break off the look-ahead, for a read that it cannot serve. */
static void give_up(Drive *drive, int64_t now)
{
    Surface *surface = drive->surface;
    int64_t *arm = drive->arm;
    arm[FREE] = larger(arm[FREE], now);
    if (arm[NEXT] < arm[LIMIT]) {
        const int64_t sector = run_row(surface, arm[RUN])[SECTOR];
        arm[FREE] = arm[MOVED] > now ? arm[MOVED] : plus(arm[READY], sector, &surface->refused);
    }
    keep(drive);
    arm[LIMIT] = arm[NEXT];
}

/* Make a segment the active one; nothing is being read into it yet. */
static void fill(Drive *drive, int64_t segment)
{
    int64_t *arm = drive->arm;
    arm[ACTIVE] = segment;
    arm[NEXT] = segment_row(drive, segment)[END];
    arm[LIMIT] = arm[NEXT];
}

/* Whether a read may wait for the running look-ahead to come to its first sector. */
static bool reaches(Drive *drive, int64_t lbn)
{
    Surface *surface = drive->surface;
    const int64_t *arm = drive->arm;
    const int64_t ahead = minus(lbn, arm[NEXT], &surface->refused);
    if (surface->figures.data[JOIN] == NEVER || lbn >= arm[LIMIT])
        return ahead < 0;
    if (surface->figures.data[JOIN] == NEXT_SECTOR)
        return ahead <= 0;
    return ahead < run_row(surface, arm[RUN])[TRACK_SECTORS];
}

/* The segment that holds the first sector of a read or soon will, or -1. */
static int64_t find_segment(Drive *drive, int64_t lbn, int64_t stop)
{
    const int64_t active = drive->arm[ACTIVE];
    int64_t found = -1;
    bool whole = false;
    if (active >= 0 && segment_row(drive, active)[BEGIN] <= lbn && reaches(drive, lbn)) {
        if (stop <= segment_row(drive, active)[END])
            return active;
        found = active;
    }
    for (int64_t k = 0; k < drive->num_segments; k++) {
        const int64_t *segment = drive->segments + k * SEGMENT_COLUMNS;
        /* On which side of a segment a read lies nobody can foresee, that it lies beside it is likely: one jump tells
           that, as what is negative wraps around to what is very large; so does a segment that ends before it begins. */
        if ((uint64_t)lbn - (uint64_t)segment[BEGIN] >= (uint64_t)segment[END] - (uint64_t)segment[BEGIN] ||
            segment[BEGIN] > lbn || lbn >= segment[END])
            continue;
        const bool better = stop <= segment[END];
        if (found < 0 || (better && !whole) ||
            (better == whole && segment[USED] > segment_row(drive, found)[USED])) {
            found = k;
            whole = better;
        }
    }
    return found;
}

/* The least recently used segment. */
static int64_t oldest_segment(const Drive *drive)
{
    int64_t best = 0, least = drive->segments[USED];
    for (int64_t k = 1; k < drive->num_segments; k++) {
        const int64_t used = drive->segments[k * SEGMENT_COLUMNS + USED];
        best = used < least ? k : best;
        least = smaller(used, least);
    }
    return best;
}

/* Start the look-ahead where a read from the medium ended. */
static void go_on(Drive *drive, int64_t stop, int64_t now)
{
    int64_t *arm = drive->arm;
    arm[NEXT] = stop;
    arm[LIMIT] = stop;
    keep(drive);
    if (drive->surface->figures.data[SEGMENT_SECTORS] > 0) {
        set_limit(drive, stop);
        if (arm[NEXT] < arm[LIMIT])
            aim(drive, now);
    }
}

/* Note that the active segment begins with what passes under the head before a wanted sector of its track. */
static void keep_arrivals(Drive *drive, int64_t run, int64_t lbn, int64_t there)
{
    Surface *surface = drive->surface;
    const int64_t *row = run_row(surface, run);
    int64_t *segment = segment_row(drive, drive->arm[ACTIVE]);
    const int64_t passed = wait_ticks(surface, run, lbn, there) / sector_ticks(surface, row);
    const int64_t first = larger(minus(lbn, passed, &surface->refused), row[TRACK_BEGIN]);
    segment[BEGIN] = smaller(segment[BEGIN], first);
}

/* Read from the medium into the active segment; returns when that is complete. */
static int64_t read_medium(Drive *drive, int64_t lbn, int64_t stop, int64_t *spent)
{
    Surface *surface = drive->surface;
    bool *refused = &surface->refused;
    int64_t *arm = drive->arm;
    const int64_t *figures = surface->figures.data;
    int64_t run = run_at(surface, lbn, arm[RUN]);
    spent[SEEK] = move_ticks(surface, arm[RUN], run);
    spent[TRAVEL] = distance(surface, arm[RUN], run);
    const int64_t there = plus(plus(arm[FREE], figures[READ_MISS], refused), spent[SEEK], refused);
    const int64_t sector = run_row(surface, run)[SECTOR];
    int64_t begin, end;
    if (figures[ON_ARRIVAL] && arm[ACTIVE] >= 0)
        keep_arrivals(drive, run, lbn, there);
    if (figures[START_ANYWHERE]) {
        end = read_anywhere(surface, &run, lbn, stop, there, &begin);
    } else {
        begin = plus(there, wait_ticks(surface, run, lbn, there), refused);
        end = read_on(surface, &run, lbn, stop, begin);
    }
    spent[LATENCY] = minus(begin, there, refused);
    spent[TRANSFER] = minus(end, begin, refused);
    arm[RUN] = run;
    go_on(drive, stop, end);
    const int64_t through_bus = times(minus(stop, lbn, refused), figures[BUS_SECTOR], refused);
    const int64_t first_in_buffer = plus(begin, sector, refused);
    return larger(plus(end, figures[BUS_SECTOR], refused), plus(first_in_buffer, through_bus, refused));
}

/* Serve a read that begins in a segment and ends beyond it; returns when its last sector is there. */
static int64_t read_part(Drive *drive, int64_t segment, int64_t stop, int64_t now, int64_t *spent)
{
    Surface *surface = drive->surface;
    int64_t *arm = drive->arm;
    if (segment == arm[ACTIVE] && arm[NEXT] < arm[LIMIT]) {
        const int64_t arrived = read_on(surface, &arm[RUN], arm[NEXT], stop, arm[READY]);
        go_on(drive, stop, arrived);
        return plus(arrived, surface->figures.data[BUS_SECTOR], &surface->refused);
    }
    give_up(drive, now);
    fill(drive, segment);
    return read_medium(drive, arm[NEXT], stop, spent);
}

/* Serve one read that arrives now; fills in its times and returns what the buffer had of it. */
static uint8_t serve(Drive *drive, int64_t lbn, int64_t stop, int64_t now, int64_t *spent)
{
    Surface *surface = drive->surface;
    bool *refused = &surface->refused;
    int64_t *arm = drive->arm;
    const int64_t *figures = surface->figures.data;
    const bool has_buffer = figures[SEGMENT_SECTORS] > 0;
    uint8_t outcome = MISS;
    int64_t done;
    look_ahead(drive, now);
    keep(drive);
    int64_t segment = has_buffer ? find_segment(drive, lbn, stop) : -1;
    if (segment < 0) {
        give_up(drive, now);
        if (has_buffer) {
            segment = oldest_segment(drive);
            arm[ACTIVE] = segment;
            segment_row(drive, segment)[BEGIN] = lbn;
        }
        done = read_medium(drive, lbn, stop, spent);
    } else {
        const int64_t through_bus = times(minus(stop, lbn, refused), figures[BUS_SECTOR], refused);
        done = plus(plus(now, figures[READ_HIT], refused), through_bus, refused);
        outcome = WHOLE_HIT;
        if (stop > segment_row(drive, segment)[END]) {
            done = larger(done, read_part(drive, segment, stop, now, spent));
            outcome = PART_HIT;
        } else if (segment != arm[ACTIVE]) {
            give_up(drive, now);
            fill(drive, segment);
        } else if (arm[NEXT] < arm[LIMIT]) {
            set_limit(drive, stop);
        }
    }
    if (segment >= 0) {
        arm[CLOCK] = plus(arm[CLOCK], 1, refused);
        segment_row(drive, segment)[USED] = arm[CLOCK];
    }
    spent[SERVICE] = minus(done, now, refused);
    return outcome;
}

/* How long it takes until a read can begin. */
static int64_t approach(Drive *drive, int64_t lbn, int64_t stop, int64_t now)
{
    Surface *surface = drive->surface;
    bool *refused = &surface->refused;
    const int64_t *arm = drive->arm, *figures = surface->figures.data;
    if (figures[SEGMENT_SECTORS] > 0 && find_segment(drive, lbn, stop) >= 0)
        return figures[READ_HIT];
    const int64_t run = run_at(surface, lbn, arm[RUN]);
    const int64_t start = plus(larger(now, arm[FREE]), figures[READ_MISS], refused);
    const int64_t there = plus(start, move_ticks(surface, arm[RUN], run), refused);
    return minus(plus(there, wait_ticks(surface, run, lbn, there), refused), now, refused);
}

/* Drives and the pieces of reads, as both loops take them. */
typedef struct {
    Surface surface;
    Words arms, segments, parts, spent;
    Bytes outcomes;
    int64_t num_drives, num_segments, num_parts; /* segments of each drive */
} Task;

/* Measure the buffers; false where they do not fit each other. */
static bool measure(Task *task)
{
    task->surface.num_rows = task->surface.runs.length / RUN_COLUMNS;
    task->num_drives = task->arms.length / ARM_COLUMNS;
    task->num_parts = task->parts.length / PART_COLUMNS;
    if (!is_sound_surface(&task->surface) || task->num_drives < 1)
        return false;
    task->num_segments = task->segments.length / SEGMENT_COLUMNS / task->num_drives;
    return task->num_segments > 0 &&
        task->segments.length == task->num_drives * task->num_segments * SEGMENT_COLUMNS &&
        task->arms.length == task->num_drives * ARM_COLUMNS && task->parts.length == task->num_parts * PART_COLUMNS &&
        task->spent.length == task->num_parts * TIME_COLUMNS && task->outcomes.length == task->num_parts;
}

static Drive drive_of(Task *task, int64_t number)
{
    return (Drive){
        .surface = &task->surface,
        .arm = task->arms.data + number * ARM_COLUMNS,
        .segments = task->segments.data + number * task->num_segments * SEGMENT_COLUMNS,
        .num_segments = task->num_segments,
    };
}

/* Serve a piece of a read on a rotating disk; returns when it is complete. */
static int64_t serve_part(Task *task, int64_t number, int64_t part, int64_t now)
{
    const int64_t *piece = task->parts.data + part * PART_COLUMNS;
    int64_t *spent = task->spent.data + part * TIME_COLUMNS;
    Drive drive = drive_of(task, number);
    task->outcomes.data[part] = serve(&drive, piece[FIRST], piece[STOP], now, spent);
    return plus(now, spent[SERVICE], &task->surface.refused);
}

/* Reads that lie anywhere wait for memory more than they compute: what later ones need is on its way meanwhile. */
BROUGHT_NEAR void look_forward(const Task *task, int64_t part)
{
    const int64_t *piece = task->parts.data + part * PART_COLUMNS;
    if (part + FAR < task->num_parts)
        bring_near(&task->surface, piece[FAR * PART_COLUMNS + FIRST], false);
    if (part + NEAR < task->num_parts)
        bring_near(&task->surface, piece[NEAR * PART_COLUMNS + FIRST], true);
}

/* Serve reads one at a time; each arrives `think` ticks after the one before was complete. */
KERNEL int64_t closed_loop(Words runs, Words guess, Words seek, Words figures, Words arms, Words segments, Words parts,
    Words think, int64_t now, Words spent, Bytes outcomes)
{
    Task task = {
        .surface = {.runs = runs, .guess = guess, .seek = seek, .figures = figures},
        .arms = arms, .segments = segments, .parts = parts, .spent = spent, .outcomes = outcomes,
    };
    if (!measure(&task))
        return REFUSED;
    bool *refused = &task.surface.refused;
    int64_t read = -1, done = now;
    for (int64_t k = 0; k < task.num_parts && !*refused; k++) {
        const int64_t *piece = parts.data + k * PART_COLUMNS;
        look_forward(&task, k);
        if (piece[READ] != read) {
            read = piece[READ];
            if (!within(read, think.length))
                return REFUSED;
            now = plus(done, think.data[read], refused);
            done = now;
        }
        if (piece[DRIVE] >= task.num_drives)
            return REFUSED;
        if (piece[DRIVE] < 0) {
            spent.data[k * TIME_COLUMNS + SERVICE] = piece[FLASH];
            done = larger(done, plus(now, piece[FLASH], refused));
        } else {
            done = larger(done, serve_part(&task, piece[DRIVE], k, now));
        }
    }
    return *refused ? REFUSED : 0;
}

/* The place in the queue of the read that can begin first. */
static int64_t soonest(Task *task, Words waiting, int64_t now)
{
    Drive drive = drive_of(task, 0);
    int64_t best = 0, least = (TURN - 1) << 8;
    for (int64_t k = 0; k < waiting.length; k++) {
        if (waiting.data[k] >= task->num_parts)
            continue;
        const int64_t *piece = task->parts.data + waiting.data[k] * PART_COLUMNS;
        const int64_t cost = approach(&drive, piece[FIRST], piece[STOP], now);
        if (cost < least) {
            least = cost;
            best = k;
        }
    }
    return best;
}

/* Serve reads that queue up at the first drive; it takes the one that can begin first among the oldest. */
KERNEL int64_t queued_loop(Words runs, Words guess, Words seek, Words figures, Words arms, Words segments, Words parts,
    Words waiting, int64_t now, Words spent, Bytes outcomes)
{
    Task task = {
        .surface = {.runs = runs, .guess = guess, .seek = seek, .figures = figures},
        .arms = arms, .segments = segments, .parts = parts, .spent = spent, .outcomes = outcomes,
    };
    if (!measure(&task) || waiting.length < 1)
        return REFUSED;
    int64_t coming = waiting.length;
    for (int64_t k = 0; k < coming; k++)
        waiting.data[k] = k;
    for (int64_t served = 0; served < task.num_parts && !task.surface.refused; served++) {
        const int64_t best = soonest(&task, waiting, now);
        now = serve_part(&task, 0, waiting.data[best], now);
        for (int64_t k = best; k < waiting.length - 1; k++)
            waiting.data[k] = waiting.data[k + 1];
        waiting.data[waiting.length - 1] = coming++;
    }
    return task.surface.refused ? REFUSED : 0;
}
