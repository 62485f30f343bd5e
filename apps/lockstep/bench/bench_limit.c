/* bench_limit.c - how fast the machine could be at most. A micro-batch has to read the weights and
 * the cached keys and values once, and to do the products of its rows; the slower of the two at the
 * machine's best speed is its limit. What is left out (norms, activations, the tokens' embeddings)
 * only makes the limit harder to reach. */
#include "bench.h"

const lk_machine_speed *bench_speed_of(const bench_report *report, uint32_t n_threads,
                                       uint32_t isa) {
    for (size_t i = 0; i < report->n_machines; i++) {
        const bench_machine *m = &report->machines[i];
        if (m->speed.n_threads == n_threads && m->isa == isa) {
            return &m->speed;
        }
    }
    return NULL;
}

/* Bytes of a cached position in all layers, keys or values. */
static double kv_bytes(const lk_model_info *info, lk_kv_type type) {
    const double n = (double)info->n_layers * info->n_kv_heads * info->head_dim;
    return type == LK_KV_F32 ? 4.0 * n : type == LK_KV_F16 ? 2.0 * n : 36.0 / 32.0 * n;
}

typedef struct limits {
    double read_bytes_per_s;
    double ops_per_s;
} limits;

/* n_rows rows of n_sequences sequences that end at position `end`, n_logits of which want logits.
 */
static double step_seconds(const bench_test *t, const limits *machine, double n_rows,
                           double n_sequences, double end, double n_logits) {
    const bench_weights *w = &t->model->weights;
    const lk_model_info *info = &t->model->info;
    double active = 0.0;  /* part of the experts that a row uses */
    double touched = 0.0; /* part that all rows use */
    if (info->n_experts > 0) {
        active = (double)info->n_experts_used / info->n_experts;
        touched = active * n_rows < 1.0 ? active * n_rows : 1.0;
    }
    const double bytes = (double)w->layer_bytes + touched * (double)w->expert_bytes +
                         (double)w->output_bytes +
                         n_sequences * end * (kv_bytes(info, t->kv.k) + kv_bytes(info, t->kv.v));
    /* A row attends to half of the rows of its own sequence in this step, on average. */
    const double context = end - 0.5 * n_rows / n_sequences;
    const double attention =
        2.0 * context * (double)info->n_layers * info->n_heads * info->head_dim;
    const double products =
        n_rows * ((double)w->layer_elems + active * (double)w->expert_elems + attention) +
        n_logits * (double)w->output_elems;
    const double read_s = bytes / machine->read_bytes_per_s;
    const double compute_s = machine->ops_per_s > 0.0 ? 2.0 * products / machine->ops_per_s : 0.0;
    return read_s > compute_s ? read_s : compute_s;
}

double bench_limit_seconds(const bench_test *t, const lk_machine_speed *speed,
                           bool with_matrix_units) {
    if (speed->read_bytes_per_s <= 0.0) {
        return 0.0;
    }
    limits best = {speed->read_bytes_per_s, speed->int8_ops_per_s};
    if (with_matrix_units && speed->matrix_ops_per_s > best.ops_per_s) {
        best.ops_per_s = speed->matrix_ops_per_s;
    }
    const limits *machine = &best;
    double seconds = 0.0;
    if (t->is_gen) {
        for (int64_t i = 0; i < t->n_tokens; i++) {
            seconds += step_seconds(t, machine, t->n_parallel, t->n_parallel,
                                    (double)(t->depth + i + 1), t->n_parallel);
        }
        return seconds;
    }
    /* Whole sequences one after the other, cut into micro-batches. */
    const int64_t n_all = t->n_tokens * t->n_parallel;
    for (int64_t first = 0; first < n_all; first += t->max_rows) {
        const int64_t end = first + t->max_rows < n_all ? first + t->max_rows : n_all;
        const int64_t n_sequences = (end - 1) / t->n_tokens - first / t->n_tokens + 1;
        const int64_t n_ends = end / t->n_tokens - first / t->n_tokens;
        const double last =
            n_sequences > 1 ? (double)t->n_tokens : (double)((end - 1) % t->n_tokens + 1);
        seconds += step_seconds(t, machine, (double)(end - first), (double)n_sequences,
                                (double)t->depth + last, (double)n_ends);
    }
    return seconds;
}
