package preflight

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Prober finds out about a host. Its zero value looks at this one. It changes nothing and may be
// used by several goroutines.
type Prober struct {
	// Proc, Sys and Modules stand for /proc, /sys and /lib/modules in tests; empty: those.
	Proc, Sys, Modules string
	// MachinesDir is where machines are built; empty: /var/lib/machines. It need not exist yet.
	MachinesDir string
	// Own says whether a process belongs to a node machine of this host; nil: none does.
	Own func(pid int) bool
	// Asker asks over the network; the zero value is good.
	Asker Asker
}

// Targets are what is asked over the network; empty: not asked.
type Targets struct {
	// APIServer is the address of the API server, CABundle the certificates that its certificate is
	// verified with, PEM.
	APIServer, CABundle string
	// ImageSources are the addresses that the image can be fetched from: any answer of one of them
	// will do.
	ImageSources []Source
	// Modules of the kernel that are looked for.
	Modules []string
}

// Source is an address that is asked.
type Source struct {
	Address string
	// CABundle are the certificates that its certificate is verified with, PEM; empty: the host's.
	CABundle string
}

// Probe looks at the host. What cannot be found out is an error, beside all that could be; a
// host of which part is not known is not one to build on. It ends with ctx.
func (p Prober) Probe(ctx context.Context, t Targets) (Facts, error) {
	f := Facts{Root: os.Geteuid() == 0}
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("find out about %s: %w", what, err))
		}
	}
	var err error
	f.Capabilities, err = p.capabilities()
	note("capabilities", err)
	f.Init, err = p.name(1)
	note("the first process", err)
	f.Nspawn, f.SystemdVersion, err = nspawn(ctx)
	note("systemd-nspawn", err)
	f.Unified, f.Controllers, err = p.cgroups()
	note("control groups", err)
	f.Swap, err = p.swap()
	note("swap", err)
	f.Kubelets, err = p.kubelets()
	note("kubelets", err)
	f.PortHolder, err = p.portHolder(KubeletPort)
	note("the kubelet's port", err)
	f.DiskFree, err = free(orDefault(p.MachinesDir, "/var/lib/machines"))
	note("the disk", err)
	f.Modules, err = p.modules(t.Modules)
	note("kernel modules", err)
	f.Network = p.Asker.ask(ctx, t)
	return f, errors.Join(errs...)
}

func orDefault(dir, standard string) string {
	if dir == "" {
		return standard
	}
	return dir
}

func (p Prober) proc(elements ...string) string {
	return filepath.Join(append([]string{orDefault(p.Proc, "/proc")}, elements...)...)
}

// capabilities are those in force of this process.
func (p Prober) capabilities() (uint64, error) {
	text, err := os.ReadFile(p.proc("self", "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "CapEff:"); found {
			return strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	return 0, errors.New("/proc/self/status has no line CapEff")
}

// name is that of a process, as the kernel has it.
func (p Prober) name(pid int) (string, error) {
	text, err := os.ReadFile(p.proc(strconv.Itoa(pid), "comm"))
	return strings.TrimSpace(string(text)), err
}

// nspawn is where systemd-nspawn is, and the version that it is of.
func nspawn(ctx context.Context) (string, int, error) {
	name, err := exec.LookPath("systemd-nspawn")
	if err != nil {
		return "", 0, nil //nolint:nilerr // that it is missing is what was to be found out
	}
	out, err := exec.CommandContext(ctx, name, "--version").Output()
	if err != nil {
		return name, 0, err
	}
	v, err := systemdVersion(string(out))
	return name, v, err
}

// systemdVersion reads the number from what a program of systemd says of its version, such as
// `systemd 252 (252.39-1)`.
func systemdVersion(text string) (int, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 || fields[0] != "systemd" {
		return 0, fmt.Errorf("%.80q does not tell a version", text)
	}
	number := fields[1]
	if end := strings.IndexFunc(number, func(c rune) bool { return c < '0' || c > '9' }); end > 0 {
		number = number[:end]
	}
	return strconv.Atoi(number)
}

// cgroups says whether control groups are of version 2 alone, and which controllers they have.
func (p Prober) cgroups() (unified bool, controllers []string, err error) {
	text, err := os.ReadFile(filepath.Join(orDefault(p.Sys, "/sys"), "fs/cgroup/cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	return true, strings.Fields(string(text)), nil
}

func (p Prober) swap() (bool, error) {
	text, err := os.ReadFile(p.proc("swaps"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // a kernel without swap
	}
	// The first line names the columns.
	return bytes.Count(bytes.TrimSpace(text), []byte("\n")) > 0, err
}

// processes are the IDs of all that run.
func (p Prober) processes() ([]int, error) {
	entries, err := os.ReadDir(p.proc())
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

func (p Prober) own(pid int) bool { return p.Own != nil && p.Own(pid) }

// kubelets are the kubelets that are not in a node machine of this host.
func (p Prober) kubelets() ([]int, error) {
	pids, err := p.processes()
	return slices.DeleteFunc(pids, func(pid int) bool {
		name, err := p.name(pid)
		return err != nil || name != "kubelet" || p.own(pid) // it may have ended meanwhile
	}), err
}

// free are the bytes that are free in a directory, or in the next one above it that exists.
func free(dir string) (uint64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if errors.Is(err, fs.ErrNotExist) && dir != "/" {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", dir, err)
		}
		return st.Bavail * uint64(st.Bsize), nil
	}
}

// modules returns those that are loaded, built into the kernel, or can be loaded.
func (p Prober) modules(wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	release, err := os.ReadFile(p.proc("sys/kernel/osrelease"))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(orDefault(p.Modules, "/lib/modules"), strings.TrimSpace(string(release)))
	known := map[string]bool{}
	for _, list := range []string{p.proc("modules"), filepath.Join(dir, "modules.builtin"), filepath.Join(dir, "modules.dep")} {
		if err := listed(list, known); err != nil {
			return nil, err
		}
	}
	var found []string
	for _, module := range wanted {
		// Some kernels have it built in and say so nowhere but in what it does.
		if known[underscored(module)] || p.works(module) {
			found = append(found, module)
		}
	}
	return found, nil
}

// listed adds the modules that a list names, by the first word of each line: a name, or a path to a file.
func listed(list string, known map[string]bool) error {
	f, err := os.Open(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		word, _, _ := strings.Cut(lines.Text(), " ")
		name, _, _ := strings.Cut(filepath.Base(strings.TrimSuffix(word, ":")), ".ko")
		known[underscored(name)] = true
	}
	return lines.Err()
}

// underscored is a module's name as the kernel has it: files of modules may have hyphens.
func underscored(module string) string { return strings.ReplaceAll(module, "-", "_") }

// works says whether what a module does is there.
func (p Prober) works(module string) bool {
	if _, err := os.Stat(filepath.Join(orDefault(p.Sys, "/sys"), "module", underscored(module))); err == nil {
		return true
	}
	switch module {
	case "br_netfilter":
		_, err := os.Stat(p.proc("sys/net/bridge/bridge-nf-call-iptables"))
		return err == nil
	default:
		text, err := os.ReadFile(p.proc("filesystems"))
		return err == nil && slices.Contains(strings.Fields(string(text)), module)
	}
}
