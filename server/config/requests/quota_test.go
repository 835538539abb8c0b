package requests_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
)

// TestS12_CheckQuota: what grows may not grow beyond the quota of its tenant; what shrinks or
// stays may, however much the tenant has.
func TestS12_CheckQuota(t *testing.T) {
	cfg := configtest.SharedConfig(t, 1)
	limit := func(machines, groups int) {
		tenant := cfg.Tenants["t1"]
		tenant.Quota = document.Quota{Machines: &machines, Groups: &groups}
		cfg.Tenants["t1"] = tenant
	}
	file := configtest.FileWith("t1", "a", groupfile.Entry{Template: "plain", Size: new(4)})
	for _, tt := range []struct {
		name             string
		machines, groups int
		key              string
		size             int
		growth           int
		refused          *groupfile.QuotaError
	}{
		{"within it", 6, 2, "b", 2, 2, nil},
		{"one machine more", 5, 2, "b", 2, 0, &groupfile.QuotaError{Field: "machines", Would: 6, Limit: 5}},
		{"one group more", 9, 1, "b", 0, 0, &groupfile.QuotaError{Field: "groups", Would: 2, Limit: 1}},
		{"a group that is there", 9, 1, "a", 5, 1, nil},
		{"grows beyond it", 5, 1, "a", 6, 0, &groupfile.QuotaError{Field: "machines", Would: 6, Limit: 5}},
		{"shrinks above it", 1, 1, "a", 3, 0, nil},
		{"stays above it", 1, 0, "a", 4, 0, nil},
	} {
		limit(tt.machines, tt.groups)
		entry := groupfile.Entry{Template: "plain", Size: &tt.size}
		sum := func(sizes map[string]int) (n int) {
			for _, size := range sizes {
				n += size
			}
			return n
		}
		growth, err := requests.CheckQuota(cfg, file, "t1", tt.key, entry, sum)
		var refused *groupfile.QuotaError
		errors.As(err, &refused)
		if diff := cmp.Diff(tt.refused, refused); diff != "" || growth != tt.growth || (err != nil) != (refused != nil) {
			t.Errorf("%s: growth %d, want %d; %v (-want +got):\n%s", tt.name, growth, tt.growth, err, diff)
		}
	}
	if growth, err := requests.CheckQuota(cfg, nil, "default", "b", groupfile.Entry{Template: "plain", Size: new(3)}, func(sizes map[string]int) int {
		if diff := cmp.Diff(map[string]int{"fixed": 1, "b": 3}, sizes); diff != "" {
			t.Errorf("the sizes of a tenant without a group file (-want +got):\n%s", diff)
		}
		return 4
	}); err != nil || growth != 3 {
		t.Errorf("without a group file: growth %d, %v", growth, err)
	}
}
