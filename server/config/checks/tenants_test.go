package checks_test

import (
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
)

func TestS12_QuotasThatAreRefused(t *testing.T) {
	for _, c := range []struct{ name, tenants, server, want string }{
		{"negative", `"b": {"quota": {"machines": -1}}`, ``, "tenants.b.quota.machines: -1 is out of range"},
		{"more groups than a tenant can have", `"b": {}`, `, "default_quota": {"groups": 5001}`, "server.default_quota.groups: 5001 is out of range"},
		{"more bytes than the group file holds", `"b": {"quota": {"bytes": 5000000}}, "d": {"quota": {"bytes": 3000000}}`, ``,
			"tenants: the quotas of all tenants come to 9048576 bytes of the group file, which has room for 7340032"},
		{"an unknown pool", `"b": {"subnet_pools": ["x"]}`, ``, `tenants.b.subnet_pools[0]: there is no subnet pool "x"`},
	} {
		_, err := config.Load("x.jsonc", []byte(configtest.Shared(c.tenants, c.server)), config.LoadOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
