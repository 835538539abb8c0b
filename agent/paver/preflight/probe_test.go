package preflight_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/agent/paver/preflight"
)

// host is a made-up host: /proc, /sys and /lib/modules.
type host struct {
	*testing.T
	dir string
}

func newHost(t *testing.T) host {
	h := host{t, t.TempDir()}
	h.file("proc/self/status", "Name:\tx\nCapEff:\t000001fffeffffff\n")
	h.file("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n")
	h.process(1, "systemd")
	return h
}

func (h host) file(name, content string) {
	h.Helper()
	name = filepath.Join(h.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		h.Fatal(err)
	}
}

// process adds one with the sockets that it has open.
func (h host) process(pid int, name string, sockets ...string) {
	h.Helper()
	dir := "proc/" + strconv.Itoa(pid)
	h.file(dir+"/comm", name+"\n")
	if err := os.MkdirAll(filepath.Join(h.dir, dir, "fd"), 0o700); err != nil {
		h.Fatal(err)
	}
	for i, socket := range sockets {
		if err := os.Symlink("socket:["+socket+"]", filepath.Join(h.dir, dir, "fd", strconv.Itoa(i))); err != nil {
			h.Fatal(err)
		}
	}
}

func (h host) prober() preflight.Prober {
	return preflight.Prober{
		Proc: filepath.Join(h.dir, "proc"), Sys: filepath.Join(h.dir, "sys"), Modules: filepath.Join(h.dir, "modules"), MachinesDir: filepath.Join(h.dir, "not", "yet"),
	}
}

func (h host) probe(p preflight.Prober, t preflight.Targets) preflight.Facts {
	h.Helper()
	f, err := p.Probe(h.Context(), t)
	if err != nil {
		h.Fatal(err)
	}
	if f.DiskFree == 0 {
		h.Error("no disk is free")
	}
	// What is of this host.
	f.DiskFree, f.Root, f.Nspawn, f.SystemdVersion = 0, false, "", 0
	return f
}

func TestProbe_Host(t *testing.T) {
	h := newHost(t)
	if diff := cmp.Diff(preflight.Facts{Init: "systemd", Capabilities: 0x1fffeffffff}, h.probe(h.prober(), preflight.Targets{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a host with nothing:\n%s", diff)
	}
	h.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
	h.file("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids\n")
	h.file("proc/modules", "overlay 151552 0 - Live 0x0\n")
	h.file("proc/filesystems", "nodev\tsysfs\n\text4\n")
	h.file("modules/6.1.0-13-amd64/modules.builtin", "kernel/net/ipv4/tunnel-4.ko\n")
	h.file("modules/6.1.0-13-amd64/modules.dep", "kernel/net/bridge/br_netfilter.ko.xz: kernel/net/bridge/bridge.ko.xz\n")
	h.file("sys/module/nf_conntrack/refcnt", "1")
	want := preflight.Facts{
		Init: "systemd", Capabilities: 0x1fffeffffff, Unified: true, Controllers: []string{"cpu", "io", "memory", "pids"},
		Modules: []string{"overlay", "br_netfilter", "tunnel_4", "nf_conntrack", "ext4"},
	}
	wanted := preflight.Targets{Modules: []string{"overlay", "br_netfilter", "tunnel_4", "nf_conntrack", "ext4", "bridge", "ip_vs"}}
	if diff := cmp.Diff(want, h.probe(h.prober(), wanted), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a host with everything:\n%s", diff)
	}
	h.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 1 0 -2\n")
	h.file("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n")
	if err := os.RemoveAll(filepath.Join(h.dir, "modules")); err != nil {
		t.Fatal(err)
	}
	got := h.probe(h.prober(), wanted)
	if !got.Swap || !cmp.Equal(got.Modules, []string{"overlay", "br_netfilter", "nf_conntrack", "ext4"}) {
		t.Errorf("without lists of modules: %+v", got)
	}
}

const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:280A 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 500 1
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 501 1
`

// TestM91_Probe_Kubelets: kubelets of node machines are none of the host's, everything else is.
func TestM91_Probe_Kubelets(t *testing.T) {
	listens := func(inode string) string {
		return tcpTable + "   2: 00000000000000000000000000000000:280A 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 " + inode + " 1\n"
	}
	own := func(pid int) bool { return pid == 300 }
	for _, tt := range []struct {
		name     string
		make     func(h host)
		kubelets []int
		holder   string
	}{
		{"none", func(h host) { h.file("proc/net/tcp", tcpTable) }, nil, ""},
		{"one of the host", func(h host) { h.process(200, "kubelet", "900"); h.file("proc/net/tcp6", listens("900")) }, []int{200}, "kubelet (process 200)"},
		{"one of the node machine", func(h host) { h.process(300, "kubelet", "900"); h.file("proc/net/tcp6", listens("900")) }, nil, ""},
		{"both", func(h host) {
			h.process(300, "kubelet", "900")
			h.process(200, "kubelet")
			h.file("proc/net/tcp6", listens("900"))
		}, []int{200}, ""},
		{"another program on the port", func(h host) { h.process(200, "exporter", "7", "900"); h.file("proc/net/tcp", listens("900")) }, nil, "exporter (process 200)"},
		{"nobody to be seen on the port", func(h host) { h.file("proc/net/tcp", listens("900")) }, nil, "an unknown process"},
		{"a connection from the port", func(h host) { h.process(200, "curl", "500"); h.file("proc/net/tcp", tcpTable) }, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			tt.make(h)
			p := h.prober()
			p.Own = own
			got := h.probe(p, preflight.Targets{})
			if !cmp.Equal(got.Kubelets, tt.kubelets) && len(got.Kubelets)+len(tt.kubelets) > 0 || got.PortHolder != tt.holder {
				t.Errorf("kubelets %v, port held by %q", got.Kubelets, got.PortHolder)
			}
		})
	}
}

// TestProbe_SaysWhatItCannotFindOut, and tells the rest.
func TestProbe_SaysWhatItCannotFindOut(t *testing.T) {
	h := newHost(t)
	h.file("proc/self/status", "Name: x\n")
	f, err := h.prober().Probe(t.Context(), preflight.Targets{})
	if err == nil || !strings.Contains(err.Error(), "find out about capabilities") || f.Init != "systemd" {
		t.Errorf("found %+v, error %v", f, err)
	}
}

// TestProbe_ThisHost: whatever it is like, all of it can be found out.
func TestProbe_ThisHost(t *testing.T) {
	f, err := preflight.Prober{}.Probe(t.Context(), preflight.Targets{Modules: []string{"overlay"}})
	if err != nil || f.Init == "" || f.DiskFree == 0 {
		t.Errorf("found %+v, error %v", f, err)
	}
}

func TestProbe_Network(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.Add(-90*time.Second).Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	registry := httptest.NewServer(http.RedirectHandler("https://192.0.2.1/", http.StatusFound))
	defer registry.Close()
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	closed := httptest.NewServer(nil)
	closed.Close()

	h := newHost(t)
	p := h.prober()
	p.Asker = preflight.Asker{Now: func() time.Time { return now }}
	f := h.probe(p, preflight.Targets{APIServer: server.URL, CABundle: bundle, ImageSources: []preflight.Source{{Address: closed.URL}, {Address: server.URL, CABundle: "x"}, {Address: registry.URL}}})
	if n := f.Network; n.Resolution == nil || n.Resolution.Err != nil || n.APIServer == nil || n.APIServer.Err != nil || n.ImageSource == nil || n.ImageSource.Err != nil {
		t.Errorf("found %+v", n)
	}
	if f.Network.Skew == nil || *f.Network.Skew != 90*time.Second {
		t.Errorf("the clock is %v ahead", f.Network.Skew)
	}

	f = h.probe(p, preflight.Targets{APIServer: server.URL, CABundle: "x", ImageSources: []preflight.Source{{Address: closed.URL}, {Address: server.URL}}})
	if n := f.Network; n.APIServer.Err == nil || n.ImageSource.Err == nil || n.Skew != nil {
		t.Errorf("without certificates and registry: %+v", n)
	}
	f = h.probe(p, preflight.Targets{ImageSources: []preflight.Source{{Address: server.URL, CABundle: bundle}}})
	if n := f.Network; n.ImageSource.Err != nil || n.APIServer != nil {
		t.Errorf("with a mirror's certificate: %+v", n.ImageSource)
	}
	f = h.probe(p, preflight.Targets{APIServer: closed.URL, CABundle: bundle})
	if f.Network.APIServer.Err == nil || f.Network.ImageSource != nil {
		t.Errorf("without an API server: %+v", f.Network)
	}

	p.Asker.Lookup = func(context.Context, string) ([]string, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "api.invalid"}
	}
	f = h.probe(p, preflight.Targets{APIServer: "https://api.invalid:6443", CABundle: bundle})
	if f.Network.Resolution.Err == nil || f.Network.Resolution.Asked != "api.invalid" {
		t.Errorf("a name that does not exist: %+v", f.Network.Resolution)
	}
}
