package host

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/runner/leader"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// describe says what kind of host this is.
func describe(ctx context.Context) *nstancev1.MachineHost {
	d := &nstancev1.MachineHost{Arch: runtime.GOARCH, Cgroup: "v1"}
	d.BootId, _ = leader.HostBootID() // empty where it cannot be read, as all of these
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		d.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if text, err := os.ReadFile("/proc/cmdline"); err == nil {
		d.KernelArguments = strings.TrimSpace(string(text[:min(len(text), 4096)]))
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		d.Cgroup = "v2"
	}
	d.Os = release()
	d.Cpus, d.MemoryBytes = int32(processors()), memory()
	if out, err := command.Run(exec.CommandContext(ctx, "systemd-detect-virt")); err == nil && out.Code == 0 {
		d.Virtualization = strings.TrimSpace(string(out.Text))
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return d
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			d.Addresses = append(d.Addresses, prefix.Addr().String())
		}
	}
	slices.Sort(d.Addresses)
	d.Addresses = d.Addresses[:min(len(d.Addresses), 16)]
	return d
}

// release is what the operating system calls itself; empty: it does not say.
func release() string {
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); found {
				if unquoted, err := strconv.Unquote(value); err == nil {
					value = unquoted
				}
				return strings.ToValidUTF8(value[:min(len(value), 128)], "")
			}
		}
	}
	return ""
}

// processors are those that the host has; this program may be confined to fewer.
func processors() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU()
	}
	count := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || to < from {
			return runtime.NumCPU()
		}
		count += to - from + 1
	}
	return count
}

// memory is what the host has, in bytes; 0: it is not known.
func memory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if n, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 && err == nil {
			return kib << 10
		}
	}
	return 0
}

// Bounds of what a report says of name servers and paths, in bytes: all of it has to fit a report.
const (
	mostResolvConf = 4 << 10
	mostPaths      = 16 << 10
)

// facts are what the files of the latest assignment's machine depend on beside that.
func (p planner) facts(m *nstancev1.MachineAssignment, local policy.Policy) (*nstancev1.MachineFacts, error) {
	about, err := facts.Read(m.GetTemplate(), p.opts.Facts)
	if err != nil {
		return nil, err
	}
	f := &nstancev1.MachineFacts{StateDir: p.opts.Dir, Paths: map[string]string{}, SshUsers: p.users(local, m)}
	for _, slot := range journal.Slots() {
		f.Machines = append(f.Machines, p.opts.Name(slot))
	}
	f.ResolvConf, f.PodResolvConf = lines(about.ResolvConf), lines(about.PodResolvConf)
	size := 0
	for _, path := range slices.Sorted(maps.Keys(about.Paths)) {
		if size += len(path) + len(about.Paths[path]) + 8; size > mostPaths {
			f.PathsCut = true
			break
		}
		f.Paths[path] = about.Paths[path]
	}
	return f, nil
}

// lines are as many whole lines of a text as a report has room for.
func lines(text string) string {
	if len(text) <= mostResolvConf {
		return text
	}
	return text[:strings.LastIndexByte(text[:mostResolvConf], '\n')+1]
}
