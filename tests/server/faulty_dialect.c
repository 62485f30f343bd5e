/* faulty_dialect.c - see faulty_dialect.h. */
#include "faulty_dialect.h"

#include <stdio.h>
#include <string.h>

static const char *const models[] = {
    [DIALECT_TEXT] = "{\"data\":[{\"id\":\"m\",\"owned_by\":\"tests\"}]}",
    [DIALECT_IDS] = "{\"data\":[{\"id\":\"m\",\"owned_by\":\"tests\"}]}",
    [DIALECT_VLLM] = ("{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\","
                      "\"created\":1,\"owned_by\":\"vllm\",\"root\":\"m\",\"parent\":null,"
                      "\"max_model_len\":2048,\"permission\":[]}]}"),
    [DIALECT_OLLAMA] = ("{\"object\":\"list\",\"data\":[{\"id\":\"m:latest\",\"object\":\"model\","
                        "\"created\":1,\"owned_by\":\"library\"}]}"),
};

const char *faulty_page(faulty_dialect dialect, const char *path) {
    if (strcmp(path, "/v1/models") == 0) {
        return models[dialect];
    }
    if (dialect == DIALECT_VLLM && strcmp(path, "/version") == 0) {
        return "{\"version\":\"0.12.0\"}";
    }
    if (dialect == DIALECT_OLLAMA && strcmp(path, "/api/version") == 0) {
        return "{\"version\":\"0.13.5\"}";
    }
    return NULL;
}

bool faulty_has_chats(faulty_dialect dialect) {
    return dialect == DIALECT_OLLAMA;
}

static void put_vllm(const faulty_token *t, char *out, size_t size) {
    char ids[32] = "null";
    if (t->wants_ids) {
        (void)snprintf(ids, sizeof ids, "[%u]", t->id);
    }
    (void)snprintf(out, size,
                   "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,"
                   "\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"%s\",\"logprobs\":"
                   "{\"text_offset\":[0],\"token_logprobs\":[%.6f],\"tokens\":[\"%s\"],"
                   "\"top_logprobs\":[{\"%s\":%.6f}]},\"finish_reason\":%s,\"stop_reason\":null,"
                   "\"prompt_token_ids\":%s,\"token_ids\":%s}],\"usage\":null}\n\n",
                   t->text, t->logprob, t->text, t->text, t->logprob,
                   t->is_last ? "\"length\"" : "null", t->i == 0 && t->wants_ids ? "[1,2]" : "null",
                   ids);
}

static void put_ollama(const faulty_token *t, char *out, size_t size) {
    if (!t->is_chat) {
        (void)snprintf(out, size,
                       "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,"
                       "\"choices\":[{\"text\":\"%s\",\"index\":0,\"finish_reason\":null}],"
                       "\"model\":\"m:latest\",\"system_fingerprint\":\"fp_ollama\"}\n\n",
                       t->text);
        return;
    }
    (void)snprintf(out, size,
                   "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
                   "\"created\":1,\"model\":\"m:latest\",\"system_fingerprint\":\"fp_ollama\","
                   "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"%s\""
                   "%s%s%s},\"finish_reason\":null,\"logprobs\":{\"content\":[{\"token\":\"%s\","
                   "\"logprob\":%.6f,\"bytes\":[32],\"top_logprobs\":[]}]}}]}\n\n",
                   t->i == 0 ? "" : t->text, t->i == 0 ? ",\"reasoning\":\"" : "",
                   t->i == 0 ? t->text : "", t->i == 0 ? "\"" : "", t->text, t->logprob);
}

void faulty_put_token(faulty_dialect dialect, const faulty_token *t, char *out, size_t size) {
    if (dialect == DIALECT_VLLM) {
        put_vllm(t, out, size);
    } else if (dialect == DIALECT_OLLAMA) {
        put_ollama(t, out, size);
    } else if (dialect == DIALECT_IDS) {
        (void)snprintf(out, size,
                       "data: {\"choices\":[{\"index\":0,\"text\":\"%s\",\"token_ids\":[%u],"
                       "\"logprobs\":{\"tokens\":[\"%s\"],\"token_logprobs\":[%.6f]},"
                       "\"finish_reason\":null}]}\n\n",
                       t->text, t->id, t->text, t->logprob);
    } else {
        (void)snprintf(out, size,
                       "data: {\"choices\":[{\"index\":0,\"text\":\"%s\","
                       "\"finish_reason\":null}]}\n\n",
                       t->text);
    }
}

void faulty_put_end(faulty_dialect dialect, char *out, size_t size) {
    /* vLLM says with the last token why it ended; the usage has no choices. */
    static const char *const ends[] = {
        [DIALECT_TEXT] = ("data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":"
                          "\"length\"}]}\n\n"),
        [DIALECT_IDS] = ("data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":"
                         "\"length\"}]}\n\n"),
        [DIALECT_VLLM] = ("data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,"
                          "\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
                          "\"total_tokens\":13,\"completion_tokens\":4,"
                          "\"prompt_tokens_details\":null}}\n\n"),
        [DIALECT_OLLAMA] = ("data: {\"id\":\"chatcmpl-1\",\"model\":\"m:latest\",\"choices\":"
                            "[{\"index\":0,\"text\":\"\",\"delta\":{\"role\":\"assistant\","
                            "\"content\":\"\"},\"finish_reason\":\"length\"}]}\n\n"
                            "data: {\"id\":\"chatcmpl-1\",\"choices\":[],\"usage\":{"
                            "\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13}}"
                            "\n\n"),
    };
    (void)snprintf(out, size, "%sdata: [DONE]\n\n", ends[dialect]);
}
