/* The small operations between a decoder's matrix products, and attention over the block table.
 *
 * Plain C with OpenMP, called through ctypes (chatkv/native/library.py). Everything is computed in
 * fp32 and rounded once when it is stored. torch remains the reference: where this library could not
 * be built or does not fit the CPU, the same decoder runs on torch's operators.
 */
#include <stddef.h>
#include "vectors.h"
#include "prefill.h"

/* Must grow with every change of a signature or of Decode (library.py's ABI). */
int chatkv_abi(void) { return 2; }

/* Whether this process may use what the library was compiled for, beyond what CPU flags say. */
int chatkv_granted(void) {
#ifdef __AMX_BF16__
    return tiles_granted();
#else
    return 1;
#endif
}

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
    int32_t requests, parts, heads, kv_heads, head_dim, block_size;
} Decode;

/* Tokens whose scores are kept before they are weighted: one pass of exponentials for all of them. */
#define RUN 64

/* One head's next run into its partial result: out holds total [dim], the largest score, the mass. */
INLINE void soften(float *scores, const float *values, float *out, int count, const int dim) {
    const int vectors = dim / LANES;
    vfloat highest = load_f32(scores), masses = {0}, total[dim / LANES];
    for (int t = LANES; t < RUN; t += LANES) highest = vmax(highest, load_f32(scores + t));
    const float most = largest(highest) > out[dim] ? largest(highest) : out[dim];
    const float shrink = vexp(splat(out[dim] - most))[0];
    for (int t = 0; t < RUN; t += LANES) {
        vfloat weight = vexp(load_f32(scores + t) - most);
        masses += weight;
        store_f32(scores + t, weight);
    }
    for (int i = 0; i < vectors; i++) total[i] = load_f32(out + i * LANES) * shrink;
    for (int t = 0; t < count; t++)
        for (int i = 0; i < vectors; i++) total[i] += scores[t] * load_f32(values + t * dim + i * LANES);
    for (int i = 0; i < vectors; i++) store_f32(out + i * LANES, total[i]);
    out[dim] = most;
    out[dim + 1] = out[dim + 1] * shrink + sum(masses);
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
