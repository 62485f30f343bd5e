/* command.h - what every command of the tool shares. A command is one file cmd_<name>.c with
 * `int lk_command_<name>(int argc, char **argv)` (argv[0] is the command's name) and one line in
 * commands.def. Exit status: 0 success, 1 the work failed, 2 wrong usage. */
#ifndef LK_COMMAND_H
#define LK_COMMAND_H

#include "lk/base.h"

#define LK_COMMAND(name, summary) int lk_command_##name(int argc, char **argv);
#include "commands.def"
#undef LK_COMMAND

#endif
