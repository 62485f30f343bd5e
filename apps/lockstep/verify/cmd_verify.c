/* cmd_verify.c - `lockstep verify`: whether an engine and a machine tell the truth. The parts are
 * in verify/. */
#include "command.h"
#include "verify/verify_main.h"
#include "verify/verify_options.h"

int lk_command_verify(int argc, char **argv) {
    verify_options options;
    int exit_status = 0;
    if (!verify_options_parse(argc, argv, &options, &exit_status)) {
        return exit_status;
    }
    return verify_main(&options);
}
