/* Attention of many query rows over the block table, bf16: tiles of queries against runs of keys with an
 * online softmax (FlashAttention-2, arXiv 2307.08691). Keys and values are laid out for the products once
 * a call; the heads of a group are rows of one tile. */
#pragma once
#include "pairs.h"

#define TILE_ROWS 64
#define KEYS 256 /* a run: scores of a tile and its values stay in the second-level cache */

/* One request. */
typedef struct {
    const int32_t *blocks; /* physical ids in logical order */
    uint32_t *packed; /* scratch: 64-byte aligned, kv_heads * 2 * keys * head_dim / 2 words, where keys is
                         length up to the next multiple of 32 */
    int32_t rows; /* new tokens: the last ones */
    int32_t length; /* tokens in all */
    int32_t heads, kv_heads, head_dim, block_size;
} Prefill;

/* 2^x for x <= 0, relative error under 1e-4 (bf16 keeps 2e-3 of it); about 0 below -126. */
INLINE vfloat power2(vfloat x) {
#if BYTES == 64
    vfloat part = (vfloat)_mm512_reduce_ps((__m512)x, 9); /* x - floor(x) */
    vfloat z = splat(7.802452e-2f);
    z = z * part + 2.2606716e-1f;
    z = z * part + 6.9583356e-1f;
    z = z * part + 9.999252e-1f;
    return (vfloat)_mm512_scalef_ps((__m512)z, (__m512)x);
#else
    x = vmax(x, splat(-126.0f));
    vint whole = __builtin_convertvector(x - 0.5f, vint);
    x = x - __builtin_convertvector(whole, vfloat);
    vfloat y = splat(9.55411e-3f);
    y = y * x + 5.587038e-2f;
    y = y * x + 2.4024696e-1f;
    y = y * x + 6.9312803e-1f;
    y = y * x + 0.99999944f;
    return (vfloat)((vint)y + (whole << 23));
#endif
}

/* Strips of 16 keys with pairs of dimensions, and strips of 16 dimensions with pairs of keys. */
static void pack_keys(const Prefill *p, const bf16 *kv, int head, int first, uint32_t *k_words, uint32_t *v_words) {
    const int dim = p->head_dim, pairs = dim / 2, size = p->block_size;
    const size_t token = (size_t)p->kv_heads * dim, half = token * size;
    bf16 *v_out = (bf16 *)(v_words + (size_t)first / 2 * dim);
    for (int t = 0; t < 32; t++) {
        const int at = first + t;
        uint32_t *k_out = k_words + (size_t)(at / STRIP) * pairs * STRIP + at % STRIP;
        bf16 *v_row = v_out + (size_t)(t / 2) * 2 * dim + t % 2;
        if (at >= p->length) {
            for (int i = 0; i < pairs; i++) k_out[i * STRIP] = 0;
            for (int i = 0; i < dim; i++) v_row[2 * i] = 0;
            continue;
        }
        const bf16 *k = kv + (size_t)p->blocks[at / size] * 2 * half + (size_t)(at % size) * token + (size_t)head * dim;
        const bf16 *v = k + half;
        for (int i = 0; i < pairs; i++) {
            uint32_t word;
            memcpy(&word, k + 2 * i, 4);
            k_out[i * STRIP] = word;
        }
        for (int i = 0; i < dim; i++) v_row[2 * i] = v[i];
    }
}

/* Scores [KEYS] of one row, the first `seen` of them visible, to weights [KEYS]: relative to `most`, base 2. */
INLINE float weigh(const float *scores, bf16 *weights, int count, int seen, float scale, float *most, float *shrink) {
    vfloat highest = splat(-__builtin_inff());
    int t = 0;
    for (; t + LANES <= seen; t += LANES) highest = vmax(highest, load_f32(scores + t));
    float top = largest(highest);
    for (; t < seen; t++) top = scores[t] > top ? scores[t] : top;
    top *= scale;
    top = top > *most ? top : *most;
    *shrink = power2(splat(*most - top))[0];
    *most = top;
    vfloat mass = {0};
    for (t = 0; t + LANES <= seen; t += LANES) {
        vfloat weight = power2(load_f32(scores + t) * scale - top);
        mass += weight;
        store_bf16(weights + t, weight);
    }
    float total = sum(mass);
    if (t < seen) {
        vfloat weight = power2(load_f32(scores + t) * scale - top);
        for (int i = 0; t + i < seen; i++) {
            store1_bf16(weights + t + i, weight[i]);
            total += weight[i];
        }
        t = seen;
    }
    memset(weights + t, 0, (size_t)(count - t) * sizeof(bf16));
    return total;
}

/* A tile: rows first … first + count of the request's [rows, group] queries of one head of KV. */
static void prefill_tile(const Prefill *p, const bf16 *q, bf16 *out, int head, int first, int count) {
    const int dim = p->head_dim, group = p->heads / p->kv_heads, cached = p->length - p->rows;
    const size_t keys = (size_t)(p->length + 31) / 32 * 32, width = (size_t)p->heads * dim;
    const uint32_t *k_words = p->packed + (size_t)head * keys * dim, *v_words = k_words + keys * dim / 2;
    const float scale = 1.44269504f / __builtin_sqrtf((float)dim);
    float scores[TILE_ROWS * KEYS] __attribute__((aligned(64)));
    bf16 weights[TILE_ROWS * KEYS] __attribute__((aligned(64)));
    float totals[TILE_ROWS * dim] __attribute__((aligned(64)));
    bf16 queries[TILE_ROWS * dim] __attribute__((aligned(64)));
    float most[TILE_ROWS], mass[TILE_ROWS], shrink;
    const int padded = (count + 31) / 32 * 32;
    for (int r = 0; r < padded; r++) {
        const int row = (first + r) / group, g = (first + r) % group;
        if (r < count)
            memcpy(queries + r * dim, q + row * width + (size_t)(head * group + g) * dim, (size_t)dim * sizeof(bf16));
        else
            memset(queries + r * dim, 0, (size_t)dim * sizeof(bf16));
        memset(totals + r * dim, 0, (size_t)dim * sizeof(float));
        most[r] = -__builtin_inff();
        mass[r] = 0;
    }
    const int limit = cached + (first + count - 1) / group + 1;
    for (int start = 0; start < limit; start += KEYS) {
        const int visible = limit - start < KEYS ? limit - start : KEYS, run = (visible + 31) / 32 * 32;
        pairs_product(queries, dim, (Pairs){k_words + (size_t)start * dim / 2, dim / 2 * STRIP, STRIP}, scores, KEYS,
                      count, run, dim / 2, 0);
        for (int r = 0; r < count; r++) {
            int seen = cached + (first + r) / group + 1 - start;
            seen = seen < 0 ? 0 : seen < run ? seen : run;
            float more = weigh(scores + r * KEYS, weights + r * KEYS, run, seen, scale, most + r, &shrink);
            mass[r] = mass[r] * shrink + more;
            if (start && shrink != 1.0f)
                for (int i = 0; i < dim; i += LANES) store_f32(totals + r * dim + i, load_f32(totals + r * dim + i) * shrink);
        }
        pairs_product(weights, KEYS, (Pairs){v_words + (size_t)start / 2 * dim, STRIP, dim}, totals, dim, count, dim,
                      run / 2, 1);
    }
    for (int r = 0; r < count; r++) {
        bf16 *o = out + (first + r) / group * width + (size_t)(head * group + (first + r) % group) * dim;
        for (int i = 0; i < dim; i += LANES) store_bf16(o + i, load_f32(totals + r * dim + i) / mass[r]);
    }
}

/* By all threads of a team. q and out: [rows, heads, head_dim], the request's new tokens; head_dim a multiple
 * of 32. */
static void prefill_in_team(const Prefill *p, const bf16 *q, const bf16 *kv, bf16 *out) {
    const int steps = (p->length + 31) / 32, rows = p->rows * (p->heads / p->kv_heads);
    const int tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    const size_t words = (size_t)steps * 32 * p->head_dim;
#pragma omp for schedule(static)
    for (int task = 0; task < steps * p->kv_heads; task++) {
        uint32_t *k_words = p->packed + (size_t)(task / steps) * words;
        pack_keys(p, kv, task / steps, task % steps * 32, k_words, k_words + words / 2);
    }
#ifdef __AMX_BF16__
    TileConfig before;
    tiles_begin(&before);
#endif
    /* The longest first, so that the threads end together. */
#pragma omp for schedule(dynamic, 1)
    for (int task = 0; task < tiles * p->kv_heads; task++) {
        const int first = (tiles - 1 - task / p->kv_heads) * TILE_ROWS;
        const int count = rows - first < TILE_ROWS ? rows - first : TILE_ROWS;
        prefill_tile(p, q, out, task % p->kv_heads, first, count);
    }
#ifdef __AMX_BF16__
    tiles_end(&before);
#endif
}

void paged_prefill(const Prefill *p, const bf16 *q, const bf16 *kv, bf16 *out) {
#pragma omp parallel
    prefill_in_team(p, q, kv, out);
}
