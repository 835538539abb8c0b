package config

import (
	"fmt"
	"strings"
	"testing"
)

// shared is a configuration with tenants and what else the server has to say.
func shared(tenants, server string) string {
	return fmt.Sprintf(`{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"], "q": ["m"] }%s },
  "tenants": {%s}
}`, server, tenants)
}

func TestS12_QuotaOf(t *testing.T) {
	many := make([]string, 99)
	for i := range many {
		many[i] = fmt.Sprintf(`"t%d": {}`, i)
	}
	for _, c := range []struct {
		name, tenants, server, tenant string
		want                          TenantQuota
	}{
		{"one tenant has no limits but the number of groups", ``, ``, "default", TenantQuota{NoQuota, MaxTenantGroups, NoQuota}},
		{"one tenant, limited", ``, `, "default_quota": {"machines": 7}`, "default", TenantQuota{7, MaxTenantGroups, NoQuota}},
		{"several tenants are limited", `"b": {}`, ``, "b", TenantQuota{10_000, 500, 1 << 20}},
		{"the default tenant like the others", `"b": {}`, ``, "default", TenantQuota{10_000, 500, 1 << 20}},
		{"a quota of one's own", `"b": {"quota": {"machines": 0, "groups": 3, "bytes": 4096}}`, ``, "b", TenantQuota{0, 3, 4096}},
		{"a part of it", `"b": {"quota": {"groups": 3}}`, ``, "b", TenantQuota{10_000, 3, 1 << 20}},
		{"many tenants share the bytes", strings.Join(many, ","), ``, "t5", TenantQuota{10_000, 500, 6 << 20 / 100}},
	} {
		cfg, err := Load("x.jsonc", []byte(shared(c.tenants, c.server)), LoadOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := cfg.QuotaOf(c.tenant); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestS12_QuotasThatAreRefused(t *testing.T) {
	for _, c := range []struct{ name, tenants, server, want string }{
		{"negative", `"b": {"quota": {"machines": -1}}`, ``, "tenants.b.quota.machines: -1 is out of range"},
		{"more groups than a tenant can have", `"b": {}`, `, "default_quota": {"groups": 5001}`, "server.default_quota.groups: 5001 is out of range"},
		{"more bytes than the group file holds", `"b": {"quota": {"bytes": 5000000}}, "d": {"quota": {"bytes": 3000000}}`, ``,
			"tenants: the quotas of all tenants come to 9048576 bytes of the group file, which has room for 7340032"},
		{"an unknown pool", `"b": {"subnet_pools": ["x"]}`, ``, `tenants.b.subnet_pools[0]: there is no subnet pool "x"`},
	} {
		_, err := Load("x.jsonc", []byte(shared(c.tenants, c.server)), LoadOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
