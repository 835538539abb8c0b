package proxmox_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// A machine that does not run says who stopped it, or that it has ended by itself; one that
// runs, or that is deleted by us, says nothing.
func TestReasonOfAMachineThatDoesNotRun(t *testing.T) {
	ada := proxmoxfake.Token{ID: "ada@pam!laptop", Secret: "s"}
	for name, c := range map[string]struct {
		does func(t *testing.T, cloud *proxmoxfake.Cloud, req driver.CreateRequest)
		want string // a part; empty: no reason
	}{
		"nothing": {func(*testing.T, *proxmoxfake.Cloud, driver.CreateRequest) {}, ""},
		"somebody stops it": {func(t *testing.T, cloud *proxmoxfake.Cloud, _ driver.CreateRequest) {
			m := cloud.Machines()[0]
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://pve.invalid/api2/json/nodes/"+m.Node+"/qemu/10000/status/stop", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "PVEAPIToken="+ada.ID+"="+ada.Secret)
			res, err := wire.RoundTripper(cloud).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}, "qmstop by ada@pam at "},
		"it dies": {func(_ *testing.T, cloud *proxmoxfake.Cloud, req driver.CreateRequest) {
			cloud.Kill(string(req.InstanceID))
		}, "has ended by itself"},
		"the node does not say": {func(_ *testing.T, cloud *proxmoxfake.Cloud, req driver.CreateRequest) {
			cloud.Kill(string(req.InstanceID))
			cloud.Gate.SetFaults(wire.Always("GET /nodes/{node}/tasks", wire.Fault{Kind: driver.Auth}))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(proxmoxfake.Options{Tokens: []proxmoxfake.Token{proxmoxfake.DefaultToken, ada}})
				defer cloud.Close()
				d, req := open(t, cloud), requestFor(t, onLVM())
				made(t, d, req)
				c.does(t, cloud, req)
				time.Sleep(time.Minute)
				for by, m := range map[string]driver.Machine{"get": get(t, d, driver.Ref{InstanceID: req.InstanceID}), "list": listed(t, d)} {
					if !strings.Contains(m.Reason, c.want) || (c.want == "") != (m.Reason == "") {
						t.Errorf("%s: %s, because %q; want %q", by, m.Status, m.Reason, c.want)
					}
				}
			})
		})
	}
}

func listed(t *testing.T, d *proxmox.Driver) driver.Machine {
	t.Helper()
	list, err := d.List(t.Context(), owner)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}
