/* SPDX-License-Identifier: Apache-2.0 */
/* shm_process.c -- pidfds, and notes that outlive them. */
#include "fabric/shm_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <xxhash.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/shm_region.h"

/* A process that was killed is waited for this long: it may be busy in the kernel. */
enum { SHM_PROCESS_WAIT_MS = 30000 };

/* Linux 6.5 on; older kernels refuse the option. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int
shm_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* The whole text of a small file of /proc, or "". */
static void
shm_process_text(const char *path, char *text, size_t max)
{
	ssize_t n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		n = read(fd, text, max - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
}

/* In clock ticks since boot; 0 when there is no such process. */
static uint64_t
shm_process_start(pid_t pid)
{
	uint64_t start = 0;
	char path[64], text[1024], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	shm_process_text(path, text, sizeof(text));
	/* Field 22; the second field ends with the last parenthesis and may hold anything. */
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		sscanf(at, " %" SCNu64, &start);
	return start;
}

/* Start times count from boot: the note tells boots apart. */
static uint64_t
shm_process_boot(void)
{
	char text[64];

	shm_process_text("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	return XXH3_64bits(text, strlen(text)) >> 32;
}

static void
shm_process_note(pid_t pid, uint64_t note[2])
{
	note[0] = shm_process_boot() << 32 | (uint32_t)pid;
	note[1] = shm_process_start(pid);
}

/* Has the other end of the socket been closed? */
static bool
shm_process_hung_up(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLRDHUP };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLRDHUP)) != 0;
}

int
shm_process_peer(int sock, struct shm_process *out)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int pidfd;

	/* 0: a process of another pid namespace. */
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || cred.pid <= 0)
		return -FAR_ENOTSUP;
	len = sizeof(pidfd);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) != 0) {
		if ((pidfd = shm_pidfd_open(cred.pid)) < 0)
			return -FAR_ENOTSUP;
		/* Its id was not given to another process in between: its end of the socket is still open. */
		if (shm_process_hung_up(sock)) {
			close(pidfd);
			return -FAR_ENOTSUP;
		}
	}
	fcntl(pidfd, F_SETFD, FD_CLOEXEC);
	out->pid = cred.pid;
	out->pidfd = pidfd;
	shm_process_note(cred.pid, out->note);
	return 0;
}

/* One line of /proc/PID/maps; what follows the end of a long line is none. */
static bool
shm_process_map_line(const char *line, uint64_t *start, struct shm_file_id *id)
{
	return sscanf(line, "%" SCNx64 "-%*x %*s %*x %x:%x %" SCNu64, start, &id->major, &id->minor,
		      &id->ino) == 4;
}

bool
shm_process_mapped(const void *base, struct shm_file_id *out)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	uint64_t start;
	char line[512];

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = shm_process_map_line(line, &start, out) && start == (uintptr_t)base;
	if (maps)
		fclose(maps);
	return found && out->ino != 0;
}

/* Does the process map the file? When that cannot be told: yes. */
static bool
shm_process_maps(pid_t pid, const struct shm_file_id *file)
{
	bool found = false, failed;
	char path[64], line[512];
	struct shm_file_id id;
	uint64_t start;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	if ((maps = fopen(path, "re")) == NULL)
		return true;
	while (!found && fgets(line, sizeof(line), maps))
		found = shm_process_map_line(line, &start, &id) && id.major == file->major &&
			id.minor == file->minor && id.ino == file->ino;
	failed = ferror(maps);
	fclose(maps);
	return found || failed;
}

int
shm_process_kill(const struct shm_process *p)
{
	/* This process itself: it embeds the node. */
	if (p->pid == getpid())
		return -FAR_EACCESS;
	if (syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0) == 0 || errno == ESRCH)
		return -FAR_EAGAIN;
	return -FAR_EACCESS;
}

int
shm_process_end(const uint64_t note[2], const struct shm_file_id *file, struct shm_why *why)
{
	struct shm_process p = { .pid = (pid_t)(note[0] & 0x7fffffff) };
	struct pollfd ended;
	uint64_t now[2];
	int err = 0;

	if (p.pid <= 0 || (p.pidfd = shm_pidfd_open(p.pid)) < 0)
		return p.pid <= 0 || errno == ESRCH || errno == EINVAL
			       ? 0
			       : shm_why(why, -FAR_EACCESS,
					 "cannot watch process %d, a client of the last run: %s",
					 (int)p.pid, strerror(errno));
	/* The pidfd stands for one process: if that is the one of the note, it stays so. */
	shm_process_note(p.pid, now);
	if (now[0] == note[0] && now[1] == note[1] && (!file || shm_process_maps(p.pid, file))) {
		err = shm_process_kill(&p);
		ended = (struct pollfd){ .fd = p.pidfd, .events = POLLIN };
		if (err == -FAR_EAGAIN)
			err = poll(&ended, 1, SHM_PROCESS_WAIT_MS) == 1 ? 1 : -FAR_EACCESS;
	}
	close(p.pidfd);
	if (err < 0)
		shm_why(why, err,
			"process %d, a client of the last run, still maps the region and cannot be stopped",
			(int)p.pid);
	return err;
}
