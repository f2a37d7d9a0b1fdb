/* Products of many rows of bf16 activations with weights, by AMX tiles. What is done with the results is part of
 * the product: adding to the residual, the gate. */
#pragma once
#include "prefill.h"

#ifdef __AMX_BF16__

#define SIDE 32 /* rows and columns that are multiplied at a time: two tiles by two */
#define BRICK (SIDE * SIDE) /* elements of 32 rows and 32 columns, a row after another */
#define STEP_WORDS (2 * STRIP * STRIP) /* words of two strips of weights and 16 pairs */
#define PART_STEPS 18 /* bricks of weights that stay in the first-level cache while all rows pass */

/* Weights [rows, 32 * depth] in strips of 16 rows (columns of the product), two strips by 16 pairs at a time:
 * [blocks][depth][2][16 pairs][16]. A product reads them as one stream. */
typedef struct {
    const uint32_t *words;
    const float *bias; /* [32 * blocks] in the strips' order, or NULL */
    int32_t blocks, depth;
} Panel;

/* 32 rows by 32 columns of activations are found at at + m * block + k * step, a row `row` bytes from the next. */
typedef struct {
    const bf16 *at;
    int64_t block, step, row;
} Left;

INLINE Left bricks(const bf16 *at, int depth) { return (Left){at, (int64_t)depth * BRICK, BRICK, SIDE * 2}; }

/* 1 / x, relative error under 1e-4. */
INLINE vfloat reciprocal(vfloat x) { return (vfloat)_mm512_rcp14_ps((__m512)x); }

enum { STORE_ROWS, ADD_ROWS, GATE_ROWS };

/* Row `row` of block `j` of a product, c [32], to where it goes: fp32 rows [width] written or added to, or
 * silu(gate) * up into bricks. */
INLINE void wide_row(const int kind, void *out, int64_t width, const float *bias, int j, int64_t row, const float *c) {
    vfloat a = load_f32(c), b = load_f32(c + STRIP);
    if (bias) {
        a += load_f32(bias + j * SIDE);
        b += load_f32(bias + j * SIDE + STRIP);
    }
    if (kind == GATE_ROWS) {
        bf16 *brick = (bf16 *)out + (row / SIDE * (width / SIDE) + j / 2) * BRICK;
        vfloat sigmoid = reciprocal(power2(a * -1.44269504f) + 1.0f);
        store_bf16(brick + row % SIDE * SIDE + j % 2 * STRIP, a * sigmoid * b);
        return;
    }
    float *o = (float *)out + row * width + j * SIDE;
    store_f32(o, kind == ADD_ROWS ? load_f32(o) + a : a);
    store_f32(o + STRIP, kind == ADD_ROWS ? load_f32(o + STRIP) + b : b);
}

/* a [rows, 32 * depth] x p, with c [rows up to 32s, 32] to add up in. A part of the depth at a time, so that the
 * weights stay in the first-level cache while all rows pass, which must not drive them out (hence "stream"); each
 * block's results are taken where they go while the tiles multiply the next. */
INLINE void wide_product(Left a, const Panel *p, int rows, float *c, const int kind, void *out, int64_t width) {
    const int depth = p->depth, blocks = (rows + SIDE - 1) / SIDE, parts = (depth + PART_STEPS - 1) / PART_STEPS;
    const int part = (depth + parts - 1) / parts;
    const float *done = c;
    int done_j = 0, done_rows = 0;
    int64_t done_first = 0;
    WRITTEN();
    for (int j = 0; j < p->blocks; j++)
        for (int start = 0; start < depth; start += part) {
            const int steps = depth - start < part ? depth - start : part, share = (SIDE + steps - 1) / steps;
            const uint32_t *b = p->words + ((int64_t)j * depth + start) * STEP_WORDS;
            const uint32_t *next = b + (int64_t)depth * STEP_WORDS;
            for (int m = 0; m < blocks; m++) {
                const bf16 *left = a.at + m * a.block + start * a.step;
                float *to = c + m * BRICK;
                const int line = m * SIDE / blocks, lines = (m + 1) * SIDE / blocks;
                if (start) {
                    _tile_loadd(0, to, SIDE * 4);
                    _tile_loadd(1, to + STRIP, SIDE * 4);
                    _tile_loadd(2, to + 16 * SIDE, SIDE * 4);
                    _tile_loadd(3, to + 16 * SIDE + STRIP, SIDE * 4);
                } else {
                    _tile_zero(0);
                    _tile_zero(1);
                    _tile_zero(2);
                    _tile_zero(3);
                }
                for (int k = 0; k < steps; k++) {
                    const bf16 *x = left + k * a.step;
                    const uint32_t *w = b + k * STEP_WORDS;
                    _tile_loadd(6, w, 64);
                    _tile_stream_loadd(4, x, a.row);
                    _tile_dpbf16ps(0, 4, 6);
                    _tile_loadd(7, w + STEP_WORDS / 2, 64);
                    _tile_dpbf16ps(1, 4, 7);
                    _tile_stream_loadd(5, (const char *)x + 16 * a.row, a.row);
                    _tile_dpbf16ps(2, 5, 6);
                    _tile_dpbf16ps(3, 5, 7);
                    /* The next weights come from memory meanwhile. */
                    for (int i = line; i < lines; i++)
                        __builtin_prefetch(next + k * STEP_WORDS + i * STRIP, 0, 2);
                    const int last = (k + 1) * share < done_rows ? (k + 1) * share : done_rows;
                    for (int r = k * share; r < last; r++)
                        wide_row(kind, out, width, p->bias, done_j, done_first + r, done + r * SIDE);
                }
                _tile_stored(0, to, SIDE * 4);
                _tile_stored(1, to + STRIP, SIDE * 4);
                _tile_stored(2, to + 16 * SIDE, SIDE * 4);
                _tile_stored(3, to + 16 * SIDE + STRIP, SIDE * 4);
                done_rows = 0;
                if (start + steps < depth) continue;
                done = to, done_j = j, done_first = m * SIDE;
                done_rows = rows - m * SIDE < SIDE ? rows - m * SIDE : SIDE;
            }
        }
    for (int r = 0; r < done_rows; r++)
        wide_row(kind, out, width, p->bias, done_j, done_first + r, done + r * SIDE);
}

/* Strips of weight [rows, columns] (multiples of 32) as a Panel has them; `order` [rows / 16]: which stands where. */
void pack_panel(const bf16 *weight, const int32_t *order, uint32_t *words, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t strip = 0; strip < rows / STRIP; strip++)
        for (int64_t k = 0; k < columns / SIDE; k++) {
            uint32_t *out = words + ((strip / 2 * (columns / SIDE) + k) * 2 + strip % 2) * STRIP * STRIP;
            const bf16 *from = weight + (int64_t)order[strip] * STRIP * columns + k * SIDE;
            __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            lanes = _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)columns * 2));
            for (int pair = 0; pair < STRIP; pair++)
                _mm512_storeu_si512(out + pair * STRIP, _mm512_i32gather_epi32(lanes, from + pair * 2, 1));
        }
}

/* The other way round. */
void unpack_panel(const uint32_t *words, const int32_t *order, bf16 *weight, int64_t rows, int64_t columns) {
#pragma omp parallel for
    for (int64_t strip = 0; strip < rows / STRIP; strip++)
        for (int64_t k = 0; k < columns / SIDE; k++) {
            const uint32_t *from = words + ((strip / 2 * (columns / SIDE) + k) * 2 + strip % 2) * STRIP * STRIP;
            bf16 *to = weight + (int64_t)order[strip] * STRIP * columns + k * SIDE;
            for (int lane = 0; lane < STRIP; lane++)
                for (int pair = 0; pair < STRIP; pair++)
                    memcpy(to + lane * columns + pair * 2, from + pair * STRIP + lane, 4);
        }
}
#endif
