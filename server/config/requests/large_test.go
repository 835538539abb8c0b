//go:build !race

// The files here are as large as a group file may be. The race detector makes each of their
// bytes twenty times as slow, and finds nothing: one goroutine writes and reads them.

package requests_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
)

// TestS24_AllTenantsAtTheirQuotas: each tenant fills what it may fill, with groups
// and with pauses, and the file can still be read, by a leader with a longer term and
// a configuration that has one static group less.
func TestS24_AllTenantsAtTheirQuotas(t *testing.T) {
	for _, others := range []int{0, 2, 40} {
		t.Run(fmt.Sprintf("%d tenants", others+1), func(t *testing.T) {
			cfg := configtest.SharedConfig(t, others)
			file := &groupfile.File{Static: effective.StaticCopy(cfg)}
			var quota *groupfile.QuotaError
			for i := range others + 1 {
				tenant := document.DefaultTenant
				if i > 0 {
					tenant = fmt.Sprintf("t%d", i)
				}
				var err error
				for n, size := 0, 200<<10; err == nil || size > 4096; n++ {
					change := requests.GroupChange{Template: "plain", Vars: map[string]string{"v": strings.Repeat("<", size/6)}} // 6 bytes each in JSON
					if err = upsert(file, cfg, tenant, fmt.Sprintf("g%d", n), change); err != nil {
						size /= 2 // the last gaps, too
					}
					if n == 0 {
						p := groupfile.Pause{Scope: groupfile.PauseTenant, Reason: strings.Repeat("<", groupfile.MaxPauseReason)}
						if err := pause(file, cfg, tenant, p); err != nil {
							t.Fatal(err)
						}
					}
				}
				if !errors.As(err, &quota) {
					t.Fatalf("refused with %v, want a quota", err)
				}
			}
			file.Term = math.MaxInt64
			data, err := groupfile.Encode(file)
			if err != nil {
				t.Fatal(err)
			}
			most := (others + 1) * cfg.GroupBytes(document.DefaultTenant)
			if n := len(data); n > groupfile.MaxBytes || n < most*9/10 {
				t.Errorf("%d bytes, want nearly the %d of all quotas", n, most)
			}
			configtest.Reread(t, file)
		})
	}
}
