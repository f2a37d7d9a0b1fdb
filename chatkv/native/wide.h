/* A whole forward of many rows in one call, by AMX tiles: one team of threads goes through all layers.
 *
 * Between two attentions no row needs another, so a thread takes a block of rows from what was attended to
 * through the output, the MLP and the next layer's q, k and v alone; what it makes on the way stays in its
 * second-level cache, and the team meets around attention only. The residual is fp32, what tiles multiply is
 * bf16. */
#pragma once
#include "panel.h"

#ifdef __AMX_BF16__

#define BLOCK_ROWS 256 /* rows that a thread carries at most */

typedef struct {
    Panel qkv, output, gate_up, down; /* gate_up: a strip of gate, a strip of up */
} WideLayer;

/* The norm of h [rows, hidden] into bricks. */
static void wide_norm(const float *h, const float *weight, bf16 *out, int rows, int hidden, float eps) {
    for (int r = 0; r < rows; r++, h += hidden) {
        bf16 *to = out + r / SIDE * (int64_t)(hidden / SIDE) * BRICK + r % SIDE * SIDE;
        const float factor = inverse_root_f32(mean_square_f32(h, hidden), eps);
        for (int i = 0; i < hidden; i += SIDE, to += BRICK) {
            store_bf16(to, load_f32(h + i) * factor * load_f32(weight + i));
            store_bf16(to + STRIP, load_f32(h + i + STRIP) * factor * load_f32(weight + i + STRIP));
        }
    }
}

/* A thread's own memory for a block of rows. */
typedef struct {
    bf16 *normed, *gated;
    float *qkv, *sums;
} Carried;

typedef struct {
    Work team;
    bf16 *picked; /* [logits, heads * head_dim]: what the wanted rows attended to */
    char *own; /* a thread's Carried after another's */
    size_t own_bytes;
} WideWork;

static Carried carried(const Model *m, const WideLayer *layers, char *at, size_t *bytes) {
    Carried c;
    char *from = at;
    c.normed = take(&at, BLOCK_ROWS * (size_t)m->hidden * 2);
    c.gated = take(&at, BLOCK_ROWS * (size_t)m->intermediate * 2);
    c.qkv = take(&at, BLOCK_ROWS * (size_t)layers->qkv.blocks * SIDE * 4);
    c.sums = take(&at, BLOCK_ROWS * SIDE * 4);
    *bytes = (size_t)(at - from);
    return c;
}

/* Tiles may read whole blocks of 32 rows. */
static size_t wide_share_out(const Model *m, const WideLayer *layers, const Step *s, void *scratch, WideWork *w) {
    char *at = scratch;
    const size_t rows = ((size_t)s->rows + SIDE - 1) / SIDE * SIDE, width = (size_t)m->layout.heads * m->layout.head_dim;
    const size_t logits = ((size_t)s->logits_rows + SIDE - 1) / SIDE * SIDE;
    w->team.h = take(&at, rows * (size_t)m->hidden * 4);
    w->team.q = take(&at, rows * width * 4);
    w->team.q_half = take(&at, rows * width * 2);
    w->team.attended = take(&at, rows * width * 2);
    w->team.partial = take(&at, (size_t)s->parts * (size_t)m->layout.heads * (size_t)(m->layout.head_dim + 2) * 4);
    w->team.wide = take_rounded(&at, logits, (size_t)m->hidden);
    w->picked = take(&at, logits * width * 2);
    w->own = at;
    carried(m, layers, NULL, &w->own_bytes);
    at += (size_t)team_size() * w->own_bytes;
    return (size_t)(at - (char *)scratch);
}

/* Rows first … first + rows: q, k and v of layer `l` from the residual. */
static void wide_before(const WideWork *w, Carried own, const Model *m, const WideLayer *layers, const Step *s, int l,
                        int first, int rows) {
    const StepLayer *layer = m->layers + l;
    const int64_t width = (int64_t)layers[l].qkv.blocks * SIDE, heads = (int64_t)m->layout.heads * m->layout.head_dim;
    wide_norm(w->team.h + (int64_t)first * m->hidden, layer->attn_norm, own.normed, rows, m->hidden, m->eps);
    wide_product(bricks(own.normed, m->hidden / SIDE), &layers[l].qkv, rows, own.sums, STORE_ROWS, own.qkv, width);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t row = first + r;
        const int alone = s->row_part[row + 1] > s->row_part[row];
        place_row(own.qkv + r * width, alone ? w->team.q + row * heads : NULL, w->team.q_half + row * heads, m, layer,
                  s, l, row);
    }
}

/* What follows attention in layer `l`; attended [rows, heads * head_dim], h the same rows. */
static void wide_after(const bf16 *attended, float *h, Carried own, const Model *m, const WideLayer *layers, int l,
                       int rows) {
    const WideLayer *layer = layers + l;
    const int64_t width = (int64_t)m->layout.heads * m->layout.head_dim;
    wide_product((Left){attended, SIDE * width, SIDE, width * 2}, &layer->output, rows, own.sums, ADD_ROWS, h, m->hidden);
    wide_norm(h, m->layers[l].mlp_norm, own.normed, rows, m->hidden, m->eps);
    wide_product(bricks(own.normed, m->hidden / SIDE), &layer->gate_up, rows, own.sums, GATE_ROWS, own.gated, m->intermediate);
    wide_product(bricks(own.gated, m->intermediate / SIDE), &layer->down, rows, own.sums, ADD_ROWS, h, m->hidden);
}

/* Rows of a block where `rows` are shared out among `threads`. */
static int wide_block(int rows, int threads) {
    const int rounds = (rows + threads * BLOCK_ROWS - 1) / (threads * BLOCK_ROWS), blocks = rounds * threads;
    return ((rows + blocks - 1) / blocks + SIDE - 1) / SIDE * SIDE;
}

static void wide_attend(Member *member, const WideWork *w, const Model *m, const Step *s, int l) {
    const int heads = m->layout.heads, dim = m->layout.head_dim;
    attend_all(member, &w->team, m, s, l);
    if (!s->parts) return;
    SHARED(member, row, s->rows) {
        const int first = s->row_part[row], parts = s->row_part[row + 1] - first;
        float joined[dim];
        for (int h = 0; parts && h < heads; h++) {
            join_parts(w->team.partial + ((size_t)first * heads + h) * (dim + 2), parts, heads, dim, joined);
            for (int i = 0; i < dim; i += LANES)
                store_bf16(w->team.attended + ((size_t)row * heads + h) * dim + i, load_f32(joined + i));
        }
    }
}

/* The final norm of wanted row `row`, for the packed head or as it is. */
static void wide_final(const WideWork *w, const Model *m, const Step *s, bf16 *normed, int64_t row) {
    float *h = w->team.h + row * m->hidden;
    if (s->logits) {
        norm_row(h, NULL, m->final_norm, w->team.wide, row, m->hidden, m->eps);
        return;
    }
    const float factor = inverse_root_f32(mean_square_f32(h, m->hidden), m->eps);
    for (int i = 0; i < m->hidden; i += LANES)
        store_bf16(normed + row * m->hidden + i, load_f32(h + i) * factor * load_f32(m->final_norm + i));
}

static void wide_through(Member *member, const WideWork *w, Carried own, const Model *m, const WideLayer *layers,
                         const Step *s, bf16 *normed) {
    const int64_t width = (int64_t)m->layout.heads * m->layout.head_dim;
    const int size = wide_block(s->rows, (int)member->threads), blocks = (s->rows + size - 1) / size;
    for (int l = 0; l < m->num_layers; l++) {
        if (l) wide_attend(member, w, m, s, l - 1);
        SHARED(member, b, blocks) {
            const int first = (int)b * size, rows = s->rows - first < size ? s->rows - first : size;
            float *h = w->team.h + (int64_t)first * m->hidden;
            for (int64_t r = 0; !l && r < rows; r++)
                for (int i = 0; i < m->hidden; i += LANES)
                    store_f32(h + r * m->hidden + i, load_bf16(m->embedding + s->tokens[first + r] * m->hidden + i));
            if (l) wide_after(w->team.attended + first * width, h, own, m, layers, l - 1, rows);
            wide_before(w, own, m, layers, s, l, first, rows);
        }
    }
    if (!s->logits_rows) return;
    /* Nothing after the last attention mixes rows: only the wanted ones go on. */
    wide_attend(member, w, m, s, m->num_layers - 1);
    SHARED(member, once, 1)
        for (int64_t r = 0; r < s->logits_rows; r++) {
            memmove(w->team.h + r * m->hidden, w->team.h + s->wanted[r] * m->hidden, (size_t)m->hidden * 4);
            memcpy(w->picked + r * width, w->team.attended + s->wanted[r] * width, (size_t)width * 2);
        }
    const int few = wide_block(s->logits_rows, (int)member->threads);
    SHARED(member, b, (s->logits_rows + few - 1) / few) {
        const int first = (int)b * few, rows = s->logits_rows - first < few ? s->logits_rows - first : few;
        float *h = w->team.h + (int64_t)first * m->hidden;
        wide_after(w->picked + first * width, h, own, m, layers, m->num_layers - 1, rows);
        for (int64_t r = first; r < first + rows; r++) wide_final(w, m, s, normed, r);
    }
    if (!s->logits) return;
    SHARED(member, i, (m->head.rows + LANE_ROWS - 1) / LANE_ROWS) logit_strip(&w->team, m, s, i, s->logits_rows);
}

/* As step_bf16, with `m`'s norms and head and the weights of `layers`; where s->logits is NULL, the wanted rows'
 * final norms go into normed [logits, hidden] instead. head_dim in multiples of 32. */
void wide_bf16(const Model *m, const WideLayer *layers, const Step *s, bf16 *normed) {
    WideWork work;
    Team team = {0};
    wide_share_out(m, layers, s, s->scratch, &work);
#pragma omp parallel num_threads(team_size())
    {
        Member member = {.team = &team, .rank = TEAM_RANK, .threads = TEAM_SIZE};
        TileConfig before;
        size_t bytes;
        tiles_begin(&before);
        const Carried own = carried(m, layers, work.own + (size_t)TEAM_RANK * work.own_bytes, &bytes);
        wide_through(&member, &work, own, m, layers, s, normed);
        tiles_end(&before);
    }
}

/* Bytes that the scratch of such a step takes. */
int64_t wide_bytes(const Model *m, const WideLayer *layers, const Step *s) {
    WideWork work;
    return (int64_t)wide_share_out(m, layers, s, NULL, &work);
}
#endif
