/* The surface of a rotating disk: where each sector lies, how the arm gets there, when it comes under the head.
 *
 * layoutscope/drive/hdd.py explains the tables. Times are ticks of 1/2**32 revolution.
 */

#ifndef LAYOUTSCOPE_SURFACE_H
#define LAYOUTSCOPE_SURFACE_H

#include "kernel.h"

static const int64_t TURN = (int64_t)1 << 32;

/* Columns of the table of runs. */
enum { LBN, CYLINDER, HEAD, SECTOR, ANGLE, TRACK_BEGIN, TRACK_END, TRACK_SECTORS, RUN_COLUMNS };

/* Numbers about the drive, in the order of the Surface's fields. */
enum {
    GUESS_SHIFT, HEAD_SWITCH, BUS_SECTOR, READ_MISS, READ_HIT, START_ANYWHERE, SEGMENT_SECTORS, BEHIND_SECTORS, JOIN,
    ON_ARRIVAL, NUM_FIGURES
};

typedef struct {
    Words runs, guess, seek, figures;
    int64_t num_rows; /* of runs; the last one closes the table */
    bool refused;
} Surface;

static inline bool is_sound_surface(const Surface *surface)
{
    return surface->runs.length == surface->num_rows * RUN_COLUMNS && surface->num_rows > 1 &&
        surface->figures.length == NUM_FIGURES && surface->figures.data[GUESS_SHIFT] >= 0 &&
        surface->figures.data[GUESS_SHIFT] < 63;
}

static inline const int64_t *run_row(Surface *surface, int64_t run)
{
    if (!within(run, surface->num_rows)) {
        surface->refused = true;
        run = 0;
    }
    return surface->runs.data + run * RUN_COLUMNS;
}

/* The run behind one, which may be none. */
static inline int64_t behind(Surface *surface, int64_t run)
{
    return plus(run, 1, &surface->refused);
}

/* The ticks of a sector of a run. */
static inline int64_t sector_ticks(Surface *surface, const int64_t *row)
{
    if (row[SECTOR] > 0)
        return row[SECTOR];
    surface->refused = true;
    return 1;
}

/* The run that holds a sector; `near` is tried first. */
static inline int64_t run_at(Surface *surface, int64_t lbn, int64_t near)
{
    if (run_row(surface, near)[LBN] <= lbn && lbn < run_row(surface, behind(surface, near))[LBN])
        return near;
    const int64_t place = minus(lbn, run_row(surface, 0)[LBN], &surface->refused);
    const int64_t mark = place < 0 ? -1 : place >> surface->figures.data[GUESS_SHIFT];
    int64_t run = within(mark, surface->guess.length) ? surface->guess.data[mark] : -1;
    surface->refused |= !within(run, surface->num_rows - 1);
    while (!surface->refused && run_row(surface, behind(surface, run))[LBN] <= lbn)
        run++;
    return surface->refused ? 0 : run;
}

/* Bring near what `run_at` will look at for a sector: its mark, or, when that is there, its run. */
BROUGHT_NEAR void bring_near(const Surface *surface, int64_t lbn, bool is_mark_near)
{
    const int64_t first = surface->runs.data[LBN];
    if (lbn < first)
        return;
    const int64_t mark = (int64_t)((uint64_t)lbn - (uint64_t)first) >> surface->figures.data[GUESS_SHIFT];
    if (!within(mark, surface->guess.length))
        return;
    if (!is_mark_near)
        __builtin_prefetch(surface->guess.data + mark);
    else if (within(surface->guess.data[mark], surface->num_rows - 1)) {
        const int64_t *row = surface->runs.data + surface->guess.data[mark] * RUN_COLUMNS;
        __builtin_prefetch(row);
        __builtin_prefetch(row + RUN_COLUMNS);
    }
}

/* How far it is from one run's cylinder to another's. */
static inline int64_t distance(Surface *surface, int64_t origin, int64_t target)
{
    const int64_t a = run_row(surface, origin)[CYLINDER], b = run_row(surface, target)[CYLINDER];
    return minus(larger(a, b), smaller(a, b), &surface->refused);
}

/* How long the arm takes from one run's track to another's. */
static inline int64_t move_ticks(Surface *surface, int64_t origin, int64_t target)
{
    const int64_t cylinders = distance(surface, origin, target);
    if (!within(cylinders, surface->seek.length)) {
        surface->refused = true;
        return 0;
    }
    const int64_t ticks = surface->seek.data[cylinders];
    if (run_row(surface, origin)[HEAD] != run_row(surface, target)[HEAD])
        return larger(ticks, surface->figures.data[HEAD_SWITCH]);
    return ticks;
}

/* How long it takes until a sector comes under the head. */
static inline int64_t wait_ticks(Surface *surface, int64_t run, int64_t lbn, int64_t now)
{
    bool *refused = &surface->refused;
    const int64_t *row = run_row(surface, run);
    const int64_t within = times(minus(lbn, row[LBN], refused), row[SECTOR], refused);
    return minus(plus(row[ANGLE], within, refused), now, refused) & (TURN - 1);
}

/* Read sectors up to `stop`, the first of which comes under the head now; returns when the last ends. */
static inline int64_t read_on(Surface *surface, int64_t *run, int64_t lbn, int64_t stop, int64_t now)
{
    bool *refused = &surface->refused;
    while (!*refused && stop > run_row(surface, behind(surface, *run))[LBN]) {
        const int64_t next = run_row(surface, behind(surface, *run))[LBN];
        const int64_t sectors = minus(next, lbn, refused);
        now = plus(now, times(sectors, run_row(surface, *run)[SECTOR], refused), refused);
        lbn = next;
        now = plus(now, move_ticks(surface, *run, behind(surface, *run)), refused);
        *run = behind(surface, *run);
        now = plus(now, wait_ticks(surface, *run, lbn, now), refused);
    }
    return plus(now, times(minus(stop, lbn, refused), run_row(surface, *run)[SECTOR], refused), refused);
}

/* Read sectors up to `stop`, of each track what comes under the head first, from now; returns when the last ends.
 *
 * A head that comes down amid the wanted sectors of a track has them all after one turn.
 */
static inline int64_t read_anywhere(
    Surface *surface, int64_t *run, int64_t lbn, int64_t stop, int64_t now, int64_t *begin)
{
    bool *refused = &surface->refused;
    *begin = -1;
    while (!*refused) {
        const int64_t sector = sector_ticks(surface, run_row(surface, *run));
        const int64_t end = smaller(stop, run_row(surface, behind(surface, *run))[LBN]);
        const int64_t wait = wait_ticks(surface, *run, lbn, now);
        const int64_t sectors = minus(end, lbn, refused);
        const int64_t left = plus(TURN - wait, sector - 1, refused) / sector;
        int64_t start = plus(now, wait, refused), done;
        if (wait > 0 && left < sectors) {
            start = plus(start, minus(times(left, sector, refused), TURN, refused), refused);
            done = plus(start, TURN, refused);
        } else {
            done = plus(start, times(sectors, sector, refused), refused);
        }
        if (*begin < 0)
            *begin = start;
        if (end == stop)
            return done;
        lbn = end;
        now = plus(done, move_ticks(surface, *run, behind(surface, *run)), refused);
        *run = behind(surface, *run);
    }
    return 0;
}

#endif
