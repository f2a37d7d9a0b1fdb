/* Products of bf16 matrices whose right side lies in pairs: two rows of it side by side in one 32-bit word.
 *
 * Right side ("pairs"): columns in strips of 16; word [pair][column] holds rows 2 * pair (low half) and
 * 2 * pair + 1 of that column. That is what AMX and avx512_bf16 multiply by; elsewhere words are taken apart. */
#pragma once
#include "vectors.h"

#define STRIP 16 /* columns of a strip, and what rows and pairs are multiples of in products */

typedef struct {
    const uint32_t *words; /* of the first strip */
    int64_t strip; /* words from one strip to the next */
    int64_t pair; /* words from one pair of rows to the next */
} Pairs;

INLINE vfloat low_half(vword words) { return (vfloat)(words << 16); }
INLINE vfloat high_half(vword words) { return (vfloat)(words & 0xFFFF0000u); }

INLINE vword load_words(const uint32_t *p) {
    vword x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* total + low(a) * low(b) + high(a) * high(b), where a is one word for all lanes. */
INLINE vfloat dot_pair(vfloat total, uint32_t a, vword b) {
#ifdef __AVX512BF16__
    return (vfloat)_mm512_dpbf16_ps((__m512)total, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
#else
    vword all = a - (vword){0};
    return total + low_half(all) * low_half(b) + high_half(all) * high_half(b);
#endif
}

#define CORNER (BYTES == 64 ? 6 : 2) /* rows whose totals fit the registers, with four vectors each */

/* c [rows, columns] (+)= a [rows, 2 * pairs] x b, for few rows and vectors of columns. */
INLINE void pairs_corner(const bf16 *a, int64_t lda, Pairs b, int64_t column, float *c, int64_t ldc, const int rows,
                         const int vectors, int pairs, int add) {
    vfloat total[CORNER][4];
    const uint32_t *at[4];
    UNROLLED for (int v = 0; v < vectors; v++) {
        int64_t first = column + v * LANES;
        at[v] = b.words + first / STRIP * b.strip + first % STRIP;
        UNROLLED for (int r = 0; r < rows; r++) total[r][v] = add ? load_f32(c + r * ldc + first) : (vfloat){0};
    }
    for (int p = 0; p < pairs; p++) {
        vword words[4];
        UNROLLED for (int v = 0; v < vectors; v++) words[v] = load_words(at[v] + p * b.pair);
        UNROLLED for (int r = 0; r < rows; r++) {
            uint32_t x;
            memcpy(&x, a + r * lda + 2 * p, 4);
            UNROLLED for (int v = 0; v < vectors; v++) total[r][v] = dot_pair(total[r][v], x, words[v]);
        }
    }
    UNROLLED for (int v = 0; v < vectors; v++) {
        UNROLLED for (int r = 0; r < rows; r++) store_f32(c + r * ldc + column + v * LANES, total[r][v]);
    }
}

INLINE void pairs_columns(const bf16 *a, int64_t lda, Pairs b, int64_t column, float *c, int64_t ldc, int rows,
                          const int vectors, int pairs, int add) {
    int m = 0;
    for (; m + CORNER <= rows; m += CORNER)
        pairs_corner(a + m * lda, lda, b, column, c + m * ldc, ldc, CORNER, vectors, pairs, add);
    for (; m < rows; m++) pairs_corner(a + m * lda, lda, b, column, c + m * ldc, ldc, 1, vectors, pairs, add);
}

#ifdef __AMX_BF16__
#include <sys/syscall.h>
#include <unistd.h>

/* The compiler does not know what the tiles' instructions read. */
#define WRITTEN() __asm__ volatile("" ::: "memory")

/* Linux gives a process the tile registers when it asks for them. */
static int tiles_granted(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64))) TileConfig;

/* All eight tiles as 16 rows of 64 bytes; what the thread had before goes into `before`. */
INLINE void tiles_begin(TileConfig *before) {
    TileConfig config = {.palette = 1};
    for (int t = 0; t < 8; t++) config.bytes[t] = 64, config.rows[t] = 16;
    _tile_storeconfig(before);
    WRITTEN();
    _tile_loadconfig(&config);
}

INLINE void tiles_end(const TileConfig *before) {
    if (before->palette)
        _tile_loadconfig(before);
    else
        _tile_release();
}

/* As pairs_product; rows and columns in multiples of 32, pairs in multiples of 16. */
INLINE void pairs_tiles(const bf16 *a, int64_t lda, Pairs b, float *c, int64_t ldc, int rows, int columns, int pairs,
                        int add) {
    WRITTEN();
    for (int n = 0; n < columns; n += 32) {
        const uint32_t *b0 = b.words + n / STRIP * b.strip, *b1 = b0 + b.strip;
        for (int m = 0; m < rows; m += 32) {
            float *c0 = c + m * ldc + n, *c1 = c0 + 16 * ldc;
            const bf16 *a0 = a + m * lda, *a1 = a0 + 16 * lda;
            if (add) {
                _tile_loadd(0, c0, ldc * 4);
                _tile_loadd(1, c0 + 16, ldc * 4);
                _tile_loadd(2, c1, ldc * 4);
                _tile_loadd(3, c1 + 16, ldc * 4);
            } else {
                _tile_zero(0);
                _tile_zero(1);
                _tile_zero(2);
                _tile_zero(3);
            }
            for (int p = 0; p < pairs; p += 16) {
                _tile_loadd(6, b0 + p * b.pair, b.pair * 4);
                _tile_loadd(4, a0 + 2 * p, lda * 2);
                _tile_dpbf16ps(0, 4, 6);
                _tile_loadd(7, b1 + p * b.pair, b.pair * 4);
                _tile_dpbf16ps(1, 4, 7);
                _tile_loadd(5, a1 + 2 * p, lda * 2);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, c0, ldc * 4);
            _tile_stored(1, c0 + 16, ldc * 4);
            _tile_stored(2, c1, ldc * 4);
            _tile_stored(3, c1 + 16, ldc * 4);
        }
    }
}
#endif

/* c [rows, columns] = (or, with add, +=) a [rows, 2 * pairs] x b; columns in multiples of 32, pairs of 16.
 * The rows up to the next multiple of 32 must be there, in a and in c: they may be computed too. */
INLINE void pairs_product(const bf16 *a, int64_t lda, Pairs b, float *c, int64_t ldc, int rows, int columns, int pairs,
                          int add) {
#ifdef __AMX_BF16__
    pairs_tiles(a, lda, b, c, ldc, (rows + 31) / 32 * 32, columns, pairs, add);
#else
    int n = 0;
    for (; n + 4 * LANES <= columns; n += 4 * LANES)
        pairs_columns(a, lda, b, n, c, ldc, rows, 4, pairs, add);
    for (; n < columns; n += 2 * LANES) pairs_columns(a, lda, b, n, c, ldc, rows, 2, pairs, add);
#endif
}
