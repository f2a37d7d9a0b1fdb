/* Attention of single query rows over the block table. Part of kernels_typed.h: once for each type T. */

/* `queries` of one head of KV (at most 4) over one run of up to RUN tokens: into out, for each of them the
 * weighted sum of V [dim], the largest score, the sum of weights. Online softmax (Milakov and Gimelshein,
 * arXiv 1805.02867). keys: of each token, where this head's K begins; V stands `half` elements behind. */
INLINE void FN(attend_run)(const float *q, const T *const *keys, size_t half, float *out, const int queries,
                           int count, const int dim) {
    const int vectors = dim / LANES;
    vfloat scores[4][RUN / LANES];
    UNROLLED for (int b = 0; b < RUN / LANES; b++) {
        vfloat products[4][LANES];
        if (b * LANES >= count) {
            UNROLLED for (int g = 0; g < queries; g++) scores[g][b] = splat(-__builtin_inff());
            continue;
        }
        for (int l = 0; l < LANES; l++) {
            const T *k = keys[b * LANES + l < count ? b * LANES + l : count - 1];
            vfloat total[4];
            UNROLLED for (int g = 0; g < queries; g++) total[g] = (vfloat){0};
            UNROLLED for (int i = 0; i < vectors; i++) {
                vfloat x = LOAD(k + i * LANES);
                UNROLLED for (int g = 0; g < queries; g++) total[g] += x * load_f32(q + g * dim + i * LANES);
            }
            UNROLLED for (int g = 0; g < queries; g++) products[g][l] = total[g];
        }
        UNROLLED for (int g = 0; g < queries; g++) scores[g][b] = sums(products[g]);
    }
    if (count % LANES) {
        /* Lanes behind the last token repeat it: they don't count. */
    
        vint lanes = {0};
        UNROLLED for (int l = 0; l < LANES; l++) lanes[l] = l;
        const vint beyond = lanes >= count % LANES - (vint){0};
        UNROLLED for (int b = 0; b < RUN / LANES; b++) if (b == count / LANES)
            UNROLLED for (int g = 0; g < queries; g++)
                scores[g][b] = (vfloat)(((vint)scores[g][b] & ~beyond) | ((vint)splat(-__builtin_inff()) & beyond));
    }
    float weights[4][RUN];
    UNROLLED for (int g = 0; g < queries; g++) {
        float *o = out + g * (dim + 2);
        vfloat highest = scores[g][0], masses = {0};
        UNROLLED for (int b = 1; b < RUN / LANES; b++) highest = vmax(highest, scores[g][b]);
        const float most = larger(largest(highest), o[dim]);
        const float shrink = vexp(splat(o[dim] - most))[0];
        UNROLLED for (int b = 0; b < RUN / LANES; b++) {
            vfloat weight = vexp(scores[g][b] - most);
            masses += weight;
            store_f32(weights[g] + b * LANES, weight);
        }
        UNROLLED for (int i = 0; i < vectors; i++) store_f32(o + i * LANES, load_f32(o + i * LANES) * shrink);
        o[dim] = most;
        o[dim + 1] = o[dim + 1] * shrink + sum(masses);
    }
    /* Some of the dimensions at a time, so that the totals stay in registers. */
    const int some = vectors < 4 ? vectors : 4;
    for (int first = 0; first < vectors; first += some) {
        vfloat total[4][4];
        UNROLLED for (int g = 0; g < queries; g++)
            UNROLLED for (int i = 0; i < some; i++)
                total[g][i] = first + i < vectors ? load_f32(out + g * (dim + 2) + (first + i) * LANES) : (vfloat){0};
        for (int t = 0; t < count; t++) {
            UNROLLED for (int i = 0; i < some; i++) {
                if (first + i >= vectors) continue;
                vfloat x = LOAD(keys[t] + half + (first + i) * LANES);
                UNROLLED for (int g = 0; g < queries; g++) total[g][i] += weights[g][t] * x;
            }
        }
        UNROLLED for (int g = 0; g < queries; g++)
            UNROLLED for (int i = 0; i < some; i++)
                if (first + i < vectors) store_f32(out + g * (dim + 2) + (first + i) * LANES, total[g][i]);
    }
}

/* Tokens start … stop of a context, all heads: queries [heads, dim], already scaled; partial [heads, dim + 2]. */
INLINE void FN(attend_dim)(const Layout *l, const int32_t *blocks, const float *queries, const T *kv, int start,
                           int stop, float *partial, const int dim) {
    const int group = l->heads / l->kv_heads, size = l->block_size;
    const size_t token = (size_t)l->kv_heads * dim, half = token * size;
    for (int h = 0; h < l->heads; h++) {
        memset(partial + h * (dim + 2), 0, sizeof(float) * (size_t)(dim + 2));
        partial[h * (dim + 2) + dim] = -__builtin_inff();
    }
    for (; start < stop; start += RUN) {
        const int count = stop - start < RUN ? stop - start : RUN;
        for (int head = 0; head < l->kv_heads; head++) {
            const T *keys[RUN];
            for (int t = 0, block = start / size, offset = start % size; t < count; t++) {
                keys[t] = kv + (size_t)blocks[block] * 2 * half + (size_t)offset * token + (size_t)head * dim;
                if (++offset == size) offset = 0, block++;
            }
            if (head + 1 < l->kv_heads)
                for (int t = 0; t < count; t++)
                    for (size_t i = 0; i < dim * sizeof(T); i += 64) {
                        __builtin_prefetch((const char *)(keys[t] + dim) + i);
                        __builtin_prefetch((const char *)(keys[t] + half + dim) + i);
                    }
            else
                for (int t = RUN; t < 2 * RUN && start + t < stop; t++) {
                    const T *next = kv + (size_t)blocks[(start + t) / size] * 2 * half + (size_t)((start + t) % size) * token;
                    for (size_t i = 0; i < dim * sizeof(T); i += 64) {
                        __builtin_prefetch((const char *)next + i);
                        __builtin_prefetch((const char *)(next + half) + i);
                    }
                }
            for (int g = 0; g < group;) {
                const float *q = queries + (head * group + g) * dim;
                float *out = partial + (head * group + g) * (dim + 2);
                const int more = group - g;
                if (more >= 4)
                    FN(attend_run)(q, keys, half, out, 4, count, dim), g += 4;
                else if (more == 3)
                    FN(attend_run)(q, keys, half, out, 3, count, dim), g += 3;
                else if (more == 2)
                    FN(attend_run)(q, keys, half, out, 2, count, dim), g += 2;
                else
                    FN(attend_run)(q, keys, half, out, 1, count, dim), g += 1;
            }
        }
    }
}

static void FN(attend)(const Layout *l, const int32_t *blocks, const float *queries, const T *kv, int start, int stop,
                       float *partial) {
    if (l->head_dim == 64)
        FN(attend_dim)(l, blocks, queries, kv, start, stop, partial, 64);
    else if (l->head_dim == 128)
        FN(attend_dim)(l, blocks, queries, kv, start, stop, partial, 128);
    else
        FN(attend_dim)(l, blocks, queries, kv, start, stop, partial, l->head_dim);
}

/* Attention of the requests with one query row: q and out [rows, heads, dim]. The parts of a request
 * stand one after another and are joined in that order, so that threads don't change the result. */
void FN(paged_decode)(const Decode *d, const T *q, const T *kv, T *out) {
    const int dim = d->layout.head_dim, heads = d->layout.heads;
    const float scale = 1.0f / __builtin_sqrtf((float)dim);
#pragma omp parallel for schedule(dynamic, 1) if (d->parts > 1)
    for (int part = 0; part < d->parts; part++) {
        const int request = d->part_request[part];
        const T *from = q + (size_t)d->rows[request] * heads * dim;
        float queries[heads * dim];
        for (int i = 0; i < heads * dim; i += LANES) store_f32(queries + i, LOAD(from + i) * scale);
        FN(attend)(&d->layout, d->kv_indices + d->kv_indptr[request], queries, kv, d->part_start[part],
                   d->part_stop[part], d->partial + (size_t)part * heads * (dim + 2));
    }
    for (int first = 0; first < d->parts;) {
        int request = d->part_request[first], last = first;
        while (last < d->parts && d->part_request[last] == request) last++;
        for (int h = 0; h < heads; h++) {
            float joined[dim];
            join_parts(d->partial + ((size_t)first * heads + h) * (dim + 2), last - first, heads, dim, joined);
            for (int i = 0; i < dim; i += LANES)
                STORE(out + ((size_t)d->rows[request] * heads + h) * dim + i, load_f32(joined + i));
        }
        first = last;
    }
}
