package proxmox_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// doors are nodes through which a cluster can be reached, by host name.
type doors struct {
	http.RoundTripper
	mu    sync.Mutex
	shut  map[string]string // how a node fails
	only  string            // of calls whose path ends so; empty: of all
	calls map[string]int
	paths map[string]string // of the last call
	// each is told of every call before it is made, counted from 1.
	each func(n int)
	n    int
}

func newDoors(cloud *proxmoxfake.Cloud) *doors {
	return &doors{RoundTripper: wire.RoundTripper(cloud), shut: map[string]string{}, calls: map[string]int{}, paths: map[string]string{}}
}

const (
	away     = "no route to host"
	breaks   = "the connection breaks after the call"
	noQuorum = "no quorum"
)

func (d *doors) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	d.n++
	if d.each != nil {
		d.each(d.n)
	}
	how := d.shut[r.URL.Host]
	if !strings.HasSuffix(r.URL.Path, d.only) {
		how = ""
	}
	d.calls[r.URL.Host]++
	d.paths[r.URL.Host] = r.URL.Path
	d.mu.Unlock()
	switch {
	case how == away:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New(away)}
	case how == noQuorum && r.Method != http.MethodGet:
		return &http.Response{StatusCode: http.StatusInternalServerError, Status: "500 cluster not ready - no quorum?", Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	case how == breaks:
		if res, err := d.RoundTripper.RoundTrip(r); err == nil {
			_ = res.Body.Close()
		}
		return nil, io.ErrUnexpectedEOF
	}
	return d.RoundTripper.RoundTrip(r)
}

func (d *doors) set(host, how string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut[host] = how
}

func openDoors(t *testing.T, d *doors) *proxmox.Driver {
	t.Helper()
	opts := proxmox.Options{
		URL: "https://pve1:8006, https://pve2:8006", Shard: "one", Transport: d,
		TokenID: proxmoxfake.DefaultToken.ID, TokenSecret: proxmoxfake.DefaultToken.Secret,
	}
	opened, err := proxmox.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// A node that is away, or has lost the quorum, is left for another one, and calls stay
// there until that one fails.
func TestF30_AnotherAddressOfTheAPI(t *testing.T) {
	for _, how := range []string{away, noQuorum} {
		synctest.Test(t, func(t *testing.T) {
			cloud := proxmoxfake.New(quick)
			defer cloud.Close()
			nodes := newDoors(cloud)
			d := openDoors(t, nodes)
			made(t, d, requestFor(t, onLVM()))
			if nodes.calls["pve2:8006"] > 0 {
				t.Errorf("%s: the second address is asked though the first answers", how)
			}
			nodes.set("pve1:8006", how)
			before := nodes.calls["pve1:8006"]
			req := requestFor(t, onLVM())
			if m, err := d.Create(t.Context(), req); err != nil || m.InstanceID != req.InstanceID {
				t.Errorf("%s: create: %v", how, err)
			}
			if asked := nodes.calls["pve1:8006"] - before; how == away && asked != 1 {
				t.Errorf("%s: the first address was asked %d times, want once", how, asked)
			}
			nodes.set("pve1:8006", "")
			nodes.set("pve2:8006", how)
			made(t, d, requestFor(t, onLVM()))
			if n := len(cloud.Machines()); n != 3 {
				t.Errorf("%s: there are %d machines, want 3", how, n)
			}
			nodes.set("pve1:8006", how)
			_, err := d.Create(t.Context(), requestFor(t, onLVM()))
			if driver.ClassOf(err) != driver.Transient || len(cloud.Machines()) != 3 {
				t.Errorf("%s everywhere: %v, want %s", how, err, driver.Transient)
			}
		})
	}
}

// Whenever in a create a node goes away, or takes a call and never answers again: there is
// one machine. A call that may have arrived is not sent to another node by itself.
func TestF30_NodeOfTheAPIGoesAwayInACreate(t *testing.T) {
	for _, how := range []string{away, breaks} {
		calls := callsOf(t, func(t *testing.T, _ *proxmoxfake.Cloud, d *proxmox.Driver) { made(t, d, requestFor(t, onLVM())) })
		for n := 1; n <= calls; n++ {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(quick)
				defer cloud.Close()
				nodes := newDoors(cloud)
				nodes.each = func(at int) {
					if at == n {
						nodes.shut["pve1:8006"] = how
					}
				}
				d, req := openDoors(t, nodes), requestFor(t, onLVM())
				made(t, d, req)
				machines, volumes := traces(cloud)
				if len(machines) != 1 || len(volumes) != 2 || !strings.Contains(machines[0], "running true") {
					t.Errorf("%s at call %d: there is %q, %q", how, n, machines, volumes)
				}
			})
		}
	}
}

// A call that counts each time is not sent to another node when its answer is lost.
func TestF19_LostAnswerIsNotAskedForElsewhere(t *testing.T) {
	for path, do := range map[string]func(*testing.T, *proxmox.Driver, driver.CreateRequest) error{
		"/status/reset": func(t *testing.T, d *proxmox.Driver, req driver.CreateRequest) error {
			return d.Power(t.Context(), driver.Ref{InstanceID: req.InstanceID}, driver.PowerCycle)
		},
		"/clone": func(t *testing.T, d *proxmox.Driver, _ driver.CreateRequest) error {
			_, err := d.Create(t.Context(), requestFor(t, onLVM()))
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			cloud := proxmoxfake.New(quick)
			defer cloud.Close()
			nodes, req := newDoors(cloud), requestFor(t, onLVM())
			d := openDoors(t, nodes)
			made(t, d, req)
			before := cloud.Gate.Count("POST /nodes/{node}/qemu/{vmid}" + path)
			nodes.only = path
			nodes.set("pve1:8006", breaks)
			if err := do(t, d, req); driver.ClassOf(err) != driver.Ambiguous || err == nil {
				t.Errorf("%s: %v, want %s", path, err, driver.Ambiguous)
			}
			if n := cloud.Gate.Count("POST /nodes/{node}/qemu/{vmid}"+path) - before; n != 1 {
				t.Errorf("%s arrived %d times, want once", path, n)
			}
		})
	}
}

// checked starts a driver as a server does and returns what it says, as an error or a log.
func checked(t *testing.T, token proxmoxfake.Token, secret string) string {
	t.Helper()
	cloud := proxmoxfake.New(proxmoxfake.Options{Tokens: []proxmoxfake.Token{token}})
	defer cloud.Close()
	var log bytes.Buffer
	d, err := proxmox.New(proxmox.Options{
		URL: "https://pve1:8006", Shard: "one", TokenID: token.ID, TokenSecret: secret,
		Transport: wire.RoundTripper(cloud), Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context()); err != nil {
		return string(driver.ClassOf(err)) + ": " + err.Error()
	}
	return log.String()
}

// A wrong token shows when the server starts. A cluster that does not answer is no reason
// not to: it may answer when this server leads.
func TestTokenIsCheckedAtTheStart(t *testing.T) {
	token := proxmoxfake.DefaultToken
	if said := checked(t, token, "another"); !strings.HasPrefix(said, "auth: ") || strings.Contains(said, "another") {
		t.Errorf("a wrong secret: %q", said)
	}
	nodes := newDoors(proxmoxfake.New(proxmoxfake.Options{}))
	nodes.set("pve1:8006", away)
	nodes.set("pve2:8006", away)
	if err := openDoors(t, nodes).Check(t.Context()); err != nil {
		t.Errorf("a cluster that is away: %v", err)
	}
}

// By its fingerprint a certificate is taken that no authority vouches for, and no other one.
func TestFingerprints(t *testing.T) {
	cloud := proxmoxfake.New(proxmoxfake.Options{})
	defer cloud.Close()
	server := httptest.NewUnstartedServer(cloud)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // refused handshakes
	server.StartTLS()
	defer server.Close()
	sum := sha256.Sum256(server.Certificate().Raw)
	right, wrong := hex.EncodeToString(sum[:]), strings.Repeat("AB:", 31)+"AB"
	for name, c := range map[string]struct {
		value any
		says  string // of the error; empty: none
	}{
		"the right one": {right, ""}, "one of two": {[]any{wrong, strings.ToUpper(right)}, ""},
		"another one": {wrong, "which is not in fingerprints"}, "none": {nil, "certificate"},
	} {
		from := map[string]any{"insecure_tls": c.value != nil} // which fingerprints count before
		if c.value != nil {
			from["fingerprints"] = c.value
		}
		opts, err := proxmox.ParseOptions(from)
		if err != nil {
			t.Fatal(err)
		}
		opts.URL, opts.TokenID, opts.TokenSecret = server.URL, proxmoxfake.DefaultToken.ID, proxmoxfake.DefaultToken.Secret
		d, err := proxmox.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		err = d.Check(t.Context())
		if (err == nil) != (c.says == "") || err != nil && (driver.ClassOf(err) != driver.Auth || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.says)
		}
	}
}
