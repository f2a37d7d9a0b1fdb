/* A register of floats at a time, in the compiler's own vector types: one source for AVX512, AVX2 and NEON. */
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / 4)
typedef float vfloat __attribute__((vector_size(BYTES)));
typedef int32_t vint __attribute__((vector_size(BYTES)));
typedef uint32_t vword __attribute__((vector_size(BYTES)));
typedef uint16_t vhalf __attribute__((vector_size(BYTES / 2)));
typedef uint16_t bf16;

#define INLINE static inline __attribute__((always_inline))

INLINE vfloat splat(float x) { return x - (vfloat){0}; }

/* bf16 is the upper half of a float. */
INLINE float load1_bf16(const bf16 *p) {
    uint32_t bits = (uint32_t)*p << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* Rounded to nearest even, as torch does; not for NaN, which no step of a sound model makes. */
INLINE void store1_bf16(bf16 *p, float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    *p = (bf16)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

INLINE vfloat load_bf16(const bf16 *p) {
#if BYTES == 64
    return (vfloat)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
#else
    vhalf half;
    memcpy(&half, p, sizeof half);
    return (vfloat)(__builtin_convertvector(half, vword) << 16);
#endif
}

INLINE void store_bf16(bf16 *p, vfloat x) {
#ifdef __AVX512BF16__
    __m256bh half = _mm512_cvtneps_pbh((__m512)x);
#else
    vword bits = (vword)x;
    vhalf half = __builtin_convertvector((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, vhalf);
#endif
    memcpy(p, &half, sizeof half);
}

INLINE float load1_f32(const float *p) { return *p; }
INLINE void store1_f32(float *p, float x) { *p = x; }

INLINE vfloat load_f32(const float *p) {
    vfloat x;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINE void store_f32(float *p, vfloat x) { memcpy(p, &x, sizeof x); }

typedef float vquarter __attribute__((vector_size(16)));

INLINE float sum(vfloat x) {
    vquarter parts[BYTES / 16], total;
    memcpy(parts, &x, sizeof x);
#if BYTES == 64
    total = (parts[0] + parts[1]) + (parts[2] + parts[3]);
#elif BYTES == 32
    total = parts[0] + parts[1];
#else
    total = parts[0];
#endif
    return (total[0] + total[2]) + (total[1] + total[3]);
}

INLINE vfloat vmax(vfloat a, vfloat b) {
#if BYTES == 64
    return (vfloat)_mm512_max_ps((__m512)a, (__m512)b);
#else
    vint more = a > b;
    return (vfloat)(((vint)a & more) | ((vint)b & ~more));
#endif
}

INLINE float larger(float a, float b) { return a > b ? a : b; }

INLINE float largest(vfloat x) {
#if BYTES == 64
    return _mm512_reduce_max_ps((__m512)x);
#else
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = larger(x[i], most);
    return most;
#endif
}

/* Only arrays whose every index is constant are kept in registers. */
#define UNROLLED _Pragma("GCC unroll 16")

/* Lane i is the sum of all lanes of v[i]; v is overwritten. */
INLINE vfloat sums(vfloat v[LANES]) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TREE_SUMS
#endif
#endif
#ifdef TREE_SUMS
/* Halves of runs of 2 * u lanes: the first ones of a and b in turn, then (+ u) the second ones. */
#define AT(u, l, more) ((l) % (2 * (u)) < (u) ? (l) + (more) : LANES + (l) - (u) + (more))
#define AT4(u, l, more) AT(u, l, more), AT(u, l + 1, more), AT(u, l + 2, more), AT(u, l + 3, more)
#if BYTES == 64
#define ALL(u, more) AT4(u, 0, more), AT4(u, 4, more), AT4(u, 8, more), AT4(u, 12, more)
#elif BYTES == 32
#define ALL(u, more) AT4(u, 0, more), AT4(u, 4, more)
#else
#define ALL(u, more) AT4(u, 0, more)
#endif
#define JOINED(a, b, u) (__builtin_shufflevector(a, b, ALL(u, 0)) + __builtin_shufflevector(a, b, ALL(u, u)))
    UNROLLED for (int i = 0; i < LANES; i += 2) v[i] = JOINED(v[i], v[i + 1], 1);
    UNROLLED for (int i = 0; i < LANES; i += 4) v[i] = JOINED(v[i], v[i + 2], 2);
#if BYTES >= 32
    UNROLLED for (int i = 0; i < LANES; i += 8) v[i] = JOINED(v[i], v[i + 4], 4);
#endif
#if BYTES == 64
    v[0] = JOINED(v[0], v[8], 8);
#endif
    return v[0];
#else
    vfloat out;
    for (int i = 0; i < LANES; i++) out[i] = sum(v[i]);
    return out;
#endif
}

/* e^x, relative error under 2e-7; 0 below -87. Cephes' expf, branch-free. */
INLINE vfloat vexp(vfloat x) {
    vint low = x < splat(-87.0f);
    vint high = x > splat(88.0f);
    x = (vfloat)(((vint)x & ~high) | ((vint)splat(88.0f) & high));
    vfloat scaled = x * 1.44269504088896341f;
    vint whole = __builtin_convertvector(scaled + (vfloat)(((vint)scaled & (vint)splat(-0.0f)) | (vint)splat(0.5f)), vint);
    vfloat n = __builtin_convertvector(whole, vfloat);
    x = x - n * 0.693359375f;
    x = x + n * 2.12194440e-4f;
    vfloat y = splat(1.9875691500e-4f);
    y = y * x + 1.3981999507e-3f;
    y = y * x + 8.3334519073e-3f;
    y = y * x + 4.1665795894e-2f;
    y = y * x + 1.6666665459e-1f;
    y = y * x + 5.0000001201e-1f;
    y = y * x * x + x + 1.0f;
    y = y * (vfloat)((whole + 127) << 23);
    return (vfloat)((vint)y & ~low);
}
