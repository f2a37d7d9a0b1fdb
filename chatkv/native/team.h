/* How the threads of a step share its phases. A phase is over when its work is done, not when every thread has
 * come: one whose core another program or the screen has taken holds up what it has begun, and no more. At
 * barriers all the others would wait for it, phase after phase. */
#pragma once
#include <stdatomic.h>
#ifdef __linux__
#include <time.h>
#endif

#define MOST_THREADS 256
#define CHUNKS 8 /* of a thread's share, so that others can take over what it does not come to */
#define SPINS 3000
#define NAP_NS 50000

/* A phase's number above how far it has got: what is later is greater. */
typedef struct {
    _Alignas(64) _Atomic uint64_t at;
} Word;

/* A queue a thread: units [count * rank / threads, count * (rank + 1) / threads) of the phase. Who has emptied
 * its own takes from the others'. */
typedef struct {
    Word queues[MOST_THREADS], done;
} Team;

typedef struct {
    Team *team;
    int64_t rank, threads;
    uint64_t phase; /* in the upper half of a word */
    int64_t count, chunk, mine; /* units of the phase; taken at a time; done by this thread and not told */
} Member;

/* What an idle thread does while another has still to end what it took. */
static void wait_a_little(int tries) {
#ifdef __linux__
    if (tries >= SPINS) {
        /* It is kept from its core: let it have this one. */
        const struct timespec nap = {0, NAP_NS};
        nanosleep(&nap, NULL);
        return;
    }
#endif
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Next the team shares `count` units of work. */
INLINE void begin_phase(Member *m, int64_t count) {
    const int64_t chunk = count / (m->threads * CHUNKS);
    m->phase += (uint64_t)1 << 32;
    m->count = count;
    m->chunk = chunk ? chunk : 1;
    m->mine = 0;
}

/* The next units of queue `q`: [*first, *last); 0 where nothing is left there. */
INLINE int take_units(const Member *m, int64_t q, int64_t *first, int64_t *last) {
    _Atomic uint64_t *at = &m->team->queues[q].at;
    const uint64_t begin = (uint64_t)(m->count * q / m->threads), end = (uint64_t)(m->count * (q + 1) / m->threads);
    uint64_t seen = atomic_load_explicit(at, memory_order_relaxed);
    for (;;) {
        const uint64_t from = seen < m->phase ? begin : seen - m->phase;
        if (from >= end) return 0; /* also where others are in a later phase already */
        const uint64_t to = from + (uint64_t)m->chunk < end ? from + (uint64_t)m->chunk : end;
        if (atomic_compare_exchange_weak_explicit(at, &seen, m->phase + to, memory_order_relaxed, memory_order_relaxed)) {
            *first = (int64_t)from;
            *last = (int64_t)to;
            return 1;
        }
    }
}

INLINE void tell_done(Member *m) {
    _Atomic uint64_t *done = &m->team->done.at;
    uint64_t seen = atomic_load_explicit(done, memory_order_relaxed), now;
    do
        now = (seen < m->phase ? m->phase : seen) + (uint64_t)m->mine;
    while (!atomic_compare_exchange_weak_explicit(done, &seen, now, memory_order_acq_rel, memory_order_relaxed));
}

/* The next units for this thread. 0: all of the phase is done, by whomever, and can be read. */
static int next_units(Member *m, int64_t *first, int64_t *last) {
    for (int64_t i = 0; i < m->threads; i++)
        if (take_units(m, (m->rank + i) % m->threads, first, last)) {
            m->mine += *last - *first;
            return 1;
        }
    if (m->mine) tell_done(m);
    const uint64_t whole = m->phase + (uint64_t)m->count;
    for (int tries = 0; m->count && atomic_load_explicit(&m->team->done.at, memory_order_acquire) < whole; tries++)
        wait_a_little(tries);
    return 0;
}

/* Each i of [0, count) once, by one thread or another; behind it all of them are done. */
#define SHARED(member, i, count)                                                                                    \
    begin_phase(member, count);                                                                                     \
    for (int64_t i##_from, i##_to; next_units(member, &i##_from, &i##_to);)                                         \
        for (int64_t i = i##_from; i < i##_to; i++)
