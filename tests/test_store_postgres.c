/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres -- the contract, on PostgreSQL; and what only a server can go through.
 */
#include "postgres_rig.h"
#include "store_contract.h"

static const struct store_subject subject = {
    .kind = "postgres", .has_path = true, .groups = true, .prepare = postgres_rig_new};

int main(int argc, char **argv)
{
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = store_contract_run(argc, argv, &subject, NULL, 0);
    postgres_rig_stop();
    return failed;
}
