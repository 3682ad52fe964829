/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c -- finding and parsing profiles. */
#include "lab/profile.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "lab/datadir.h"

enum {
	PROFILE_LEN = 64 << 10, /* bytes of a file at most */
	PROFILE_PATH = 4096,
	PROFILE_DIRS = 4,
};

/* Keys -------------------------------------------------------------------------------------------------------- */

enum profile_unit {
	PROFILE_NS,
	PROFILE_GBIT,
	PROFILE_COUNT,
	PROFILE_FLAG,
};

struct profile_key {
	const char *name;
	enum profile_unit unit;
	size_t at;
	double max;
};

#define PROFILE_GBIT_MIN 1e-3

#define PROFILE_KEY(name, unit, member, max)                                                       \
	{                                                                                          \
		name, unit, offsetof(struct nic_profile, member), max                              \
	}
#define PROFILE_TIME(name, member) PROFILE_KEY(name "_ns", PROFILE_NS, member, 1e9)
#define PROFILE_WIRE(name, member) PROFILE_KEY(name "_gbit", PROFILE_GBIT, member, 1e6)
#define PROFILE_NUMBER(name, member, max) PROFILE_KEY(name, PROFILE_COUNT, member, max)

static const struct profile_key profile_keys[] = {
	PROFILE_TIME("rtt", rtt),
	PROFILE_TIME("operation", operation),
	PROFILE_TIME("wake", wake),
	PROFILE_TIME("doorbell", doorbell),
	PROFILE_TIME("request", request),
	PROFILE_TIME("contention", contention),
	PROFILE_NUMBER("contention_half", contention_half, 1e6),
	PROFILE_TIME("client_message", client_message),
	PROFILE_WIRE("client_out", client_out),
	PROFILE_WIRE("client_in", client_in),
	PROFILE_NUMBER("send_cache", send_cache, 1e9),
	PROFILE_TIME("send_miss", send_miss),
	PROFILE_TIME("node_message", node_message),
	PROFILE_TIME("node_batch", node_batch),
	PROFILE_WIRE("node_out", node_out),
	PROFILE_WIRE("node_in", node_in),
	PROFILE_TIME("atomic", atomic),
	PROFILE_TIME("atomic_same", atomic_same),
	PROFILE_TIME("call", call),
	PROFILE_NUMBER("pages", pages, NIC_PAGES_MAX),
	PROFILE_NUMBER("page_bytes", page_len, 1e12),
	PROFILE_TIME("page_miss", page_miss),
	PROFILE_NUMBER("page_overlap", page_overlap, 1e6),
	PROFILE_NUMBER("frame_bytes", frame, 1e4),
	PROFILE_NUMBER("mtu_bytes", mtu, 1e6),
	PROFILE_NUMBER("reads_max", reads_max, 1e6),
	PROFILE_NUMBER("credits", credits, 1e6),
	PROFILE_NUMBER("threads", threads, 1e4),
	PROFILE_NUMBER("queues", queues, 1e4),
	PROFILE_KEY("batch", PROFILE_FLAG, batch, 1),
	PROFILE_KEY("loads", PROFILE_FLAG, loads, 1),
};

/* A decimal number; for counts with k, m or g (powers of 1024). */
static bool
profile_number(const char *text, enum profile_unit unit, double *out)
{
	static const char suffixes[] = "kmg";
	const char *suffix;
	char *end;

	*out = strtod(text, &end);
	if (end == text || !isfinite(*out) || *out < 0)
		return false;
	if (unit == PROFILE_COUNT && *end && (suffix = strchr(suffixes, *end)) != NULL) {
		*out = ldexp(*out, 10 * (int)(suffix - suffixes + 1));
		end++;
	}
	return *end == '\0';
}

/* False: the value is none for this key. */
static bool
profile_set(struct nic_profile *p, const struct profile_key *k, const char *text)
{
	double value;
	uint64_t *to = (uint64_t *)((char *)p + k->at);

	if (!profile_number(text, k->unit, &value) || value > k->max)
		return false;
	if (k->unit == PROFILE_GBIT && value != 0 && value < PROFILE_GBIT_MIN)
		return false;
	switch (k->unit) {
	case PROFILE_NS:
		*to = (uint64_t)llround(value * NIC_PS);
		return true;
	case PROFILE_GBIT:
		/* Picoseconds per KiB. */
		*to = value > 0 ? (uint64_t)llround(1024 * 8 * 1e3 / value) : 0;
		return true;
	case PROFILE_COUNT:
		*to = (uint64_t)value;
		return (double)*to == value;
	default: /* PROFILE_FLAG */
		*((bool *)p + k->at) = value == 1;
		return value == 0 || value == 1;
	}
}

/* Parsing ----------------------------------------------------------------------------------------------------- */

/* Cuts blanks off both ends, in place. */
static char *
profile_trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && strchr(" \t\r", end[-1]))
		*--end = '\0';
	return text + strspn(text, " \t");
}

/* One line without its newline. NULL, or what is wrong with it. */
static const char *
profile_line(struct nic_profile *p, char *line, uint64_t *seen)
{
	char *equals, *value, *key;

	line[strcspn(line, "#")] = '\0';
	line = profile_trim(line);
	if (*line == '\0')
		return NULL;
	equals = strchr(line, '=');
	if (!equals)
		return "is not of the form key = value";
	*equals = '\0';
	key = profile_trim(line);
	value = profile_trim(equals + 1);
	for (size_t i = 0; i < FAR_LEN(profile_keys); i++) {
		if (strcmp(key, profile_keys[i].name) != 0)
			continue;
		if (*seen >> i & 1)
			return "sets its key a second time";
		*seen |= (uint64_t)1 << i;
		return profile_set(p, &profile_keys[i], value)
			       ? NULL
			       : "has no value that its key can take";
	}
	return "has a key that profiles do not have";
}

int
profile_parse(const char *text, const char *where, struct nic_profile *out, char *message,
	      size_t message_len)
{
	struct nic_profile p = { .rtt = 0 };
	uint64_t seen = 0;
	char line[256];

	for (unsigned number = 1; *text; number++) {
		size_t len = strcspn(text, "\n");
		const char *wrong = "is too long";

		if (len < sizeof(line)) {
			memcpy(line, text, len);
			line[len] = '\0';
			wrong = profile_line(&p, line, &seen);
		}
		if (wrong) {
			snprintf(message, message_len, "%.200s: line %u %s", where, number, wrong);
			return -FAR_EINVAL;
		}
		text += len + (text[len] == '\n');
	}
	if (!p.rtt || !p.credits || !p.threads) {
		snprintf(message, message_len, "%.200s: rtt_ns, credits and threads must not be 0",
			 where);
		return -FAR_EINVAL;
	}
	*out = p;
	return 0;
}

/* Finding ----------------------------------------------------------------------------------------------------- */

/* The i-th folder to look in; false: there is none. */
static bool
profile_dir(unsigned i, char dir[PROFILE_PATH])
{
	const char *named = getenv("FARSIDE_PROFILES");
	char *slash;
	ssize_t n;

	switch (i) {
	case 0:
		return named && snprintf(dir, PROFILE_PATH, "%s", named) < PROFILE_PATH;
	case 1:
	case 2:
		n = readlink("/proc/self/exe", dir, PROFILE_PATH - 64);
		if (n <= 0 || n == PROFILE_PATH - 64)
			return false;
		dir[n] = '\0';
		slash = strrchr(dir, '/');
		if (!slash)
			return false;
		strcpy(slash + 1, i == 1 ? "../share/farside/profiles"
					 : "../../share/farside/profiles");
		return true;
	default:
		return snprintf(dir, PROFILE_PATH, "%s/farside/profiles", FAR_DATADIR) <
		       PROFILE_PATH;
	}
}

/* Reads a whole file as text. -FAR_ENOENT, -FAR_EIO, -FAR_EINVAL (too long, or with a NUL). */
static int
profile_read(const char *path, char text[PROFILE_LEN])
{
	FILE *f = fopen(path, "re");
	size_t n;
	int err = 0;

	if (!f)
		return errno == ENOENT ? -FAR_ENOENT : -FAR_EIO;
	n = fread(text, 1, PROFILE_LEN, f);
	if (ferror(f))
		err = -FAR_EIO;
	else if (n == PROFILE_LEN || memchr(text, '\0', n))
		err = -FAR_EINVAL;
	else
		text[n] = '\0';
	fclose(f);
	return err;
}

static int
profile_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a name to the list unless it is in it. */
static void
profile_note(char *names[], size_t *n, size_t max, const char *file)
{
	size_t len = strlen(file);

	if (len < 5 || strcmp(file + len - 4, ".ini") != 0 || *n == max)
		return;
	for (size_t i = 0; i < *n; i++)
		if (strncmp(names[i], file, len - 4) == 0 && strlen(names[i]) == len - 4)
			return;
	if ((names[*n] = strndup(file, len - 4)) != NULL)
		++*n;
}

/* Says that there is no such profile, and which there are. */
static void
profile_missing(const char *name, char *message, size_t message_len)
{
	char *names[64], dir[PROFILE_PATH];
	size_t n = 0, at;
	struct dirent *e;

	for (unsigned i = 0; i < PROFILE_DIRS; i++) {
		DIR *d = profile_dir(i, dir) ? opendir(dir) : NULL;

		while (d && (e = readdir(d)) != NULL)
			profile_note(names, &n, FAR_LEN(names), e->d_name);
		if (d)
			closedir(d);
	}
	qsort(names, n, sizeof(*names), profile_by_name);
	snprintf(message, message_len, "there is no profile '%.60s'; %s", name,
		 n ? "there are" : "none is installed");
	for (size_t i = 0; i < n; i++) {
		at = strlen(message);
		snprintf(message + at, message_len - at, "%s %s", i ? "," : "", names[i]);
		free(names[i]);
	}
}

/* The text of the profile `name`. */
static int
profile_find(const char *name, char path[PROFILE_PATH], char text[PROFILE_LEN])
{
	char dir[PROFILE_PATH];
	int err = -FAR_ENOENT;

	if (strchr(name, '/')) {
		snprintf(path, PROFILE_PATH, "%s", name);
		return profile_read(path, text);
	}
	for (unsigned i = 0; i < PROFILE_DIRS && err == -FAR_ENOENT; i++) {
		if (profile_dir(i, dir) &&
		    snprintf(path, PROFILE_PATH, "%s/%s.ini", dir, name) < PROFILE_PATH)
			err = profile_read(path, text);
	}
	return err;
}

int
profile_load(const char *name, struct nic_profile *out, char *message, size_t message_len)
{
	char path[PROFILE_PATH], *text = malloc(PROFILE_LEN);
	int err = text ? profile_find(name, path, text) : -FAR_ENOMEM;

	if (err == 0)
		err = profile_parse(text, path, out, message, message_len);
	else if (err == -FAR_ENOENT)
		profile_missing(name, message, message_len);
	else
		snprintf(message, message_len, "profile '%.60s' cannot be read", name);
	if (err == 0)
		snprintf(out->name, sizeof(out->name), "%.31s", name);
	free(text);
	return err;
}
