/* context_create.c - the body of lk_context_create: joins a model and a backend. */
#include "api/guard.h"
#include "api/source.h"
#include "lk/context.h"

lk_status lk_context_create(lk_model *model, const lk_context_params *params, lk_context **out,
                            lk_error *err) {
    if (out == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("out"), "out is NULL");
    }
    *out = NULL;
    if (model == NULL) {
        return lk_fail(err, LK_E_ARG, LK_AT_SUBJECT("model"), "the model is NULL");
    }
    const lk_context_params defaults = LK_CONTEXT_PARAMS_INIT;
    params = params != NULL ? params : &defaults;
    lk_status status =
        lk_check_struct_size("lk_context_params", params->struct_size, sizeof *params, err);
    if (status != LK_OK) {
        return status;
    }
    lk_context_source source;
    const lk_fpenv fpenv = lk_fpenv_enter();
    status = lk_source_of(model, params->device, &source, err);
    if (status == LK_OK) {
        status = lk_context_build(&source, params, out, err);
    }
    lk_fpenv_leave(fpenv);
    return status;
}
