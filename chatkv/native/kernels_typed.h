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

#include "attend_typed.h"

/* weight [rows, columns] as 4-bit codes [rows, columns] and scales [columns / 32, rows, 2]: step, value of
 * code 8 (model/quantise.py). */
void FN(codes4)(const T *weight, int32_t *codes, float *scales, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = 0; at < columns; at += GROUP) {
            float x[GROUP], low, step;
            for (int i = 0; i < GROUP; i++) x[i] = LOAD1(weight + r * columns + at + i);
            group_range(x, &low, &step);
            for (int i = 0; i < GROUP; i++) codes[r * columns + at + i] = code4(x[i], low, step);
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

#undef FN
#undef LOAD
#undef LOAD1
#undef STORE
#undef STORE1
