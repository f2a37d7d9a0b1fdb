/* Every kernel on fixed inputs, what comes out as text: the same program runs on processors that have no Python
 * here (under an emulator), and its output is compared with this machine's (test_portable.py). */
#include "../../chatkv/native/kernels.c"
#include <stdio.h>
#include <stdlib.h>

static uint32_t state = 12345;

/* Whole numbers first, so that every machine has the same: -1 … 1. */
static float any(void) {
    state = state * 1664525u + 1013904223u;
    return (float)((int32_t)(state >> 8) - (1 << 23)) / (float)(1 << 23);
}

static void *room(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 4096 + 63) / 64 * 64);
    memset(p, 0, (bytes + 4096 + 63) / 64 * 64);
    return p;
}

static float *floats(size_t count, float size, float middle) {
    float *p = room(count * 4);
    for (size_t i = 0; i < count; i++) p[i] = middle + size * any();
    return p;
}

static bf16 *halves(size_t count, float size, float middle) {
    bf16 *p = room(count * 2);
    for (size_t i = 0; i < count; i++) store1_bf16(p + i, middle + size * any());
    return p;
}

static void tell_floats(const char *name, const float *p, size_t count) {
    printf("%s", name);
    for (size_t i = 0; i < count; i++) printf(" %.9g", p[i]);
    printf("\n");
}

static void tell_halves(const char *name, const bf16 *p, size_t count) {
    printf("%s", name);
    for (size_t i = 0; i < count; i++) printf(" %.9g", load1_bf16(p + i));
    printf("\n");
}

static void tell_bytes(const char *name, const uint8_t *p, size_t count) {
    printf("%s", name);
    for (size_t i = 0; i < count; i++) printf(" %d", p[i]);
    printf("\n");
}

enum { HIDDEN = 96, INNER = 160, VOCAB = 83, BLOCKS = 40, SIZE = 16, LAYERS = 2, ROWS = 29, POSITIONS = 320 };

static Packed packed(int rows, int columns, int bits, int biased) {
    const int strips = (rows + LANE_ROWS - 1) / LANE_ROWS, groups = columns / GROUP;
    const bf16 *weight = halves((size_t)rows * columns, 0.2f, 0.01f);
    Packed p = {.rows = rows, .columns = columns, .bits = bits};
    uint8_t *codes = room((size_t)strips * groups * (bits == 4 ? GROUP4 : GROUP8));
    float *steps = room((size_t)strips * LANE_ROWS * 4);
    if (bits == 4)
        pack4_bf16(weight, codes, rows, columns);
    else
        pack8_bf16(weight, codes, steps, rows, columns);
    p.codes = codes;
    p.steps = steps;
    if (biased) p.bias = floats((size_t)rows, 0.1f, 0);
    return p;
}

/* Three requests: one token behind 149, three behind 40, 25 behind 7; then all KV and logits are told. */
static void steps(const char *name, int heads, int kv_heads, int dim, int bits, int more) {
    const int q = heads * dim, kv_wide = kv_heads * dim, half = SIZE * kv_wide;
    StepLayer layers[LAYERS];
    for (int l = 0; l < LAYERS; l++)
        layers[l] = (StepLayer){
            .attn_norm = floats(HIDDEN, 0.3f, 1), .mlp_norm = floats(HIDDEN, 0.3f, 1),
            .q_norm = more ? floats((size_t)dim, 0.3f, 1) : NULL, .k_norm = more ? floats((size_t)dim, 0.3f, 1) : NULL,
            .qkv = packed(q + 2 * kv_wide, HIDDEN, bits, more), .output = packed(HIDDEN, q, bits, 0),
            .gate_up = packed(2 * INNER, HIDDEN, bits, 0), .down = packed(HIDDEN, INNER, bits, more)};
    Model model = {.layers = layers, .embedding = halves((size_t)VOCAB * HIDDEN, 1, 0),
                   .final_norm = floats(HIDDEN, 0.3f, 1), .head = packed(VOCAB, HIDDEN, 8, 0), .num_layers = LAYERS,
                   .hidden = HIDDEN, .intermediate = INNER, .eps = 1e-5f,
                   .layout = {heads, kv_heads, dim, SIZE}};
    const size_t layer = (size_t)BLOCKS * 2 * half;
    bf16 *kv = halves(LAYERS * layer, 1, 0);
    int32_t blocks[BLOCKS]; /* request 0: 0 … 9, request 1: 10 … 12, request 2: 13, 14 */
    for (int i = 0; i < BLOCKS; i++) blocks[i] = (i * 7 + 3) % BLOCKS;
    static const int lens[3] = {150, 43, 32}, news[3] = {1, 3, 25}, firsts[3] = {0, 10, 13};
    int64_t tokens[ROWS], positions[ROWS], slots[ROWS], wanted[3];
    int32_t part_row[8], part_first[8], part_start[8], part_stop[8], row_part[ROWS + 1], prefill_row[1] = {4};
    int parts = 0, row = 0;
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < news[r]; i++, row++) {
            const int at = lens[r] - news[r] + i;
            tokens[row] = (row * 31 + 5) % VOCAB;
            positions[row] = at;
            slots[row] = (int64_t)blocks[firsts[r] + at / SIZE] * SIZE + at % SIZE;
            row_part[row] = parts;
            for (int p = 0; r < 2 && p < (r ? 1 : 2); p++, parts++) {
                part_row[parts] = row;
                part_first[parts] = firsts[r];
                part_start[parts] = p ? 70 : 0;
                part_stop[parts] = r || p ? at + 1 : 70;
            }
            if (i == news[r] - 1) wanted[r] = row;
        }
    row_part[ROWS] = parts;
    Prefill prefill = {blocks + firsts[2], room((size_t)32 * kv_wide * 4), 25, 32, heads, kv_heads, dim, SIZE};
    float *logits = room(3 * VOCAB * 4);
    Step step = {.tokens = tokens, .positions = positions, .slots = slots, .wanted = wanted,
                 .angles = floats((size_t)POSITIONS * dim, 1, 0), .kv = kv, .kv_layer = (int64_t)layer,
                 .blocks = blocks, .part_row = part_row, .part_first = part_first, .part_start = part_start,
                 .part_stop = part_stop, .row_part = row_part, .prefills = &prefill, .prefill_row = prefill_row,
                 .scratch = room((size_t)step_bytes(&model, ROWS, parts)), .logits = logits, .rows = ROWS,
                 .logits_rows = 3, .parts = parts, .prefill_count = 1};
    step_bf16(&model, &step);
    char line[64];
    snprintf(line, sizeof line, "step.%s.logits", name);
    tell_floats(line, logits, 3 * VOCAB);
    snprintf(line, sizeof line, "step.%s.kv", name);
    tell_halves(line, kv, LAYERS * layer);
}

static void packing(void) {
    const bf16 *weight = halves(35 * 96, 3, 0.5f);
    uint8_t *codes = room(3 * 3 * GROUP8);
    float *scales = room(48 * 4);
    pack4_bf16(weight, codes, 35, 96);
    tell_bytes("pack4", codes, 3 * 3 * GROUP4);
    pack8_bf16(weight, codes, scales, 35, 96);
    tell_bytes("pack8", codes, 3 * 3 * GROUP8);
    tell_floats("pack8.steps", scales, 48);
    int32_t *wide = room(35 * 96 * 4);
    float *pairs = room(3 * 35 * 2 * 4);
    codes4_bf16(weight, wide, pairs, 35, 96);
    tell_floats("codes4.scales", pairs, 3 * 35 * 2);
    printf("codes4");
    for (int i = 0; i < 35 * 96; i++) printf(" %d", wide[i]);
    printf("\n");
}

static void attention(int heads, int kv_heads, int dim) {
    const size_t elements = (size_t)BLOCKS * 2 * SIZE * kv_heads * dim;
    bf16 *kv = halves(elements, 1, 0), *q = halves((size_t)200 * heads * dim, 2, 0);
    bf16 *out = room((size_t)200 * heads * dim * 2);
    float *wide = room(elements * 4), *wide_q = room((size_t)2 * heads * dim * 4);
    float *wide_out = room((size_t)2 * heads * dim * 4);
    for (size_t i = 0; i < elements; i++) wide[i] = load1_bf16(kv + i);
    for (int i = 0; i < 2 * heads * dim; i++) wide_q[i] = load1_bf16(q + i);
    int32_t blocks[BLOCKS], indptr[3] = {0, 20, 22}, lens[3] = {300, 21}, rows[2] = {1, 0};
    for (int i = 0; i < BLOCKS; i++) blocks[i] = (i * 11 + 2) % BLOCKS;
    int32_t request[3] = {0, 0, 1}, start[3] = {0, 157, 0}, stop[3] = {157, 300, 21};
    Decode d = {indptr, blocks, lens, rows, request, start, stop,
                room(3 * (size_t)heads * (dim + 2) * 4), 2, 3, {heads, kv_heads, dim, SIZE}};
    paged_decode_bf16(&d, q, kv, out);
    tell_halves("paged_decode.bf16", out, (size_t)2 * heads * dim);
    paged_decode_f32(&d, wide_q, wide, wide_out);
    tell_floats("paged_decode.f32", wide_out, (size_t)2 * heads * dim);
    if (dim % 32) return;
    Prefill p = {blocks, room((size_t)320 * kv_heads * dim * 4), 190, 300, heads, kv_heads, dim, SIZE};
    paged_prefill(&p, q, kv, out);
    tell_halves("paged_prefill", out, (size_t)190 * heads * dim);
}

static void small(void) {
    enum { R = 5, W = 83, D = 48 };
    bf16 *h = halves(R * W, 3, 0), *delta = halves(R * W, 3, 0), *weight = halves(W, 1, 1), *out = room(R * W * 2);
    add_norm_bf16(h, delta, weight, out, R, W, 1e-5f);
    tell_halves("add_norm.bf16", out, R * W);
    float *x = floats(R * 2 * W, 20, 0), *y = room(R * W * 4), *w = floats(W, 1, 1);
    add_norm_f32(x, NULL, w, y, R, W, 1e-5f);
    tell_floats("add_norm.f32", y, R * W);
    x[0] = -120, x[1] = 120, x[2] = 0, x[3] = -88.5f;
    gated_f32(x, y, R, W);
    tell_floats("gated.f32", y, R * W);
    bf16 *gates = halves(R * 2 * W, 20, 0);
    gated_bf16(gates, out, R, W);
    tell_halves("gated.bf16", out, R * W);
    float *qkv = floats(R * 6 * D, 2, 0), *q = room(R * 4 * D * 4), *kv = room(8 * 2 * 4 * D * 4);
    int64_t positions[R] = {0, 1, 7, 5, 31}, slots[R] = {3, 4, 9, 20, 31};
    place_f32(qkv, floats(32 * D, 1, 0), positions, slots, w, w, kv, q, R, 4, 1, D, 4, 1e-5f);
    tell_floats("place.q", q, R * 4 * D);
    tell_floats("place.kv", kv, 8 * 2 * 4 * D);
    float *scores = floats(1003, 1, 0);
    scores[701] = scores[900] = 2;
    printf("likeliest %d", (int)likeliest(scores, 1003));
    scores[1002] = 3;
    printf(" %d", (int)likeliest(scores, 1003));
    scores[17] = __builtin_nanf("");
    printf(" %d\n", (int)likeliest(scores, 1003));
}

int main(void) {
    packing();
    small();
    attention(6, 2, 64);
    attention(4, 4, 32);
    attention(3, 1, 48);
    attention(2, 1, 128);
    steps("int4", 6, 3, 32, 4, 0);
    steps("int8.biases.norms", 3, 3, 64, 8, 1);
    return 0;
}
