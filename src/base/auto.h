/* SPDX-License-Identifier: MIT
 *
 * auto -- release by scope: `AUTO(buf_done) struct buf body;`. The function gets the variable's
 * address; AUTO_FREE makes one for types that are held by pointer.
 */
#ifndef BASE_AUTO_H
#define BASE_AUTO_H

#define AUTO(release) __attribute__((cleanup(release)))

/* For `struct x *`: defines x_free_p, which frees what the pointer points at. */
#define AUTO_POINTER(type, release)                                                                \
    static inline void release##_p(type **held)                                                    \
    {                                                                                              \
        release(*held);                                                                            \
    }

#endif
