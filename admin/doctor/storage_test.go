package doctor_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/clusterops"
	"nstance.dev/admin/doctor"
	"nstance.dev/server/objectstore"
)

func TestStorage(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	ends := func(left ...time.Duration) *clusterops.State {
		state := &clusterops.State{}
		for _, l := range left {
			state.Authority = append(state.Authority, clusterops.AuthorityState{Subject: "CN=example", NotAfter: now.Add(l)})
		}
		return state
	}
	for name, test := range map[string]struct {
		state *clusterops.State
		err   error
		want  []string // beginnings of "level detail"
	}{
		"an authority for years":            {ends(3650 * day), nil, []string{"ok 0 configurations, 0 operators"}},
		"an authority for 401 days":         {ends(401 * day), nil, []string{"ok "}},
		"an authority for 399 days":         {ends(399 * day), nil, []string{"warning a certificate of the authority ends in 399 days"}},
		"an old one behind the new one":     {ends(3650*day, 30*day), nil, []string{"warning a certificate of the authority ends in 30 days"}},
		"no authority":                      {ends(), nil, []string{"failed the cluster has no certificate authority yet"}},
		"no bucket":                         {nil, fmt.Errorf("read: %w", fs.ErrNotExist), []string{"failed it does not exist"}},
		"no permission":                     {nil, errors.New("s3: AccessDenied"), []string{"failed access is denied"}},
		"a storage that does not answer":    {nil, fmt.Errorf("list: %w", objectstore.ErrUnavailable), []string{"failed it does not answer"}},
		"settings that are not the servers": {nil, fmt.Errorf("open: %w", clusterops.ErrSettings), []string{"failed open: "}},
		"another error":                     {nil, errors.New("boom"), []string{"failed boom"}},
	} {
		found := doctor.Storage("bucket", test.state, test.err, now)
		if len(found) != len(test.want) {
			t.Errorf("%s: %v, want %q", name, found, test.want)
			continue
		}
		for i, f := range found {
			if !strings.HasPrefix(string(f.Level)+" "+f.Detail, test.want[i]) {
				t.Errorf("%s: %s %s, want %q", name, f.Level, f.Detail, test.want[i])
			}
			if f.Level != doctor.OK && f.Remedy == "" {
				t.Errorf("%s: %s has no remedy", name, f.Detail)
			}
		}
	}
}
