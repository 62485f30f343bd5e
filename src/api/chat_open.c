/* chat_open.c - the chat template of a GGUF file; the rest of lk/chat.h is in src/text. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "text/chat/chat_template.h"

#define KEY "tokenizer.chat_template"

static lk_status find_text(const lk_gguf *gguf, const char *key, lk_gguf_value *value,
                           lk_error *err) {
    const lk_status status = lk_gguf_find(gguf, key, value, err);
    if (status == LK_OK && value->type != LK_GGUF_STRING) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(value->offset, key),
                       "%s at offset %llu is %s, expected a string", key,
                       (unsigned long long)value->offset, lk_gguf_type_name(value->type));
    }
    return status;
}

lk_status lk_chat_template_open(const lk_gguf *gguf, const char *name,
                                const lk_allocator *allocator, lk_chat_template **out,
                                lk_error *err) {
    char key[160] = KEY;
    lk_gguf_value value;
    if (out != NULL) {
        *out = NULL;
    }
    if (gguf == NULL || out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_NOWHERE, "lk_chat_template_open: gguf or out is missing");
    }
    if (name != NULL && snprintf(key, sizeof key, KEY ".%s", name) >= (int)sizeof key) {
        return lk_fail(err, LK_E_NOT_FOUND, LK_AT_SUBJECT(name),
                       "the file has no chat template of so long a name");
    }
    lk_status status = find_text(gguf, key, &value, err);
    if (status == LK_E_NOT_FOUND) {
        return lk_fail(err, status, LK_AT_SUBJECT(key), "the file has no chat template (%s)", key);
    }
    if (status == LK_OK) {
        status = lk_chat_template_create(value.str, (size_t)value.n, allocator, out, err);
    }
    if (status == LK_OK && name == NULL &&
        find_text(gguf, KEY ".tool_use", &value, NULL) != LK_E_NOT_FOUND) {
        status = find_text(gguf, KEY ".tool_use", &value, err);
        if (status == LK_OK) {
            status = lk_chat_template_add_tools(*out, value.str, (size_t)value.n, err);
        }
        if (status != LK_OK) {
            lk_chat_template_close(*out);
            *out = NULL;
        }
    }
    return status;
}
