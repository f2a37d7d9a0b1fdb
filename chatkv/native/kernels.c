/* The small operations between a decoder's matrix products, and attention over the block table.
 *
 * Plain C with OpenMP, called through ctypes (chatkv/native/library.py). Everything is computed in
 * fp32 and rounded once when it is stored. torch remains the reference: where this library could not
 * be built or does not fit the CPU, the same decoder runs on torch's operators.
 */
#include <stddef.h>
#ifdef __AVXVNNI__
#include <cpuid.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#define TEAM_SIZE omp_get_num_threads()
#define TEAM_RANK omp_get_thread_num()
#else
#define TEAM_SIZE 1
#define TEAM_RANK 0
#endif
#include "vectors.h"
#include "packed.h"
#include "prefill.h"

/* Must grow with every change of a signature or of Decode (library.py's ABI). */
int chatkv_abi(void) { return 7; }

/* Whether this process may use what the library was compiled for, beyond what CPU flags say. */
int chatkv_granted(void) {
#if defined(__AMX_BF16__)
    return tiles_granted();
#elif defined(__AVXVNNI__)
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
#else
    return 1;
#endif
}

/* Whether the kernels use more than one core. */
int chatkv_parallel(void) {
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}

/* Shape of the KV and of what asks it. */
typedef struct {
    int32_t heads, kv_heads, head_dim, block_size;
} Layout;

/* A step's decode requests: those with one query row. Same arrays as attention/base.py's PagedBatch. */
typedef struct {
    const int32_t *kv_indptr; /* [requests + 1] into kv_indices */
    const int32_t *kv_indices; /* physical block ids in logical order */
    const int32_t *kv_lens; /* [requests] tokens, the new one counted */
    const int32_t *rows; /* [requests] query row of each */
    const int32_t *part_request; /* [parts] request of each part */
    const int32_t *part_start; /* [parts] first token of each */
    const int32_t *part_stop; /* [parts] one past its last token */
    float *partial; /* [parts, heads, head_dim + 2]: weighted sum of V, largest score, sum of weights */
    int32_t requests, parts;
    Layout layout;
} Decode;

/* Tokens whose scores are kept before they are weighted: one pass of exponentials for all of them. */
#define RUN 64

/* One head's parts of a context, `heads` results apart, into one: out [dim]. */
INLINE void join_parts(const float *partial, int parts, int heads, int dim, float *out) {
    const size_t apart = (size_t)heads * (dim + 2);
    float most = -__builtin_inff(), mass = 0, factors[parts];
    for (int p = 0; p < parts; p++) most = larger(partial[p * apart + dim], most);
    for (int p = 0; p < parts; p++) {
        factors[p] = vexp(splat(partial[p * apart + dim] - most))[0];
        mass += factors[p] * partial[p * apart + dim + 1];
    }
    for (int i = 0; i < dim; i += LANES) {
        vfloat total = {0};
        for (int p = 0; p < parts; p++) total += load_f32(partial + p * apart + i) * factors[p];
        store_f32(out + i, total / mass);
    }
}

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define T bf16
#define NAME bf16
#include "kernels_typed.h"
#undef T
#undef NAME

#define T float
#define NAME f32
#include "kernels_typed.h"
#undef T
#undef NAME

#include "step.h"
#include "wide.h"

/* The first index of the largest of x [count]; -1 where one is not a number. */
int64_t likeliest(const float *x, int64_t count) {
    vfloat highest = splat(-__builtin_inff());
    vint odd = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vfloat v = load_f32(x + i);
        odd |= v != v;
        highest = vmax(v, highest);
    }
    float most = largest(highest);
    int broken = 0;
    for (int lane = 0; lane < LANES; lane++) broken |= odd[lane];
    for (; i < count; i++) {
        broken |= x[i] != x[i];
        most = larger(x[i], most);
    }
    if (broken) return -1;
    for (i = 0; i + LANES <= count; i += LANES) {
        vint same = load_f32(x + i) == most;
        int any = 0;
        for (int lane = 0; lane < LANES; lane++) any |= same[lane];
        if (any) break;
    }
    for (; i < count; i++)
        if (x[i] == most) return i;
    return -1;
}
