/* SPDX-License-Identifier: Apache-2.0 */
/* shared_queue.h -- the lock that threads take when they post through one queue pair (for comparison). */
#ifndef FAR_FABRIC_SHARED_QUEUE_H
#define FAR_FABRIC_SHARED_QUEUE_H

#include <farside/fabric.h>

/* Around each ops->post() and ops->poll() of a fabric. NULL: no queue is shared, nothing happens. */
void far_shared_queue_lock(struct far_shared_queue *q);
void far_shared_queue_unlock(struct far_shared_queue *q);

#endif
