/* Weights in 4 or 8 bits times a few rows of activations in 16 bits.
 *
 * Activations are rounded to 16 bits with one scale for each group of 32 columns, which is finer than bf16;
 * products are whole numbers. Weights stand in strips of 16 rows, one row a lane, group after group, so that
 * a product reads them as one stream:
 *   4 bits: a group is 16 words of 8 codes, four times, then 16 steps and 16 values of code 8 (bf16);
 *   8 bits: a group is 16 words of 4 codes, eight times; one step a row (fp32) stands apart. */
#pragma once
#include "vectors.h"

#define GROUP 32
#define LANE_ROWS 16 /* rows of a strip */
#define SHARE (LANE_ROWS / LANES) /* registers that hold one value for each row of a strip */
#define GROUP4 (LANE_ROWS * GROUP / 2 + 2 * LANE_ROWS * 2) /* bytes of a group of a strip */
#define GROUP8 (LANE_ROWS * GROUP)
#define AHEAD 2048 /* bytes of the stream that are asked for before they are used */
#define MOST 4 /* rows of activations that share one reading of the weights */

typedef struct {
    const uint8_t *codes;
    const float *steps; /* 8 bits: [rows up to the next multiple of 16] */
    const float *bias; /* [rows] or NULL */
    int32_t rows, columns, bits, reserved;
} Packed;

/* Activations: [rows, columns] and, for each row and group, what a group's sum needs. */
typedef struct {
    int16_t *values;
    float *scales; /* a group's step */
    float *sums; /* a group's sum */
    int32_t *offsets; /* -8 times the sum of a group's whole numbers */
} Rounded;

typedef int16_t vshort __attribute__((vector_size(BYTES)));

/* total + low halves' product + high halves' product, a lane. */
INLINE vint dot_halves(vint total, vint weights, int32_t activations) {
    vint all = activations - (vint){0};
#if defined(__AVX512VNNI__)
    return (vint)_mm512_dpwssd_epi32((__m512i)total, (__m512i)weights, (__m512i)all);
#elif defined(__AVX512BW__)
    return total + (vint)_mm512_madd_epi16((__m512i)weights, (__m512i)all);
#elif defined(__AVXVNNI__)
    return (vint)_mm256_dpwssd_avx_epi32((__m256i)total, (__m256i)weights, (__m256i)all);
#elif defined(__AVX2__)
    return total + (vint)_mm256_madd_epi16((__m256i)weights, (__m256i)all);
#elif defined(__SSE2__)
    return total + (vint)_mm_madd_epi16((__m128i)weights, (__m128i)all);
#elif defined(__aarch64__)
    const int16x8_t w = (int16x8_t)weights, a = (int16x8_t)all;
    return total + (vint)vpaddq_s32(vmull_s16(vget_low_s16(w), vget_low_s16(a)), vmull_high_s16(w, a));
#else
    return total + ((weights << 16) >> 16) * ((all << 16) >> 16) + (weights >> 16) * (all >> 16);
#endif
}

INLINE vint load_lanes(const void *p) {
    vint x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* x [GROUP] into group `group` of row `row`, of rows with `groups` groups. */
INLINE void round_group(const float *x, Rounded out, int64_t row, int64_t groups, int64_t group) {
    vfloat most = {0};
    for (int i = 0; i < GROUP; i += LANES) {
        vfloat v = load_f32(x + i);
        most = vmax(most, vmax(v, -v));
    }
    const float step = largest(most) / 32767.0f, inverse = step > 1e-30f ? 1.0f / step : 0;
    const int64_t at = row * groups + group;
    int16_t *values = out.values + at * GROUP;
    vint total = {0};
    for (int i = 0; i < GROUP; i += LANES) {
        vfloat v = load_f32(x + i) * inverse;
        vint half = ((vint)v & (vint)splat(-0.0f)) | (vint)splat(0.5f);
        vint whole = __builtin_convertvector(v + (vfloat)half, vint);
        total += whole;
        typedef int16_t vnarrow __attribute__((vector_size(BYTES / 2)));
        vnarrow narrow = __builtin_convertvector(whole, vnarrow);
        memcpy(values + i, &narrow, sizeof narrow);
    }
    int32_t sum = 0;
    for (int i = 0; i < LANES; i++) sum += total[i];
    out.scales[at] = step;
    out.sums[at] = step * (float)sum;
    out.offsets[at] = -8 * sum;
}

/* A processor's own prefetching ends with the page; this stream goes on. */
INLINE void fetch_ahead(const uint8_t *codes, int bytes) {
    UNROLLED for (int i = 0; i < bytes; i += 64) __builtin_prefetch(codes + AHEAD + i);
}

/* Products of one strip with `rows` rows of x from `first` on, into totals [rows][SHARE]. */
INLINE void strip4(const uint8_t *codes, Rounded x, int64_t first, const int rows, int groups,
                   vfloat totals[MOST][SHARE]) {
    const vint mask = 0x000F000F - (vint){0};
    UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int h = 0; h < SHARE; h++) totals[r][h] = (vfloat){0};
    for (int g = 0; g < groups; g++, codes += GROUP4) {
        fetch_ahead(codes, GROUP4);
        const bf16 *pair = (const bf16 *)(codes + LANE_ROWS * GROUP / 2);
        UNROLLED for (int h = 0; h < SHARE; h++) {
            vint sums[MOST];
            UNROLLED for (int r = 0; r < rows; r++) sums[r] = x.offsets[(first + r) * groups + g] - (vint){0};
            UNROLLED for (int c = 0; c < 4; c++) {
                vint words = load_lanes(codes + c * 64 + h * BYTES);
                vint parts[4] = {words & mask, (words >> 4) & mask, (words >> 8) & mask, (words >> 12) & mask};
                UNROLLED for (int p = 0; p < 4; p++)
                    UNROLLED for (int r = 0; r < rows; r++) {
                        int32_t two;
                        memcpy(&two, x.values + ((first + r) * groups + g) * GROUP + c * 8 + p * 2, 4);
                        sums[r] = dot_halves(sums[r], parts[p], two);
                    }
            }
            vfloat steps = load_bf16(pair + h * LANES), middles = load_bf16(pair + LANE_ROWS + h * LANES);
            UNROLLED for (int r = 0; r < rows; r++) {
                int64_t at = (first + r) * groups + g;
                totals[r][h] += __builtin_convertvector(sums[r], vfloat) * (steps * x.scales[at]) + middles * x.sums[at];
            }
        }
    }
}

INLINE void strip8(const uint8_t *codes, const float *steps, Rounded x, int64_t first, const int rows, int groups,
                   vfloat totals[MOST][SHARE]) {
    UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int h = 0; h < SHARE; h++) totals[r][h] = (vfloat){0};
    for (int g = 0; g < groups; g++, codes += GROUP8) {
        fetch_ahead(codes, GROUP8);
        UNROLLED for (int h = 0; h < SHARE; h++) {
            vint sums[MOST];
            UNROLLED for (int r = 0; r < rows; r++) sums[r] = (vint){0};
            UNROLLED for (int c = 0; c < 8; c++) {
                vshort words = (vshort)load_lanes(codes + c * 64 + h * BYTES);
                vint parts[2] = {(vint)((words << 8) >> 8), (vint)(words >> 8)};
                UNROLLED for (int p = 0; p < 2; p++)
                    UNROLLED for (int r = 0; r < rows; r++) {
                        int32_t two;
                        memcpy(&two, x.values + ((first + r) * groups + g) * GROUP + c * 4 + p * 2, 4);
                        sums[r] = dot_halves(sums[r], parts[p], two);
                    }
            }
            UNROLLED for (int r = 0; r < rows; r++)
                totals[r][h] += __builtin_convertvector(sums[r], vfloat) * x.scales[(first + r) * groups + g];
        }
    }
    UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int h = 0; h < SHARE; h++) totals[r][h] *= load_f32(steps + h * LANES);
}

INLINE void strip_rows(const Packed *w, int64_t strip, Rounded x, int64_t first, const int rows, float *out,
                       int64_t stride) {
    const int groups = w->columns / GROUP;
    vfloat totals[MOST][SHARE];
    if (w->bits == 4)
        strip4(w->codes + strip * groups * GROUP4, x, first, rows, groups, totals);
    else
        strip8(w->codes + strip * groups * GROUP8, w->steps + strip * LANE_ROWS, x, first, rows, groups, totals);
    UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int h = 0; h < SHARE; h++) store_f32(out + r * stride + h * LANES, totals[r][h]);
    if (w->bias)
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < LANE_ROWS && strip * LANE_ROWS + i < w->rows; i++)
                out[r * stride + i] += w->bias[strip * LANE_ROWS + i];
}

/* Strip `strip` of x [rows, columns] x w: 16 values for each row, `stride` apart in out. */
static void strip_product(const Packed *w, int64_t strip, Rounded x, int rows, float *out, int64_t stride) {
    int r = 0;
    for (; r + 4 <= rows; r += 4) strip_rows(w, strip, x, r, 4, out + r * stride, stride);
    if (rows - r == 3) strip_rows(w, strip, x, r, 3, out + r * stride, stride);
    if (rows - r == 2) strip_rows(w, strip, x, r, 2, out + r * stride, stride);
    if (rows - r == 1) strip_rows(w, strip, x, r, 1, out + r * stride, stride);
}

/* The least of 32 weights, and the step between 16 codes that reach the greatest. */
INLINE void group_range(const float *x, float *low, float *step) {
    float high = *low = x[0];
    for (int i = 1; i < GROUP; i++) {
        *low = x[i] < *low ? x[i] : *low;
        high = larger(x[i], high);
    }
    *step = larger((high - *low) / 15.0f, 1e-12f);
}

INLINE int32_t code4(float x, float low, float step) {
    int32_t code = (int32_t)__builtin_rintf((x - low) / step);
    return code > 15 ? 15 : code;
}

/* weight [rows, columns] (columns a multiple of 32) into codes; the last strip is filled up with zeros. */
void pack4_bf16(const bf16 *weight, uint8_t *codes, int64_t rows, int64_t columns) {
    const int64_t groups = columns / GROUP, strips = (rows + LANE_ROWS - 1) / LANE_ROWS;
#pragma omp parallel for
    for (int64_t strip = 0; strip < strips; strip++)
        for (int64_t g = 0; g < groups; g++) {
            uint8_t *out = codes + (strip * groups + g) * GROUP4;
            bf16 *pair = (bf16 *)(out + LANE_ROWS * GROUP / 2);
            memset(out, 0, GROUP4);
            for (int lane = 0; lane < LANE_ROWS && strip * LANE_ROWS + lane < rows; lane++) {
                float x[GROUP], low, step;
                const bf16 *from = weight + (strip * LANE_ROWS + lane) * columns + g * GROUP;
                for (int i = 0; i < GROUP; i++) x[i] = load1_bf16(from + i);
                group_range(x, &low, &step);
                for (int c = 0; c < 4; c++) {
                    uint32_t word = 0;
                    for (int i = 0; i < 8; i++)
                        word |= (uint32_t)code4(x[c * 8 + i], low, step) << (i % 2 * 16 + i / 2 * 4);
                    memcpy(out + c * 64 + lane * 4, &word, 4);
                }
                store1_bf16(pair + lane, step);
                store1_bf16(pair + LANE_ROWS + lane, low + 8.0f * step);
            }
        }
}

/* The same in 8 bits; steps [rows up to the next multiple of 16]. */
void pack8_bf16(const bf16 *weight, uint8_t *codes, float *steps, int64_t rows, int64_t columns) {
    const int64_t groups = columns / GROUP, strips = (rows + LANE_ROWS - 1) / LANE_ROWS;
#pragma omp parallel for
    for (int64_t strip = 0; strip < strips; strip++)
        for (int lane = 0; lane < LANE_ROWS; lane++) {
            const int64_t row = strip * LANE_ROWS + lane;
            float most = 0;
            if (row < rows)
                for (int64_t i = 0; i < columns; i++) {
                    float size = __builtin_fabsf(load1_bf16(weight + row * columns + i));
                    most = size > most ? size : most;
                }
            float step = most / 127.0f;
            step = step < 1e-12f ? 1e-12f : step;
            steps[row] = step;
            for (int64_t i = 0; i < columns; i++) {
                /* Of four columns, a word's bytes 0 and 2 are the first pair. */
                static const int place[4] = {0, 2, 1, 3};
                uint8_t *out = codes + (strip * groups + i / GROUP) * GROUP8 + i % GROUP / 4 * 64 + lane * 4;
                out[place[i % 4]] =
                    row < rows ? (uint8_t)(int8_t)__builtin_rintf(load1_bf16(weight + row * columns + i) / step) : 0;
            }
        }
}
