package preflight_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/preflight"
)

const gib = 1 << 30

// good is a host on which everything is as it should be.
func good() preflight.Facts {
	skew := 2 * time.Second
	return preflight.Facts{
		Root: true, Capabilities: 1<<12 | 1<<21 | 1<<24, Init: "systemd", SystemdVersion: 252, Nspawn: "/usr/bin/systemd-nspawn",
		Unified: true, Controllers: []string{"cpuset", "cpu", "io", "memory", "pids"}, DiskFree: 20 * gib, Modules: []string{"overlay", "br_netfilter"},
		Network: preflight.Network{
			Resolution: &preflight.Answer{Asked: "api.example.com"}, APIServer: &preflight.Answer{Asked: "https://api.example.com:6443"},
			ImageSource: &preflight.Answer{Asked: "https://registry.example.com"}, Skew: &skew,
		},
	}
}

func wants() preflight.Wants {
	return preflight.Wants{Mode: preflight.Service, Trees: 2 * gib, Modules: []string{"overlay", "br_netfilter"}}
}

// told are the checks that did not pass, as `ID: message`.
func told(checks []*nstancev1.PreflightCheck, result nstancev1.PreflightResult) []string {
	var all []string
	for _, c := range checks {
		if c.GetResult() == result {
			all = append(all, c.GetId()+": "+c.GetMessage())
		}
	}
	return all
}

func TestJudge(t *testing.T) {
	refused := errors.New("connection refused")
	for _, tt := range []struct {
		name     string
		change   func(f *preflight.Facts, w *preflight.Wants)
		failed   string
		degraded string
	}{
		{name: "all is well", change: func(*preflight.Facts, *preflight.Wants) {}},
		{name: "without systemd", change: func(f *preflight.Facts, w *preflight.Wants) {
			w.Mode, f.Init, f.SystemdVersion = preflight.Direct, "sh", 0
		}},
		{name: "not root", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Root = false }, failed: "Privileges: nstance-paver must run as root"},
		{name: "no CAP_NET_ADMIN", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Capabilities &^= 1 << 12 }, failed: "Privileges: root has no CAP_SYS_ADMIN or"},
		{name: "no CAP_SYS_ADMIN", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Capabilities &^= 1 << 21 }, failed: "Privileges: root has no CAP_SYS_ADMIN or"},
		{name: "no CAP_SYS_RESOURCE", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Capabilities &^= 1 << 24 }, failed: "Privileges: root has no CAP_SYS_RESOURCE"},
		{name: "no CAP_SYS_RESOURCE, put up with", change: func(f *preflight.Facts, w *preflight.Wants) { f.Capabilities &^= 1 << 24; w.AllowDegraded = true }, degraded: "Privileges: root has no CAP_SYS_RESOURCE"},
		{name: "another init", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Init = "runit" }, failed: `Systemd: the first process is "runit"`},
		{name: "systemd that is passed by", change: func(_ *preflight.Facts, w *preflight.Wants) { w.Mode = preflight.Direct }, failed: "Systemd: the first process is systemd"},
		{name: "an old systemd", change: func(f *preflight.Facts, _ *preflight.Wants) { f.SystemdVersion = 249 }, failed: "Systemd: systemd 249 is older than 250"},
		{name: "the oldest systemd", change: func(f *preflight.Facts, _ *preflight.Wants) { f.SystemdVersion = 250 }},
		{name: "no systemd-nspawn", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Nspawn = "" }, failed: "Nspawn: systemd-nspawn is not installed: install the package systemd-container"},
		{name: "control groups of version 1", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Unified = false }, failed: "CgroupV2: control groups are not"},
		{name: "control groups of version 1, put up with", change: func(f *preflight.Facts, w *preflight.Wants) { f.Unified, w.AllowDegraded = false, true }, degraded: "CgroupV2: control groups are not"},
		{name: "a controller is missing", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Controllers = []string{"cpu", "memory"} }, failed: "CgroupV2: control groups lack the controllers io, pids"},
		{name: "swap", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Swap = true }, failed: "Swap: swap is in use"},
		{name: "swap that the kubelet takes", change: func(f *preflight.Facts, w *preflight.Wants) { f.Swap, w.SwapAllowed = true, true }},
		{name: "too little disk", change: func(f *preflight.Facts, _ *preflight.Wants) { f.DiskFree = 4*gib - 1 }, failed: "DiskSpace: 4095 MiB are free and 4096 MiB needed"},
		{name: "just enough disk", change: func(f *preflight.Facts, _ *preflight.Wants) { f.DiskFree = 4 * gib }},
		{name: "no module", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Modules = f.Modules[:1] }, failed: "KernelModules: the kernel has no module br_netfilter"},
		{name: "no name", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Network.Resolution.Err = errors.New("no such host") }, failed: "NameResolution: api.example.com has no address: no such host"},
		{name: "no API server", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Network.APIServer.Err = refused }, failed: "APIServer: https://api.example.com:6443 does not answer: connection refused"},
		{name: "no registry", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Network.ImageSource.Err = refused }, failed: "ImageSource: https://registry.example.com does not answer"},
		{name: "a clock ahead", change: func(f *preflight.Facts, _ *preflight.Wants) { *f.Network.Skew = 61 * time.Second }, failed: "Clock: the host's clock is 1m1s off"},
		{name: "a clock behind", change: func(f *preflight.Facts, _ *preflight.Wants) { *f.Network.Skew = -2 * time.Minute }, failed: "Clock: the host's clock is -2m0s off"},
		{name: "a clock at the limit", change: func(f *preflight.Facts, _ *preflight.Wants) { *f.Network.Skew = time.Minute }},
		{name: "nothing is known of the network", change: func(f *preflight.Facts, _ *preflight.Wants) { f.Network = preflight.Network{} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, w := good(), wants()
			tt.change(&f, &w)
			checks := preflight.Judge(f, w)
			for result, want := range map[nstancev1.PreflightResult]string{
				nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED: tt.failed, nstancev1.PreflightResult_PREFLIGHT_RESULT_DEGRADED: tt.degraded,
			} {
				got := strings.Join(told(checks, result), "\n")
				if !strings.HasPrefix(got, want) || (want == "") != (got == "") || strings.Contains(got, "\n") {
					t.Errorf("%v: %q, want %q", result, got, want)
				}
			}
			if got, want := preflight.Passed(checks), tt.failed == ""; got != want {
				t.Errorf("passed is %t", got)
			}
		})
	}
}

// TestJudge_IDs: an ID may be the reason of a condition, and what is not known has no check.
func TestJudge_IDs(t *testing.T) {
	reason := regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	ids := func(f preflight.Facts) []string {
		var all []string
		for _, c := range preflight.Judge(f, wants()) {
			if !reason.MatchString(c.GetId()) {
				t.Errorf("%q cannot be a reason", c.GetId())
			}
			all = append(all, c.GetId())
		}
		return all
	}
	host := []string{"Privileges", "Systemd", "Nspawn", "CgroupV2", "Swap", "ForeignKubelet", "DiskSpace", "KernelModules"}
	f := good()
	if diff := cmp.Diff(slices.Concat(host, []string{"NameResolution", "APIServer", "Clock", "ImageSource"}), ids(f)); diff != "" {
		t.Errorf("checks:\n%s", diff)
	}
	f.Network = preflight.Network{}
	if diff := cmp.Diff(host, ids(f)); diff != "" {
		t.Errorf("checks without a network:\n%s", diff)
	}
	f = good()
	f.Network.APIServer.Err = errors.New(strings.Repeat("é", 600))
	for _, c := range preflight.Judge(f, wants()) {
		if len(c.GetMessage()) > 512 || strings.ToValidUTF8(c.GetMessage(), "") != c.GetMessage() {
			t.Errorf("%s has a message of %d bytes", c.GetId(), len(c.GetMessage()))
		}
	}
}

// TestM91_ForeignKubelet: a host has one kubelet, in a node machine.
func TestM91_ForeignKubelet(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pids    []int
		port    string
		message string
	}{
		{"none", nil, "", ""},
		{"a kubelet of the host", []int{812, 900}, "kubelet (process 812)", "ForeignKubelet: a kubelet runs on the host (process 812): take it out of image and user data, and replace the host"},
		{"another program on its port", nil, "node_exporter (process 77)", "ForeignKubelet: port 10250, which the kubelet needs, is taken by node_exporter (process 77)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := good()
			f.Kubelets, f.PortHolder = tt.pids, tt.port
			got := strings.Join(told(preflight.Judge(f, wants()), nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED), "\n")
			if got != tt.message {
				t.Errorf("told %q, want %q", got, tt.message)
			}
		})
	}
}
