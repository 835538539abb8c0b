package pavertest

import "nstance.dev/agent/paver/preflight"

// Facts are those of a host on which node machines can be built, as services of systemd.
func Facts() preflight.Facts {
	return preflight.Facts{
		Root: true, Capabilities: 1<<64 - 1, Init: "systemd", SystemdVersion: 255, Nspawn: "/usr/bin/systemd-nspawn", Unified: true,
		Controllers: []string{"cpu", "io", "memory", "pids"}, DiskFree: 100 << 30, Modules: []string{"br_netfilter", "overlay"},
	}
}
