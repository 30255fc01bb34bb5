/* SPDX-License-Identifier: MIT
 *
 * own_name -- who sends, as far as keys go: what DARUMA_CLIENT says, or user@host. Two people who save
 * one page have two keys; one person who taps twice has one.
 */
#ifndef CLI_OWN_NAME_H
#define CLI_OWN_NAME_H

#include "base/fault.h"
#include "task/save_key.h"

/* FAULT_INPUT: DARUMA_CLIENT cannot be one. */
int own_name(char ret_name[SAVE_CLIENT_MAX + 1], struct error *err)
    __attribute__((warn_unused_result));

#endif
