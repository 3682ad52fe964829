/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_uri.c -- parses tcp: URIs. */
#include "fabric/tcp_uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farside/error.h>

#include "base/base.h"

static int
tcp_uri_wrong(char *why, unsigned why_len, unsigned node, const char *what)
{
	snprintf(why, why_len, "memory node %u: %s", node, what);
	return -FAR_EINVAL;
}

/* A port is 0 to 65535 in decimal; 0 lets a listening node choose. */
static bool
tcp_uri_port(const char *text, size_t len, char port[6])
{
	unsigned n = 0;

	if (len == 0 || len > 5)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (unsigned)(text[i] - '0');
	}
	snprintf(port, 6, "%u", n);
	return n <= 65535;
}

/* Parses `len` bytes "HOST:PORT"; NULL, or what is wrong. */
static const char *
tcp_uri_place(const char *text, size_t len, struct tcp_place *out)
{
	const char *host = text, *end = memchr(text, ']', len), *colon;
	size_t host_len;

	if (len > 0 && text[0] == '[') {
		if (!end)
			return "an address in brackets lacks the ']'";
		host = text + 1;
		host_len = (size_t)(end - host);
		colon = end + 1;
	} else {
		colon = memchr(text, ':', len);
		host_len = colon ? (size_t)(colon - text) : len;
	}
	if (host_len == 0)
		return "the host is missing";
	if (colon && (size_t)(text + len - colon) >= 3 && memcmp(colon, "://", 3) == 0)
		return "the scheme stands once, before the first node";
	if (host_len >= sizeof(out->host))
		return "the host's name is too long";
	if (!colon || colon >= text + len || *colon != ':')
		return "the port is missing: expected HOST:PORT";
	colon++;
	if (!tcp_uri_port(colon, (size_t)(text + len - colon), out->port))
		return "a port is a number up to 65535";
	memcpy(out->host, host, host_len);
	out->host[host_len] = '\0';
	return NULL;
}

/* Copies an option's value of `len` bytes; false: empty or too long. */
static bool
tcp_uri_value(const char *text, size_t len, char *out, size_t max)
{
	if (len == 0 || len >= max)
		return false;
	memcpy(out, text, len);
	out[len] = '\0';
	return true;
}

/* One option of RDMA devices; NULL, or what is wrong. */
static const char *
tcp_uri_rdma(const char *text, size_t len, struct tcp_uri *out)
{
	char number[6];

	if (len > 7 && strncmp(text, "device=", 7) == 0)
		return tcp_uri_value(text + 7, len - 7, out->device, sizeof(out->device))
			       ? NULL
			       : "the device's name is too long";
	if (len > 4 && strncmp(text, "gid=", 4) == 0) {
		if (!tcp_uri_port(text + 4, len - 4, number) || atoi(number) > 255)
			return "a GID's index is a number up to 255";
		out->gid = atoi(number);
		return NULL;
	}
	out->no_windows = len == 10 && strncmp(text, "windows=no", 10) == 0;
	return out->no_windows
		       ? NULL
		       : "behind '?' only key=FILE, device=NAME, gid=INDEX and windows=no are known";
}

static const char *
tcp_uri_query(const char *query, bool rdma, struct tcp_uri *out)
{
	for (const char *at = query;; at++) {
		size_t len = rdma ? strcspn(at, "&") : strlen(at);
		const char *wrong = NULL;

		if (len > 4 && strncmp(at, "key=", 4) == 0)
			wrong = tcp_uri_value(at + 4, len - 4, out->key, sizeof(out->key))
					? NULL
					: "the key file's name is too long";
		else
			wrong = rdma ? tcp_uri_rdma(at, len, out)
				     : "behind '?' only key=FILE is known";
		at += len;
		if (wrong || *at == '\0')
			return wrong;
	}
}

int
tcp_uri_parse(const char *spec, bool rdma, struct tcp_uri *out, char *why, unsigned why_len)
{
	const char *at = spec + 2, *wrong, *query = strchr(spec, '?');
	const char *end = query ? query : spec + strlen(spec);

	memset(out, 0, sizeof(*out));
	out->gid = -1;
	if (strncmp(spec, "//", 2) != 0) {
		snprintf(why, why_len, "expected %s://HOST:PORT[,HOST:PORT...]",
			 rdma ? "verbs" : "tcp");
		return -FAR_EINVAL;
	}
	for (;; at++) {
		size_t len = strcspn(at, ",?");

		if (out->nodes_n == FAR_NODES_MAX)
			return tcp_uri_wrong(why, why_len, out->nodes_n, "a pool has at most 16");
		wrong = tcp_uri_place(at, len, &out->nodes[out->nodes_n]);
		if (wrong)
			return tcp_uri_wrong(why, why_len, out->nodes_n, wrong);
		out->nodes_n++;
		at += len;
		if (at == end)
			break;
	}
	if (query && (wrong = tcp_uri_query(query + 1, rdma, out)) != NULL) {
		snprintf(why, why_len, "%s", wrong);
		return -FAR_EINVAL;
	}
	return 0;
}
