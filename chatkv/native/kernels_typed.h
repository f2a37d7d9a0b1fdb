/* Included once for each type T that activations and KV have; FN(name) is name_bf16 or name_f32. */
#define FN(name) JOIN(name, NAME)
#define LOAD JOIN(load, NAME)
#define LOAD1 JOIN(load1, NAME)
#define STORE JOIN(store, NAME)
#define STORE1 JOIN(store1, NAME)

/* Rows below this many elements in all are not worth waking another thread. */
#define PARALLEL_ELEMENTS 65536

INLINE float FN(mean_square)(const T *x, int64_t width) {
    vfloat squares = {0};
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        vfloat v = LOAD(x + i);
        squares += v * v;
    }
    float total = sum(squares);
    for (; i < width; i++) total += LOAD1(x + i) * LOAD1(x + i);
    return total / (float)width;
}

INLINE void FN(scale)(const T *x, const T *weight, float factor, T *out, int64_t width) {
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        /* torch rounds the normed value before it is weighted. */
        T rounded[LANES];
        STORE(rounded, LOAD(x + i) * factor);
        STORE(out + i, LOAD(rounded) * LOAD(weight + i));
    }
    for (; i < width; i++) {
        T rounded;
        STORE1(&rounded, LOAD1(x + i) * factor);
        STORE1(out + i, LOAD1(&rounded) * LOAD1(weight + i));
    }
}

INLINE float FN(inverse_root)(float mean, float eps) { return 1.0f / __builtin_sqrtf(mean + eps); }

/* h += delta (unless NULL); out = RMSNorm(h) * weight. All [rows, width]. */
void FN(add_norm)(T *h, const T *delta, const T *weight, T *out, int64_t rows, int64_t width, float eps) {
#pragma omp parallel for if (rows * width > PARALLEL_ELEMENTS)
    for (int64_t r = 0; r < rows; r++) {
        T *x = h + r * width;
        if (delta) {
            const T *d = delta + r * width;
            int64_t i = 0;
            for (; i + LANES <= width; i += LANES) STORE(x + i, LOAD(x + i) + LOAD(d + i));
            for (; i < width; i++) STORE1(x + i, LOAD1(x + i) + LOAD1(d + i));
        }
        FN(scale)(x, weight, FN(inverse_root)(FN(mean_square)(x, width), eps), out + r * width, width);
    }
}

/* out = silu(gate) * up; gate_up [rows, 2 * width] holds gate, then up. */
void FN(gated)(const T *gate_up, T *out, int64_t rows, int64_t width) {
#pragma omp parallel for if (rows * width > PARALLEL_ELEMENTS)
    for (int64_t r = 0; r < rows; r++) {
        const T *gate = gate_up + r * 2 * width, *up = gate + width;
        T *o = out + r * width;
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) {
            vfloat g = LOAD(gate + i);
            STORE(o + i, g / (vexp(-g) + 1.0f) * LOAD(up + i));
        }
        for (; i < width; i++) {
            vfloat g = splat(LOAD1(gate + i));
            vfloat s = g / (vexp(-g) + 1.0f);
            STORE1(o + i, s[0] * LOAD1(up + i));
        }
    }
}

/* Rotate one head of x by table = cos[dim / 2], sin[dim / 2]; half-split layout. */
INLINE void FN(rotate)(const T *x, const float *table, T *out, int dim) {
    int half = dim / 2, i = 0;
    for (; i + LANES <= half; i += LANES) {
        vfloat a = LOAD(x + i), b = LOAD(x + half + i);
        vfloat c = load_f32(table + i), s = load_f32(table + half + i);
        STORE(out + i, a * c - b * s);
        STORE(out + half + i, b * c + a * s);
    }
    for (; i < half; i++) {
        float a = LOAD1(x + i), b = LOAD1(x + half + i), c = table[i], s = table[half + i];
        STORE1(out + i, a * c - b * s);
        STORE1(out + half + i, b * c + a * s);
    }
}

/* From qkv [rows, heads + 2 * kv_heads, dim]: norm q and k a head at a time (unless the weights are
 * NULL), rotate them, write k and v into kv [blocks, 2, block_size, kv_heads, dim] at slots [rows],
 * and q into out [rows, heads, dim]. table: fp32 [positions, dim], cosines, then sines. dim <= 512. */
void FN(place)(T *qkv, const float *table, const int64_t *positions, const int64_t *slots, const T *q_norm,
               const T *k_norm, T *kv, T *out, int64_t rows, int64_t heads, int64_t kv_heads, int64_t dim,
               int64_t block_size, float eps) {
#pragma omp parallel for if (rows * heads * dim > PARALLEL_ELEMENTS)
    for (int64_t r = 0; r < rows; r++) {
        const float *angles = table + positions[r] * dim;
        T *x = qkv + r * (heads + 2 * kv_heads) * dim;
        for (int64_t h = 0; h < heads + kv_heads; h++) {
            const T *weight = h < heads ? q_norm : k_norm;
            T *head = x + h * dim;
            if (weight)
                FN(scale)(head, weight, FN(inverse_root)(FN(mean_square)(head, dim), eps), head, dim);
        }
        int64_t block = slots[r] / block_size, offset = slots[r] % block_size;
        T *k = kv + ((block * 2) * block_size + offset) * kv_heads * dim;
        T *v = k + block_size * kv_heads * dim;
        for (int64_t h = 0; h < heads; h++) FN(rotate)(x + h * dim, angles, out + (r * heads + h) * dim, (int)dim);
        for (int64_t h = 0; h < kv_heads; h++) FN(rotate)(x + (heads + h) * dim, angles, k + h * dim, (int)dim);
        memcpy(v, x + (heads + kv_heads) * dim, (size_t)(kv_heads * dim) * sizeof(T));
    }
}

/* Heads of a run of tokens as fp32: they are read once for each head of a group. */
INLINE void FN(widen)(const T *const *tokens, size_t at, float *run, int count, const int dim) {
    for (int t = 0; t < count; t++)
        for (int i = 0; i < dim; i += LANES) store_f32(run + t * dim + i, LOAD(tokens[t] + at + i));
}

/* One part of one request's context, for all heads; result as Decode.partial says. Online softmax
 * (Milakov and Gimelshein, arXiv 1805.02867) over runs of tokens. */
INLINE void FN(attend)(const Decode *d, const T *q, const T *kv, int part, const int dim) {
    const int request = d->part_request[part], group = d->heads / d->kv_heads, vectors = dim / LANES;
    const int size = d->block_size, stop = d->part_stop[part], stride = dim + 2;
    const int32_t *blocks = d->kv_indices + d->kv_indptr[request];
    const size_t token = (size_t)d->kv_heads * dim, half = token * size;
    const T *queries = q + (size_t)d->rows[request] * d->heads * dim;
    const float scale = 1.0f / __builtin_sqrtf((float)dim);
    float *partial = d->partial + (size_t)part * d->heads * stride;
    for (int h = 0; h < d->heads; h++) {
        memset(partial + h * stride, 0, sizeof(float) * (size_t)stride);
        partial[h * stride + dim] = -__builtin_inff();
    }
    for (int start = d->part_start[part]; start < stop; start += RUN) {
        const int count = stop - start < RUN ? stop - start : RUN;
        const T *keys[RUN];
        for (int t = 0, block = start / size, offset = start % size; t < count; t++) {
            keys[t] = kv + (size_t)blocks[block] * 2 * half + (size_t)offset * token;
            if (++offset == size) offset = 0, block++;
        }
        float scores[group * RUN], run[RUN * dim];
        for (int head = 0; head < d->kv_heads; head++) {
            FN(widen)(keys, (size_t)head * dim, run, count, dim);
            for (int g = 0; g < group; g++) {
                const T *from = queries + (head * group + g) * dim;
                vfloat query[dim / LANES];
                for (int i = 0; i < vectors; i++) query[i] = LOAD(from + i * LANES) * scale;
                for (int t = 0; t < count; t++) {
                    vfloat product = query[0] * load_f32(run + t * dim);
                    for (int i = 1; i < vectors; i++) product += query[i] * load_f32(run + t * dim + i * LANES);
                    scores[g * RUN + t] = sum(product);
                }
                for (int t = count; t < RUN; t++) scores[g * RUN + t] = -__builtin_inff();
            }
            FN(widen)(keys, half + (size_t)head * dim, run, count, dim);
            for (int g = 0; g < group; g++)
                soften(scores + g * RUN, run, partial + (head * group + g) * stride, count, dim);
        }
    }
}

/* Attention of the requests with one query row: q and out [rows, heads, dim]. The parts of a request
 * stand one after another and are joined in that order, so that threads don't change the result. */
void FN(paged_decode)(const Decode *d, const T *q, const T *kv, T *out) {
    const int dim = d->head_dim;
#pragma omp parallel for schedule(dynamic, 1) if (d->parts > 1)
    for (int part = 0; part < d->parts; part++) {
        if (dim == 64)
            FN(attend)(d, q, kv, part, 64);
        else if (dim == 128)
            FN(attend)(d, q, kv, part, 128);
        else
            FN(attend)(d, q, kv, part, dim);
    }
    for (int first = 0; first < d->parts;) {
        int request = d->part_request[first], last = first;
        while (last < d->parts && d->part_request[last] == request) last++;
        for (int h = 0; h < d->heads; h++) {
            float most = -__builtin_inff(), mass = 0;
            for (int part = first; part < last; part++) {
                const float *p = d->partial + ((size_t)part * d->heads + h) * (dim + 2);
                most = p[dim] > most ? p[dim] : most;
            }
            float factors[last - first];
            for (int part = first; part < last; part++) {
                const float *p = d->partial + ((size_t)part * d->heads + h) * (dim + 2);
                factors[part - first] = vexp(splat(p[dim] - most))[0];
                mass += factors[part - first] * p[dim + 1];
            }
            for (int i = 0; i < dim; i += LANES) {
                vfloat total = {0};
                for (int part = first; part < last; part++) {
                    const float *p = d->partial + ((size_t)part * d->heads + h) * (dim + 2);
                    total += load_f32(p + i) * factors[part - first];
                }
                STORE(out + ((size_t)d->rows[request] * d->heads + h) * dim + i, total / mass);
            }
        }
        first = last;
    }
}

#define GROUP 32

/* weight [rows, columns] as 4-bit codes [rows, columns] and scales [columns / 32, rows, 2]: step, value of
 * code 8 (model/quantise.py). */
void FN(codes4)(const T *weight, int32_t *codes, float *scales, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = 0; at < columns; at += GROUP) {
            float x[GROUP], low, high;
            for (int i = 0; i < GROUP; i++) x[i] = LOAD1(weight + r * columns + at + i);
            low = high = x[0];
            for (int i = 1; i < GROUP; i++) {
                low = x[i] < low ? x[i] : low;
                high = x[i] > high ? x[i] : high;
            }
            float step = (high - low) / 15.0f;
            step = step < 1e-12f ? 1e-12f : step;
            for (int i = 0; i < GROUP; i++) {
                int32_t code = (int32_t)__builtin_rintf((x[i] - low) / step);
                codes[r * columns + at + i] = code > 15 ? 15 : code;
            }
            float *pair = scales + ((at / GROUP) * rows + r) * 2;
            pair[0] = step;
            pair[1] = low + 8.0f * step;
        }
}

/* weight [rows, columns] as signed 8-bit codes with one scale [rows] a row. */
void FN(codes8)(const T *weight, int8_t *codes, float *scales, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) {
        const T *x = weight + r * columns;
        float most = 0;
        for (int64_t i = 0; i < columns; i++) {
            float size = __builtin_fabsf(LOAD1(x + i));
            most = size > most ? size : most;
        }
        float step = most / 127.0f;
        step = step < 1e-12f ? 1e-12f : step;
        for (int64_t i = 0; i < columns; i++) codes[r * columns + i] = (int8_t)__builtin_rintf(LOAD1(x + i) / step);
        scales[r] = step;
    }
}

#undef GROUP
#undef FN
#undef LOAD
#undef LOAD1
#undef STORE
#undef STORE1
