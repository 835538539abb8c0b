package report_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/files"
	"nstance.dev/agent/report"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// host is a tree that looks like /proc and /sys.
type host struct {
	t    *testing.T
	root string
}

func newHost(t *testing.T) *host {
	h := &host{t, t.TempDir()}
	h.write("proc/stat", stat(100, 0, 100, 800))
	h.write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    250 kB\n")
	h.write("proc/uptime", "3723.45 7000.00\n")
	h.write("proc/sys/kernel/random/boot_id", "6b1c8a5e-0000-4000-8000-000000000000\n")
	h.write("proc/sys/net/netfilter/nf_conntrack_count", "12\n")
	h.write("proc/sys/net/netfilter/nf_conntrack_max", "65536\n")
	for name, value := range map[string]string{
		"rx_bytes": "1", "tx_bytes": "2", "rx_packets": "3", "tx_packets": "4", "rx_dropped": "0", "tx_dropped": "18446744073709551615",
	} {
		h.write("sys/class/net/eth0/statistics/"+name, value+"\n")
	}
	return h
}

// stat has two cores that did the same, in hundredths of a second.
func stat(user, nice, system, idle int) string {
	line := func(name string, n int) string {
		var b strings.Builder
		b.WriteString(name)
		for _, v := range []int{user, nice, system, idle, 0, 0, 0, 0, user, 0} { // all of user's is a guest's
			b.WriteString(" " + strconv.Itoa(v*n))
		}
		return b.String() + "\n"
	}
	return line("cpu ", 2) + line("cpu0", 1) + line("cpu1", 1) + "ctxt 1\nbtime 1767323045\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
}

func (h *host) write(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) remove(name string) {
	h.t.Helper()
	if err := os.RemoveAll(filepath.Join(h.root, name)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) collector(id identity.ID, iface string) *report.Collector {
	h.t.Helper()
	c, err := report.New(report.Options{
		Version: "1.2.3", InstanceID: id, Interface: iface,
		Proc: filepath.Join(h.root, "proc"), Sys: filepath.Join(h.root, "sys"),
		Now: func() time.Time { return now },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func TestCollect(t *testing.T) {
	h, id := newHost(t), agenttest.NewID(t)
	c := h.collector(id, "eth0")
	h.write("proc/stat", stat(125, 0, 100, 875)) // a quarter of the time in between
	sum := sha256.Sum256([]byte("content"))
	got, err := c.Collect(report.Next, map[string]files.Status{
		"in.crt": {ModTime: now.Add(-time.Hour), SHA256: sum}, "bad.json": {Error: "not valid JSON"}, "gone.env": {},
	}, "sha256:1")
	if err != nil {
		t.Fatal(err)
	}
	want := &nstancev1.HealthReport{
		Version: "1.2.3", InstanceId: id.String(), Timestamp: timestamppb.New(now), Count: 1, Uptime: "1h2m3.45s", ConfigHash: "sha256:1",
		Metrics: &nstancev1.Metrics{
			CpuUsage: proto.Float64(25), CpuCoreUsage: []float64{25, 25}, MemoryUsage: proto.Float64(75),
			NetworkInterface: &nstancev1.NetworkInterface{
				InterfaceName: "eth0", RxBytes: proto.Uint64(1), TxBytes: proto.Uint64(2), RxPackets: proto.Uint64(3),
				TxPackets: proto.Uint64(4), RxDrops: proto.Uint64(0), TxDrops: proto.Uint64(1<<64 - 1),
			},
			ConntrackCount: proto.Uint64(12), ConntrackMax: proto.Uint64(65536),
		},
		Files: map[string]*nstancev1.FileStatus{
			"in.crt":   {State: &nstancev1.FileStatus_LastModified{LastModified: timestamppb.New(now.Add(-time.Hour))}, Sha256: sum[:]},
			"bad.json": {State: &nstancev1.FileStatus_Error{Error: "not valid JSON"}},
			"gone.env": {},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("report differs (-want +got):\n%s", diff)
	}
	if boot, err := c.BootID(); boot != "6b1c8a5e-0000-4000-8000-000000000000" || err != nil {
		t.Errorf("boot id %q, %v", boot, err)
	}
}

func TestWhatIsNotMeasuredIsAbsent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*host)
		check func(*nstancev1.Metrics) bool
		err   string
	}{
		{"no time has passed", func(*host) {}, func(m *nstancev1.Metrics) bool { return m.CpuUsage == nil && m.CpuCoreUsage == nil }, ""},
		{"counters went back", func(h *host) { h.write("proc/stat", stat(1, 0, 1, 1)) },
			func(m *nstancev1.Metrics) bool { return m.CpuUsage == nil }, ""},
		{"no cpu times", func(h *host) { h.remove("proc/stat") }, func(m *nstancev1.Metrics) bool { return m.CpuUsage == nil && m.MemoryUsage != nil }, "measure cpu"},
		{"no memory", func(h *host) { h.remove("proc/meminfo") }, func(m *nstancev1.Metrics) bool { return m.MemoryUsage == nil }, "measure memory"},
		{"an old kernel", func(h *host) { h.write("proc/meminfo", "MemTotal: 1000 kB\n") }, func(m *nstancev1.Metrics) bool { return m.MemoryUsage == nil }, "measure memory"},
		{"no interface", func(h *host) { h.remove("sys/class/net/eth0") },
			func(m *nstancev1.Metrics) bool {
				return m.NetworkInterface == nil && strings.Contains(m.GetNetworkInterfaceError(), "eth0")
			}, ""},
		{"a counter that is none", func(h *host) { h.write("sys/class/net/eth0/statistics/rx_bytes", "many") },
			func(m *nstancev1.Metrics) bool {
				return m.NetworkInterface == nil && strings.Contains(m.GetNetworkInterfaceError(), "rx_bytes")
			}, ""},
		{"no connection tracking", func(h *host) { h.remove("proc/sys/net/netfilter") },
			func(m *nstancev1.Metrics) bool {
				return m.ConntrackCount == nil && m.ConntrackMax == nil && m.GetConntrackError() != "" && m.NetworkInterface != nil
			}, ""},
		{"no uptime", func(h *host) { h.write("proc/uptime", "long") }, func(m *nstancev1.Metrics) bool { return true }, "uptime"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			c := h.collector(agenttest.NewID(t), "eth0")
			tt.spoil(h)
			got, err := c.Collect(report.Next, nil, "")
			if !tt.check(got.GetMetrics()) {
				t.Errorf("metrics %v", got.GetMetrics())
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestWithoutAnInterfaceNothingIsSaidAboutNetworks(t *testing.T) {
	h := newHost(t)
	got, err := h.collector(agenttest.NewID(t), "").Collect(report.Next, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if m := got.GetMetrics(); m.NetworkInterface != nil || m.NetworkInterfaceError != nil || m.ConntrackCount != nil || m.ConntrackError != nil {
		t.Errorf("metrics %v", m)
	}
}

func TestReportsAreNumbered(t *testing.T) {
	h := newHost(t)
	c := h.collector(agenttest.NewID(t), "")
	for _, tt := range []struct {
		n    report.Numbered
		want int64
	}{{report.Next, 1}, {report.Next, 2}, {report.Single, 0}, {report.Next, 3}} {
		if got, err := c.Collect(tt.n, nil, ""); err != nil || got.GetCount() != tt.want {
			t.Errorf("count %d, error %v; want %d", got.GetCount(), err, tt.want)
		}
	}
}

func TestARealMachineCanBeMeasured(t *testing.T) {
	c, err := report.New(report.Options{Version: "1.2.3", InstanceID: agenttest.NewID(t)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Collect(report.Next, nil, "")
	if err != nil || got.GetMetrics().MemoryUsage == nil || got.GetUptime() == "" {
		t.Errorf("report %v, error %v", got, err)
	}
}
