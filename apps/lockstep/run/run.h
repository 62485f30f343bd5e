/* run.h - the parts of `lockstep run`: its options, the prompt, the loop and the report. */
#ifndef LK_RUN_H
#define LK_RUN_H

#include "lk/grammar.h"
#include "shared/conversation.h"
#include "shared/listener.h"
#include "shared/open_model.h"
#include "shared/options.h"
#include "shared/text_stream.h"

typedef struct run_options {
    lk_conversation_options conversation; /* with --chat */
    const char *model;
    const char *prompt;      /* -p */
    const char *prompt_file; /* -f, or "-" */
    const char *mmproj;      /* for the recordings */
    const char *projector;   /* where it computes; NULL: not said */
    uint32_t projector_device;
    lk_option_list audio; /* recordings, before the prompt's text; with --chat */
    lk_kv_type k_type;
    lk_kv_type v_type;
    int64_t n_predict; /* -1: until the context is full */
    int64_t n_ctx;     /* 0: the model's training context */
    int64_t n_threads;
    int64_t device; /* 0: the processor */
    double temperature;
    int64_t top_k;
    double top_p;
    double min_p;
    double typical_p;
    double repeat_penalty;
    double presence_penalty;
    double frequency_penalty;
    int64_t penalty_last_n;
    uint64_t seed;
    bool has_seed;
    lk_option_list logit_bias; /* ID=BIAS */
    lk_option_list stops;
    const char *grammar; /* a file or the text itself; likewise below */
    const char *json_schema;
    bool json_object;
    bool ids;
    bool digests;
    bool json;
    bool no_repack;
    bool special;
    bool ignore_eos;
    bool chat;
    bool echo;
    bool model_digest;
} run_options;

/* Sets the defaults and parses. False: return *exit_status. */
bool run_parse(int argc, char **argv, run_options *o, int *exit_status);

typedef enum run_stop {
    RUN_STOP_LENGTH,   /* -n tokens */
    RUN_STOP_END,      /* a token that ends the text, or a text that the grammar ends */
    RUN_STOP_TEXT,     /* a stop text */
    RUN_STOP_CONTEXT,  /* no position is left */
    RUN_STOP_CANCELLED /* Ctrl-C */
} run_stop;

/* One run. */
typedef struct run {
    const run_options *options;
    lk_model *model;
    const lk_tokenizer *tokenizer;
    lk_model_info info;
    lk_context *context;
    lk_sampler *sampler;
    lk_grammar *grammar; /* NULL: none */
    lk_token_trie *trie; /* for the grammar */
    int64_t n_ctx;
    uint64_t seed;
    char *prompt_text;
    size_t n_prompt_text;
    int32_t *prompt;
    size_t n_prompt;
    size_t n_prompt_done;     /* computed; fewer after Ctrl-C */
    lk_audio_vectors *clips;  /* [options->audio.n] */
    const float **embeddings; /* [n_prompt] vectors of recordings, or NULL */

    int32_t *ids;           /* sampled */
    uint8_t (*digests)[16]; /* of the logits that they were sampled from; NULL unless wanted */
    size_t n_ids;
    size_t capacity;
    lk_text_stream stream;
    lk_buffer text; /* given out so far */
    run_stop stop;
    double prompt_seconds;
    double generate_seconds;
} run;

/* Encodes the recordings, if there are any. */
bool run_read_audio(run *r);
/* Reads and encodes the prompt; checks that it fits. All below print the reason on failure. */
bool run_read_prompt(run *r);
/* Whether the options that ask for a grammar go together. */
bool run_check_grammar(const run_options *o);
/* Compiles the grammar or schema, if one is asked for. */
bool run_compile_grammar(run *r);
/* Creates sampler and context. */
bool run_prepare(run *r);
/* Computes the prompt and generates; text and tables go out as they come. */
bool run_generate(run *r);
/* Speeds to standard error, or the JSON object to standard output. */
bool run_report(run *r);

#endif
