/* SPDX-License-Identifier: Apache-2.0 */
/* cxx_test.cc -- the public headers from C++: they compile, link and work. */
#include <farside/error.h>
#include <farside/fabric.h>
#include <farside/far.h>
#include <farside/fiber.h>

#include <cstdio>
#include <string>

extern "C" {
#include "fabric/shm_node.h"
}

static int cases, failures;

static void
check(bool ok, const char *what)
{
	std::printf("%s %d %s\n", ok ? "ok" : "not ok", ++cases, what);
	failures += !ok;
}

int
main()
{
	const std::string key = "dev:1", value(1000, 'x');
	shm_child node = {};
	shm_why why;
	far *f = nullptr;
	far_table *t = nullptr;
	far_value v;

	check(shm_node_spawn(64 << 20, &node, &why) == 0, "spawn");
	check(far_open(node.uri, nullptr, &f) == 0, "open");
	check(far_table_create(f, "t", nullptr) == 0, "create");
	check(far_table_open(f, "t", &t) == 0, "open table");
	check(far_put(t, far_bytes(key.data(), key.size()), far_bytes(value.data(), value.size()),
		      nullptr) == 0,
	      "put");
	check(far_get(t, FAR_STR("dev:1"), &v) == 0, "get");
	check(value == std::string(static_cast<const char *>(v.bytes.data), v.bytes.len), "value");
	check(std::string(far_errname(far_get(t, far_str("no"), &v))) == "FAR_ENOENT", "errname");
	far_table_close(t);
	far_close(f);
	shm_node_stop(&node);
	std::printf("1..%d\n", cases);
	return failures != 0;
}
