/* SPDX-License-Identifier: MIT
 *
 * cli -- what every command of the program has in common: how it is called and how it ends.
 */
#ifndef CLI_H
#define CLI_H

/* Exit codes, the same for every command (`daruma retry` ends with its command's own). */
enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_UNREACHABLE = 3,
    CLI_SPOOLED = 4,
};

#define CLI_CONFIG "daruma.yaml" /* the configuration when no -c is given */

/* argv[0] is the command's name. Returns the exit code of the program. */
typedef int (*cli_command_fn)(int argc, char **argv);

struct cli_command {
    const char *name;
    cli_command_fn run;
    const char *summary;
};

int cli_restore(int argc, char **argv);
int cli_retry(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_enqueue(int argc, char **argv);
int cli_tasks(int argc, char **argv);
int cli_show(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_queue(int argc, char **argv);
int cli_queues(int argc, char **argv);
int cli_key(int argc, char **argv);
int cli_send(int argc, char **argv);
int cli_flush(int argc, char **argv);
int cli_spool(int argc, char **argv);
int cli_dead(int argc, char **argv);
int cli_dead_list(int argc, char **argv);
int cli_dead_show(int argc, char **argv);
int cli_dead_redrive(int argc, char **argv);
int cli_dead_resolve(int argc, char **argv);
int cli_dead_cancel(int argc, char **argv);
int cli_unsettled(int argc, char **argv);
int cli_settle(int argc, char **argv);
int cli_audit(int argc, char **argv);
int cli_summarize(int argc, char **argv);
int cli_compact(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_import(int argc, char **argv);

#endif
