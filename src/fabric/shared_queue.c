/* SPDX-License-Identifier: Apache-2.0 */
/* shared_queue.c -- a spinlock, as a driver's queue pair has one. */
#include "fabric/shared_queue.h"

#include <pthread.h>
#include <stdlib.h>

#include <farside/error.h>

struct far_shared_queue {
	pthread_spinlock_t lock;
};

int
far_shared_queue_new(struct far_shared_queue **out)
{
	struct far_shared_queue *q = malloc(sizeof(*q));

	if (!q || pthread_spin_init(&q->lock, PTHREAD_PROCESS_PRIVATE) != 0) {
		free(q);
		return -FAR_ENOMEM;
	}
	*out = q;
	return 0;
}

void
far_shared_queue_free(struct far_shared_queue *q)
{
	if (q)
		pthread_spin_destroy(&q->lock);
	free(q);
}

void
far_shared_queue_lock(struct far_shared_queue *q)
{
	if (q)
		pthread_spin_lock(&q->lock);
}

void
far_shared_queue_unlock(struct far_shared_queue *q)
{
	if (q)
		pthread_spin_unlock(&q->lock);
}
