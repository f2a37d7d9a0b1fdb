/* A whole forward of few rows in one call: one team of threads goes through all layers and meets at
 * barriers, so that no operator is started on its own. Activations are fp32 (rounded to 16 bits for
 * products with weights), KV is bf16. */
#pragma once

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

INLINE void team_share(int64_t count, int64_t *first, int64_t *last) {
    int64_t threads = TEAM_SIZE, me = TEAM_RANK;
    *first = count * me / threads;
    *last = count * (me + 1) / threads;
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

static void norm_rows(const Work *w, const Model *m, const float *weight, int rows, int with_delta) {
    int64_t first, last;
    team_share(rows, &first, &last);
    for (int64_t r = first; r < last; r++)
        norm_row(w->h + r * m->hidden, with_delta ? w->delta + r * (int64_t)strips_wide(m->hidden) : NULL, weight,
                 w->wide, r, m->hidden, m->eps);
}

static void product(const Packed *p, Rounded x, int rows, float *out) {
    int64_t first, last, stride = (int64_t)strips_wide(p->rows);
    team_share(stride / LANE_ROWS, &first, &last);
    for (int64_t s = first; s < last; s++) strip_product(p, s, x, rows, out + s * LANE_ROWS, stride);
}

/* Rotate q and k of a row, write k and v where the cache wants them. */
static void place_row(const Work *w, const Model *m, const StepLayer *layer, const Step *s, int64_t layer_index,
                      int64_t r) {
    const int heads = m->layout.heads, kv_heads = m->layout.kv_heads, dim = m->layout.head_dim;
    const int size = m->layout.block_size;
    float *x = w->qkv + r * (int64_t)strips_wide(layer->qkv.rows), k_row[dim];
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
            float *q = w->q + (r * heads + h) * dim;
            bf16 *half = w->q_half + (r * heads + h) * dim;
            rotate_f32(head, angles, q, dim);
            for (int i = 0; i < dim; i += LANES) {
                store_bf16(half + i, load_f32(q + i));
                store_f32(q + i, load_f32(q + i) * scale);
            }
        } else {
            rotate_f32(head, angles, k_row, dim);
            for (int i = 0; i < dim; i += LANES) store_bf16(k + (h - heads) * dim + i, load_f32(k_row + i));
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

static void attend_all(const Work *w, const Model *m, const Step *s, int64_t layer) {
    const int heads = m->layout.heads, dim = m->layout.head_dim;
    const bf16 *kv = s->kv + layer * s->kv_layer;
#pragma omp for schedule(dynamic, 1)
    for (int p = 0; p < s->parts; p++)
        attend_bf16(&m->layout, s->blocks + s->part_first[p], w->q + (size_t)s->part_row[p] * heads * dim, kv,
                    s->part_start[p], s->part_stop[p], w->partial + (size_t)p * heads * (dim + 2));
    for (int i = 0; i < s->prefill_count; i++) {
        const size_t at = (size_t)s->prefill_row[i] * heads * dim;
        prefill_in_team(s->prefills + i, w->q_half + at, kv, w->attended + at);
    }
}

/* Write K and V of all rows, and the logits that are wanted. hidden, intermediate and heads * head_dim in
 * multiples of 32; head_dim of 16, and of 32 where there are prefills. */
void step_bf16(const Model *m, const Step *s) {
    Work work, *w = &work;
    share_out(m, (size_t)s->rows, (size_t)s->parts, s->scratch, w);
#pragma omp parallel
    {
        int64_t first, last;
        int rows = s->rows;
        for (int l = 0; l < m->num_layers; l++) {
            const StepLayer *layer = m->layers + l;
            if (!l) {
                team_share(rows, &first, &last);
                for (int64_t r = first; r < last; r++)
                    for (int i = 0; i < m->hidden; i += LANES)
                        store_f32(w->h + r * m->hidden + i, load_bf16(m->embedding + s->tokens[r] * m->hidden + i));
            }
            norm_rows(w, m, layer->attn_norm, rows, l > 0);
#pragma omp barrier
            product(&layer->qkv, w->wide, rows, w->qkv);
#pragma omp barrier
            team_share(rows, &first, &last);
            for (int64_t r = first; r < last; r++) place_row(w, m, layer, s, l, r);
#pragma omp barrier
            if (l == m->num_layers - 1) {
                if (!s->logits_rows) break;
                rows = s->logits_rows;
            }
            attend_all(w, m, s, l);
            if (rows < s->rows) {
                /* Nothing after the last attention mixes rows: only the wanted ones go on. */
                team_share(rows, &first, &last);
                for (int64_t r = first; r < last; r++) gather_row(w, m, s, s->wanted[r], r);
#pragma omp single
                for (int r = 0; r < rows; r++)
                    memmove(w->h + (int64_t)r * m->hidden, w->h + s->wanted[r] * m->hidden, (size_t)m->hidden * 4);
            } else {
                team_share(rows, &first, &last);
                for (int64_t r = first; r < last; r++) gather_row(w, m, s, r, r);
#pragma omp barrier
            }
            product(&layer->output, w->wide, rows, w->delta);
#pragma omp barrier
            norm_rows(w, m, layer->mlp_norm, rows, 1);
#pragma omp barrier
            team_share(m->intermediate / GROUP, &first, &last);
            for (int64_t g = first; g < last; g++) gated_group(w, m, layer, g, rows);
#pragma omp barrier
            product(&layer->down, w->narrow, rows, w->delta);
#pragma omp barrier
        }
        if (s->logits_rows) {
            norm_rows(w, m, m->final_norm, rows, 1);
#pragma omp barrier
            const int64_t vocab = m->head.rows, whole = vocab / LANE_ROWS;
            team_share(whole, &first, &last);
            for (int64_t i = first; i < last; i++)
                strip_product(&m->head, i, w->wide, rows, s->logits + i * LANE_ROWS, vocab);
            if (vocab % LANE_ROWS && TEAM_RANK == 0) {
                float rest[rows][LANE_ROWS];
                strip_product(&m->head, whole, w->wide, rows, rest[0], LANE_ROWS);
                for (int r = 0; r < rows; r++)
                    memcpy(s->logits + r * vocab + whole * LANE_ROWS, rest[r], (size_t)(vocab % LANE_ROWS) * 4);
            }
        }
    }
}
