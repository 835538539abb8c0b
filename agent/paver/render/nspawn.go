package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// nspawn writes the settings of the machine. It needs real root, all capabilities, and the
// system calls of containers in it; it has the host's network.
func (r *renderer) nspawn(mounts []mount) {
	var text strings.Builder
	text.WriteString(`[Exec]
Boot=yes
Capability=all
PrivateUsers=no
SystemCallFilter=@keyring bpf
KillSignal=SIGRTMIN+3
ResolvConf=off
Hostname=` + hostname(r.a.GetNodeName()) + "\n")
	environment := r.t.GetMachine().GetEnvironment()
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		field := "machine.environment." + name
		switch value := environment[name]; {
		case !variable.MatchString(name) || len(name) > 256:
			r.problem("machine.environment", "%q is not the name of a variable", name)
		case len(value) > 1024:
			r.problem(field, "is longer than 1024 bytes")
		case !r.line(field, value):
		case strings.Contains(value, `"`) && strings.Contains(value, "'"):
			r.problem(field, "must not contain quotes of both kinds: systemd-nspawn could not tell where it ends")
		default:
			text.WriteString("Environment=" + nspawnWord(name+"="+value) + "\n")
		}
	}
	text.WriteString("\n[Network]\nVirtualEthernet=no\n")
	if len(mounts) > 0 {
		text.WriteString("\n[Files]\n")
	}
	for _, m := range mounts {
		key := "Bind="
		if m.readOnly {
			key = "BindReadOnly="
		}
		text.WriteString(key + nspawnPath(m.source) + ":" + nspawnPath(m.target) + "\n")
	}
	r.onHost(NspawnFile(r.host.Machine), text.String())
}

// nspawnWord writes a word for a list in an .nspawn file, where quotes of one kind hold
// everything but themselves. The word has no control characters and not both kinds of quotes.
func nspawnWord(word string) string {
	if strings.Contains(word, `"`) {
		return "'" + word + "'"
	}
	return `"` + word + `"`
}

// nspawnPath writes one of the two paths of a bind.
func nspawnPath(p string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(p)
}

// service writes the settings of the service that the host's systemd runs the machine in.
func (r *renderer) service(mounts []mount) {
	limits := r.t.GetMachine().GetLimits()
	tasks := "infinity"
	if limits.GetTasksMax() > 0 {
		tasks = fmt.Sprint(limits.GetTasksMax())
	}
	stop := r.timeout("timeouts.stop", r.t.GetTimeouts().GetStop(), 3*time.Minute)
	var text strings.Builder
	text.WriteString("[Unit]\nStartLimitIntervalSec=0\n\n[Service]\n")
	for _, variable := range ServiceEnvironment {
		text.WriteString("Environment=" + variable + "\n")
	}
	// A systemd-machined that was restarted keeps a registration that is in the way of the next start.
	text.WriteString("ExecStartPre=-/usr/bin/machinectl terminate " + r.host.Machine + "\n")
	fmt.Fprintf(&text, "Restart=on-failure\nRestartSec=10\nDelegate=yes\nTasksMax=%s\nTimeoutStopSec=%d\n", tasks, int(stop.Seconds()+0.999))
	for _, limit := range []struct {
		field, key, unit string
		value            int64
	}{
		{"machine.limits.memoryMax", "MemoryMax", "", limits.GetMemoryMaxBytes()},
		{"machine.limits.cpuQuota", "CPUQuota", "%", int64(limits.GetCpuQuotaPercent())},
		{"machine.limits.tasksMax", "", "", limits.GetTasksMax()},
	} {
		switch {
		case limit.value < 0:
			r.problem(limit.field, "%d must not be negative", limit.value)
		case limit.value > 0 && limit.key != "":
			fmt.Fprintf(&text, "%s=%d%s\n", limit.key, limit.value, limit.unit)
		}
	}
	for _, m := range mounts {
		if m.device {
			text.WriteString("DeviceAllow=" + m.target + " rwm\n")
		}
	}
	r.onHost(DropIn(r.host.Machine), text.String())
}
