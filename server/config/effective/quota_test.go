package effective_test

import (
	"fmt"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
)

func TestS12_QuotaOf(t *testing.T) {
	many := make([]string, 99)
	for i := range many {
		many[i] = fmt.Sprintf(`"t%d": {}`, i)
	}
	quota := func(machines, groups, bytes int) document.TenantQuota {
		return document.TenantQuota{Machines: machines, Groups: groups, Bytes: bytes}
	}
	for _, c := range []struct {
		name, tenants, server, tenant string
		want                          document.TenantQuota
	}{
		{"one tenant has no limits but the number of groups", ``, ``, "default", quota(document.NoQuota, document.MaxTenantGroups, document.NoQuota)},
		{"one tenant, limited", ``, `, "default_quota": {"machines": 7}`, "default", quota(7, document.MaxTenantGroups, document.NoQuota)},
		{"several tenants are limited", `"b": {}`, ``, "b", quota(10_000, 500, 1<<20)},
		{"the default tenant like the others", `"b": {}`, ``, "default", quota(10_000, 500, 1<<20)},
		{"a quota of one's own", `"b": {"quota": {"machines": 0, "groups": 3, "bytes": 4096}}`, ``, "b", quota(0, 3, 4096)},
		{"a part of it", `"b": {"quota": {"groups": 3}}`, ``, "b", quota(10_000, 3, 1<<20)},
		{"many tenants share the bytes", strings.Join(many, ","), ``, "t5", quota(10_000, 500, 6<<20/100)},
	} {
		cfg, err := config.Load("x.jsonc", []byte(configtest.Shared(c.tenants, c.server)), config.LoadOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := cfg.QuotaOf(c.tenant); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
