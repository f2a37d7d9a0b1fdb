/* A whole forward of few rows in one call: one team of threads goes through all layers, phase after phase,
 * so that no operator is started on its own. Activations are fp32 (rounded to 16 bits for products with
 * weights), KV is bf16. */
#pragma once
#include "team.h"

typedef struct {
    const float *attn_norm, *mlp_norm; /* [hidden] */
    const float *q_norm, *k_norm; /* [head_dim] or NULL */
    Packed qkv, output, gate_up, down;
} StepLayer;

typedef struct {
    const StepLayer *layers;
    const bf16 *embedding; /* [vocab, hidden] */
    const float *final_norm;
    Packed head;
    int32_t num_layers, hidden, intermediate;
    float eps;
    Layout layout;
} Model;

/* Requests with many rows go by `prefills`, single rows by parts of their context. */
typedef struct {
    const int64_t *tokens, *positions, *slots; /* [rows] */
    const int64_t *wanted; /* [logits]: rows whose logits are asked for, rising */
    const float *angles; /* [positions, head_dim]: cosines, then sines */
    bf16 *kv; /* [layers, blocks, 2, block_size, kv_heads, head_dim] */
    int64_t kv_layer; /* elements of a layer's kv */
    const int32_t *blocks; /* of all requests */
    const int32_t *part_row, *part_first, *part_start, *part_stop; /* [parts]: row, its table in blocks, tokens */
    const int32_t *row_part; /* [rows + 1] the parts of each row; none: a prefill's */
    const Prefill *prefills; /* heads and kv_heads as in the model; `blocks` given */
    const int32_t *prefill_row; /* [prefill_count] first row of each */
    void *scratch; /* step_bytes(…), 64-byte aligned */
    float *logits; /* [logits, vocab] */
    int32_t rows, logits_rows, parts, prefill_count;
} Step;

typedef struct {
    float *h, *delta, *qkv, *q, *gate_up, *partial;
    bf16 *q_half, *attended;
    Rounded wide, narrow; /* of hidden or heads * head_dim columns; of intermediate */
} Work;

INLINE void *take(char **at, size_t bytes) {
    void *here = *at;
    *at += (bytes + 63) / 64 * 64;
    return here;
}

INLINE Rounded take_rounded(char **at, size_t rows, size_t columns) {
    size_t groups = rows * (columns / GROUP);
    return (Rounded){take(at, groups * GROUP * 2), take(at, groups * 4), take(at, groups * 4), take(at, groups * 4)};
}

/* Rows of float buffers are whole strips wide. */
INLINE size_t strips_wide(int columns) { return (size_t)(columns + LANE_ROWS - 1) / LANE_ROWS * LANE_ROWS; }

static size_t share_out(const Model *m, size_t rows, size_t parts, void *scratch, Work *w) {
    char *at = scratch;
    const size_t width = (size_t)m->layout.heads * m->layout.head_dim;
    const int columns = (int)width > m->hidden ? (int)width : m->hidden;
    w->h = take(&at, rows * (size_t)m->hidden * 4);
    w->delta = take(&at, rows * strips_wide(m->hidden) * 4);
    w->qkv = take(&at, rows * strips_wide(m->layers[0].qkv.rows) * 4);
    w->q = take(&at, rows * width * 4);
    w->q_half = take(&at, rows * width * 2);
    w->attended = take(&at, rows * width * 2);
    w->partial = take(&at, parts * (size_t)m->layout.heads * (size_t)(m->layout.head_dim + 2) * 4);
    w->wide = take_rounded(&at, rows, (size_t)columns);
    w->narrow = take_rounded(&at, rows, (size_t)m->intermediate);
    return (size_t)(at - (char *)scratch);
}

/* Bytes that a step's scratch takes. */
int64_t step_bytes(const Model *m, int64_t rows, int64_t parts) {
    Work work;
    return (int64_t)share_out(m, (size_t)rows, (size_t)parts, NULL, &work);
}

/* h += delta (unless NULL), its norm into `out`. */
static void norm_row(float *h, const float *delta, const float *weight, Rounded out, int64_t row, int hidden, float eps) {
    if (delta)
        for (int i = 0; i < hidden; i += LANES) store_f32(h + i, load_f32(h + i) + load_f32(delta + i));
    const float factor = inverse_root_f32(mean_square_f32(h, hidden), eps);
    for (int g = 0; g < hidden / GROUP; g++) {
        float x[GROUP];
        for (int i = 0; i < GROUP; i += LANES)
            store_f32(x + i, load_f32(h + g * GROUP + i) * factor * load_f32(weight + g * GROUP + i));
        round_group(x, out, row, hidden / GROUP, g);
    }
}

static void norm_rows(Member *member, const Work *w, const Model *m, const float *weight, int rows) {
    const int64_t stride = (int64_t)strips_wide(m->hidden);
    SHARED(member, r, rows)
        norm_row(w->h + r * m->hidden, w->delta + r * stride, weight, w->wide, r, m->hidden, m->eps);
}

static void product(Member *member, const Packed *p, Rounded x, int rows, float *out) {
    const int64_t stride = (int64_t)strips_wide(p->rows);
    SHARED(member, i, stride / LANE_ROWS) strip_product(p, i, x, rows, out + i * LANE_ROWS, stride);
}

/* The embeddings of a row's token, and their norm. */
static void begin_row(const Work *w, const Model *m, const Step *s, int64_t r) {
    float *h = w->h + r * m->hidden;
    for (int i = 0; i < m->hidden; i += LANES)
        store_f32(h + i, load_bf16(m->embedding + s->tokens[r] * m->hidden + i));
    norm_row(h, NULL, m->layers->attn_norm, w->wide, r, m->hidden, m->eps);
}

/* Rotate q and k of row r, x [heads + 2 * kv_heads, head_dim]; q in bf16, and scaled unless `q` is NULL; write k
 * and v where the cache wants them. */
static void place_row(float *x, float *q, bf16 *q_half, const Model *m, const StepLayer *layer, const Step *s,
                      int64_t layer_index, int64_t r) {
    const int heads = m->layout.heads, kv_heads = m->layout.kv_heads, dim = m->layout.head_dim;
    const int size = m->layout.block_size;
    float row[dim];
    const float *angles = s->angles + s->positions[r] * dim;
    const float scale = 1.0f / __builtin_sqrtf((float)dim);
    bf16 *kv = s->kv + layer_index * s->kv_layer;
    bf16 *k = kv + ((s->slots[r] / size * 2) * size + s->slots[r] % size) * kv_heads * dim;
    bf16 *v = k + (int64_t)size * kv_heads * dim;
    for (int h = 0; h < heads + kv_heads; h++) {
        float *head = x + h * dim;
        const float *weight = h < heads ? layer->q_norm : layer->k_norm;
        if (weight) {
            const float factor = inverse_root_f32(mean_square_f32(head, dim), m->eps);
            for (int i = 0; i < dim; i += LANES)
                store_f32(head + i, load_f32(head + i) * factor * load_f32(weight + i));
        }
        if (h < heads) {
            rotate_f32(head, angles, row, dim);
            for (int i = 0; i < dim; i += LANES) store_bf16(q_half + h * dim + i, load_f32(row + i));
            for (int i = 0; q && i < dim; i += LANES) store_f32(q + h * dim + i, load_f32(row + i) * scale);
        } else {
            rotate_f32(head, angles, row, dim);
            for (int i = 0; i < dim; i += LANES) store_bf16(k + (h - heads) * dim + i, load_f32(row + i));
        }
    }
    const float *values = x + (heads + kv_heads) * dim;
    for (int i = 0; i < kv_heads * dim; i += LANES) store_bf16(v + i, load_f32(values + i));
}

/* What row `from` attended to, rounded, as row `to`. */
static void gather_row(const Work *w, const Model *m, const Step *s, int64_t from, int64_t to) {
    const int heads = m->layout.heads, dim = m->layout.head_dim, groups = heads * dim / GROUP;
    float x[heads * dim];
    const int first = s->row_part[from], parts = s->row_part[from + 1] - first;
    for (int h = 0; h < heads; h++) {
        if (parts)
            join_parts(w->partial + ((size_t)first * heads + h) * (dim + 2), parts, heads, dim, x + h * dim);
        else
            for (int i = 0; i < dim; i += LANES)
                store_f32(x + h * dim + i, load_bf16(w->attended + (from * heads + h) * dim + i));
    }
    for (int g = 0; g < groups; g++) round_group(x + g * GROUP, w->wide, to, groups, g);
}

/* silu(gate) * up of a group of columns, rounded. */
static void gated_group(const Work *w, const Model *m, const StepLayer *layer, int64_t group, int rows) {
    const int64_t strips = GROUP / LANE_ROWS, up = m->intermediate / LANE_ROWS;
    float gates[rows][GROUP], ups[rows][GROUP];
    for (int64_t i = 0; i < strips; i++) {
        strip_product(&layer->gate_up, group * strips + i, w->wide, rows, &gates[0][i * LANE_ROWS], GROUP);
        strip_product(&layer->gate_up, up + group * strips + i, w->wide, rows, &ups[0][i * LANE_ROWS], GROUP);
    }
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < GROUP; i += LANES) {
            vfloat gate = load_f32(gates[r] + i);
            store_f32(gates[r] + i, gate / (vexp(-gate) + 1.0f) * load_f32(ups[r] + i));
        }
        round_group(gates[r], w->narrow, r, m->intermediate / GROUP, group);
    }
}

static void attend_all(Member *member, const Work *w, const Model *m, const Step *s, int64_t layer) {
    const int heads = m->layout.heads, dim = m->layout.head_dim;
    const bf16 *kv = s->kv + layer * s->kv_layer;
    SHARED(member, p, s->parts)
        attend_bf16(&m->layout, s->blocks + s->part_first[p], w->q + (size_t)s->part_row[p] * heads * dim, kv,
                    s->part_start[p], s->part_stop[p], w->partial + (size_t)p * heads * (dim + 2));
    for (int i = 0; i < s->prefill_count; i++) {
        const size_t at = (size_t)s->prefill_row[i] * heads * dim;
        prefill_in_team(s->prefills + i, w->q_half + at, kv, w->attended + at);
    }
}

/* A strip of the logits. */
static void logit_strip(const Work *w, const Model *m, const Step *s, int64_t strip, int rows) {
    const int64_t vocab = m->head.rows, from = strip * LANE_ROWS;
    if (from + LANE_ROWS <= vocab) {
        strip_product(&m->head, strip, w->wide, rows, s->logits + from, vocab);
        return;
    }
    float rest[rows][LANE_ROWS];
    strip_product(&m->head, strip, w->wide, rows, rest[0], LANE_ROWS);
    for (int r = 0; r < rows; r++) memcpy(s->logits + r * vocab + from, rest[r], (size_t)(vocab - from) * 4);
}

static void go_through(Member *member, const Work *w, const Model *m, const Step *s) {
    const int64_t width = (int64_t)m->layout.heads * m->layout.head_dim;
    int rows = s->rows;
    SHARED(member, r, rows) begin_row(w, m, s, r);
    for (int l = 0; l < m->num_layers; l++) {
        const StepLayer *layer = m->layers + l;
        if (l) norm_rows(member, w, m, layer->attn_norm, rows);
        product(member, &layer->qkv, w->wide, rows, w->qkv);
        SHARED(member, r, rows)
            place_row(w->qkv + r * (int64_t)strips_wide(layer->qkv.rows), w->q + r * width, w->q_half + r * width, m,
                      layer, s, l, r);
        const int only_wanted = l == m->num_layers - 1;
        if (only_wanted && !s->logits_rows) return;
        attend_all(member, w, m, s, l);
        if (only_wanted && s->logits_rows < rows) {
            /* Nothing after the last attention mixes rows: only the wanted ones go on. */
            rows = s->logits_rows;
            SHARED(member, r, rows) gather_row(w, m, s, s->wanted[r], r);
            SHARED(member, once, 1)
                for (int r = 0; r < rows; r++)
                    memmove(w->h + (int64_t)r * m->hidden, w->h + s->wanted[r] * m->hidden, (size_t)m->hidden * 4);
        } else {
            SHARED(member, r, rows) gather_row(w, m, s, r, r);
        }
        product(member, &layer->output, w->wide, rows, w->delta);
        norm_rows(member, w, m, layer->mlp_norm, rows);
        SHARED(member, g, m->intermediate / GROUP) gated_group(w, m, layer, g, rows);
        product(member, &layer->down, w->narrow, rows, w->delta);
    }
    norm_rows(member, w, m, m->final_norm, rows);
    SHARED(member, i, (m->head.rows + LANE_ROWS - 1) / LANE_ROWS) logit_strip(w, m, s, i, rows);
}

INLINE int team_size(void) {
#ifdef _OPENMP
    const int most = omp_get_max_threads();
    return most < MOST_THREADS ? most : MOST_THREADS;
#else
    return 1;
#endif
}

/* Write K and V of all rows, and the logits that are wanted. hidden, intermediate and heads * head_dim in
 * multiples of 32; head_dim of 16, and of 32 where there are prefills. */
void step_bf16(const Model *m, const Step *s) {
    Work work;
    Team team = {0};
    share_out(m, (size_t)s->rows, (size_t)s->parts, s->scratch, &work);
#pragma omp parallel num_threads(team_size())
    {
        Member member = {.team = &team, .rank = TEAM_RANK, .threads = TEAM_SIZE};
        go_through(&member, &work, m, s);
    }
}
