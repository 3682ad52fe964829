/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_key.c -- key files, and HMAC-SHA256 by libcrypto. */
#include "fabric/tcp_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <farside/error.h>

/* The open file's mode and length. */
static int
tcp_key_examine(int fd, const char *file, char *why, size_t why_len)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		snprintf(why, why_len, "%s: not a regular file", file);
		return -FAR_EINVAL;
	}
	if ((st.st_mode & 077) != 0) {
		snprintf(why, why_len,
			 "%s: a key must belong to its user alone (mode 0600, not %04o)", file,
			 (unsigned)st.st_mode & 07777);
		return -FAR_EACCESS;
	}
	if (st.st_size < TCP_KEY_MIN || st.st_size > TCP_KEY_MAX) {
		snprintf(why, why_len, "%s: a key has %d to %d bytes, better 32 random ones", file,
			 TCP_KEY_MIN, TCP_KEY_MAX);
		return -FAR_EINVAL;
	}
	return 0;
}

int
tcp_key_read(const char *file, struct tcp_key *out, char *why, size_t why_len)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	ssize_t n;

	out->len = 0;
	if (fd < 0) {
		snprintf(why, why_len, "%s: %s", file, strerror(errno));
		return -FAR_EIO;
	}
	err = tcp_key_examine(fd, file, why, why_len);
	if (err == 0) {
		n = read(fd, out->bytes, sizeof(out->bytes));
		if (n >= TCP_KEY_MIN)
			out->len = (size_t)n;
		else
			err = -FAR_EIO;
		if (err)
			snprintf(why, why_len, "%s: cannot be read", file);
	}
	close(fd);
	return err;
}

void
tcp_key_wipe(struct tcp_key *k)
{
	OPENSSL_cleanse(k, sizeof(*k));
}

bool
tcp_nonce_fill(uint8_t nonce[TCP_NONCE])
{
	return RAND_bytes(nonce, TCP_NONCE) == 1;
}

/* Role, hello and the first `len` bytes of the welcome. */
static bool
tcp_prove(const struct tcp_key *k, const char role[8], const struct tcp_hello *h,
	  const struct tcp_welcome *w, size_t len, uint8_t mac[TCP_MAC])
{
	uint8_t said[8 + sizeof(*h) + sizeof(*w)];
	unsigned mac_len = 0;

	memcpy(said, role, 8);
	memcpy(said + 8, h, sizeof(*h));
	memcpy(said + 8 + sizeof(*h), w, len);
	return HMAC(EVP_sha256(), k->bytes, (int)k->len, said, 8 + sizeof(*h) + len, mac,
		    &mac_len) != NULL &&
	       mac_len == TCP_MAC;
}

bool
tcp_agent_prove(const struct tcp_key *k, const struct tcp_hello *h, const struct tcp_welcome *w,
		uint8_t mac[TCP_MAC])
{
	return tcp_prove(k, "agent\0\0", h, w, offsetof(struct tcp_welcome, mac), mac);
}

bool
tcp_client_prove(const struct tcp_key *k, const struct tcp_hello *h, const struct tcp_welcome *w,
		 uint8_t mac[TCP_MAC])
{
	return tcp_prove(k, "client\0", h, w, sizeof(*w), mac);
}

bool
tcp_mac_equal(const uint8_t a[TCP_MAC], const uint8_t b[TCP_MAC])
{
	return CRYPTO_memcmp(a, b, TCP_MAC) == 0;
}
