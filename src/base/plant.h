/* SPDX-License-Identifier: MIT
 *
 * plant -- mistakes on purpose. The simulation is worth something only if it finds what it is there
 * to find: each mistake is compiled in by a flag of its own (-DPLANT_NAME=1) for a test that must
 * fail. Without the flag, which is always outside tests/test_planted, nothing is left of it.
 */
#ifndef BASE_PLANT_H
#define BASE_PLANT_H

#define PLANT_NAMES                                                                                \
    "ANSWER_BEFORE_COMMIT SEND_BEFORE_LEASE FENCE_IGNORED KEYS_NOT_REBUILT DUE_ENTRY_LOST "        \
    "COUNTED_FROM_ZERO CALLBACK_FORGOTTEN LEASE_FORGOTTEN ROUND_KEPT TOLD_BEFORE_SETTLED "         \
    "PROBE_SKIPPED MISSES_IGNORED TOMBSTONE_IGNORED UNKEPT_TOLD STREAM_FORGOTTEN "                 \
    "ONCE_OF_RECORD"

#ifndef PLANT_ANSWER_BEFORE_COMMIT
#define PLANT_ANSWER_BEFORE_COMMIT 0
#endif
#ifndef PLANT_SEND_BEFORE_LEASE
#define PLANT_SEND_BEFORE_LEASE 0
#endif
#ifndef PLANT_FENCE_IGNORED
#define PLANT_FENCE_IGNORED 0
#endif
#ifndef PLANT_KEYS_NOT_REBUILT
#define PLANT_KEYS_NOT_REBUILT 0
#endif
#ifndef PLANT_DUE_ENTRY_LOST
#define PLANT_DUE_ENTRY_LOST 0
#endif
#ifndef PLANT_COUNTED_FROM_ZERO
#define PLANT_COUNTED_FROM_ZERO 0
#endif

#ifndef PLANT_CALLBACK_FORGOTTEN
#define PLANT_CALLBACK_FORGOTTEN 0
#endif
#ifndef PLANT_LEASE_FORGOTTEN
#define PLANT_LEASE_FORGOTTEN 0
#endif
#ifndef PLANT_ROUND_KEPT
#define PLANT_ROUND_KEPT 0
#endif
#ifndef PLANT_TOLD_BEFORE_SETTLED
#define PLANT_TOLD_BEFORE_SETTLED 0
#endif
#ifndef PLANT_PROBE_SKIPPED
#define PLANT_PROBE_SKIPPED 0
#endif
#ifndef PLANT_MISSES_IGNORED
#define PLANT_MISSES_IGNORED 0
#endif
#ifndef PLANT_TOMBSTONE_IGNORED
#define PLANT_TOMBSTONE_IGNORED 0
#endif
#ifndef PLANT_UNKEPT_TOLD
#define PLANT_UNKEPT_TOLD 0
#endif
#ifndef PLANT_ONCE_OF_RECORD
#define PLANT_ONCE_OF_RECORD 0
#endif
#ifndef PLANT_STREAM_FORGOTTEN
#define PLANT_STREAM_FORGOTTEN 0
#endif

#ifndef PLANT_CLAIM_IN_BATCH
#define PLANT_CLAIM_IN_BATCH 0
#endif
#ifndef PLANT_EPOCH_NOT_COMPARED
#define PLANT_EPOCH_NOT_COMPARED 0
#endif
#ifndef PLANT_DUTY_BY_ALL
#define PLANT_DUTY_BY_ALL 0
#endif
#ifndef PLANT_DOUBT_NOT_KEPT
#define PLANT_DOUBT_NOT_KEPT 0
#endif

/* No do-while around it: a mistake may be a `return` or a `continue`. */
#define PLANT(name, ...)                                                                           \
    if (PLANT_##name) {                                                                            \
        __VA_ARGS__;                                                                               \
    }

#endif
