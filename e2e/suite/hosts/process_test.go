//go:build hosts || hostservice || hostnodes

package hosts_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/socket"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const (
	pave   = nstancev1.MachineMode_MACHINE_MODE_PAVE
	repave = nstancev1.MachineMode_MACHINE_MODE_REPAVE
)

var paverProgram = flag.String("paver", "", "nstance-paver; empty: it is built")

// box is a host for one paver: its own /etc, its own parameters of the kernel and its own
// directories, in a mount namespace. What runs are real processes of this box.
type box struct {
	t        *testing.T
	dir      string
	program  string
	registry *registry
	nodes    *nodes
	holder   *exec.Cmd // keeps the namespace; nil: the host is this one, and systemd runs its machines
	process  *exec.Cmd // the paver; nil: none runs
	client   *socket.Client
	status   *nstancev1.MachineStatus
	sequence int32
	links    string // interfaces before
}

// sysctls are parameters that a paver sets; in the box they are files.
var sysctls = []string{
	"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward",
	"net/ipv6/conf/all/forwarding", "vm/overcommit_memory", "vm/panic_on_oom",
}

// newHost is what a box needs in any case. Its machines are made of an archive.
func newHost(t *testing.T, archive string) *box {
	t.Helper()
	b := &box{t: t, dir: t.TempDir(), nodes: hear(t)}
	b.program = filepath.Join(b.dir, "nstance-paver")
	if *paverProgram != "" {
		b.program = *paverProgram
	} else {
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", b.program, "nstance.dev/agent/cmd/nstance-paver")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build nstance-paver: %v: %s", err, out)
		}
	}
	b.registry = serve(t, archive)
	policy := fmt.Sprintf("allow: {pave: true, degraded: true}\nbinds: {allow: [%s]}\n", b.path("sys"))
	if err := os.WriteFile(b.path("policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	b.links = b.linkNames()
	return b
}

// newBox makes a host with nothing on it, for machines without Kubernetes. Machines are options of a
// tmpfs for machines; empty: they are on the disk.
func newBox(t *testing.T, machines string) *box {
	t.Helper()
	if machines != "" {
		machines = "-t tmpfs -o " + machines + " tmpfs"
	}
	return newBoxOf(t, archive(t), machines)
}

// newBoxOf makes a host with nothing on it, whose machines are made of an archive. Machines say to
// mount what the machines are on; empty: they are on the disk.
func newBoxOf(t *testing.T, archive, machines string) *box {
	t.Helper()
	b := newHost(t, archive)
	for _, dir := range []string{"etc", "etc-work", "sys", "machines", "run"} {
		if err := os.Mkdir(filepath.Join(b.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := []string{
		"set -e", "mount --make-rprivate /",
		fmt.Sprintf("mount -t overlay overlay -o lowerdir=/etc,upperdir=%[1]s/etc,workdir=%[1]s/etc-work /etc", b.dir),
	}
	if machines != "" {
		script = append(script, fmt.Sprintf("mount %s %s/machines", machines, b.dir))
	}
	for _, p := range sysctls {
		file := filepath.Join(b.dir, "sys", strings.ReplaceAll(p, "/", "."))
		if err := os.WriteFile(file, []byte("0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		script = append(script, fmt.Sprintf("mount --bind %s /proc/sys/%s", file, p))
	}
	script = append(script, "touch "+b.dir+"/mounted", "exec sleep infinity")
	b.holder = exec.Command("unshare", "--mount", "sh", "-c", strings.Join(script, "\n"))
	b.holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	b.eventually("the host's file systems", 10*time.Second, func() bool { return b.exists("mounted") })
	return b
}

func (b *box) close() {
	b.kill()
	if out, err := b.command("reset", "--wipe").CombinedOutput(); err != nil {
		b.t.Errorf("reset: %v: %s", err, out)
	}
	b.expectNothing()
	_ = b.holder.Process.Kill()
	_ = b.holder.Wait()
}

func (b *box) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(b.dir, path))
	return err == nil
}

func (b *box) path(path string) string { return filepath.Join(b.dir, path) }

// command is a call of nstance-paver on this host.
func (b *box) command(args ...string) *exec.Cmd {
	flags := []string{
		"--dir", b.path("state"), "--machines", b.path("machines"), "--run", b.path("run"), "--socket", b.path("run/paver.sock"),
		"--lock", b.path("lock"), "--policy", b.path("policy.yaml"), "--mode", "direct",
	}
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		flags = append([]string{args[0]}, append(flags, args[1:]...)...)
	}
	if b.holder == nil {
		cmd := exec.Command(b.program, append(flags, "--machines", "/var/lib/machines", "--mode", "service")...)
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+b.registry.roots)
		return cmd
	}
	cmd := exec.Command("nsenter", append([]string{"--mount", "--target", fmt.Sprint(b.holder.Process.Pid), "--", b.program}, flags...)...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+b.registry.roots)
	return cmd
}

// start starts the paver and connects to it.
func (b *box) start() {
	b.t.Helper()
	b.launch()
	b.eventually("a paver", 20*time.Second, func() bool {
		client, err := socket.Dial(b.t.Context(), b.path("run/paver.sock"), "test")
		if err == nil {
			b.client = client
		}
		return err == nil
	})
}

// launch starts the paver.
func (b *box) launch() {
	b.t.Helper()
	log, err := os.OpenFile(b.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	b.process = b.command()
	b.process.Stderr = log
	b.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// kill kills the paver, and only it.
func (b *box) kill() {
	if b.process == nil {
		return
	}
	_ = b.process.Process.Kill()
	_ = b.process.Wait()
	b.process = nil
	if b.client != nil {
		b.client.Close()
		b.client = nil
	}
}

func (b *box) eventually(what string, limit time.Duration, ok func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("never %s; %v\n%s", what, b.status, b.logEnd())
		}
	}
}

func (b *box) logEnd() string {
	text, _ := os.ReadFile(b.path("log"))
	return string(text[max(0, len(text)-6000):])
}

// assignment is one of this host's archive.
func (b *box) assignment(epoch int64, mode nstancev1.MachineMode, digit string) *nstancev1.MachineAssignment {
	return &nstancev1.MachineAssignment{
		MachineName: "m1", MachineUid: "uid-1", NodeName: "n1", Epoch: epoch, Mode: mode,
		Configuration: &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: int32(epoch), Uid: "c", Hash: "sha256:" + strings.Repeat(digit, 64)},
		ApiServer:     &nstancev1.MachineApiServer{Endpoint: b.registry.server.URL, CaBundle: b.registry.bundle()},
		Template: &nstancev1.MachineTemplate{
			Image: &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Archive{Archive: &nstancev1.MachineArchive{
				Url: b.registry.server.URL + "/root.tar", Sha256: b.registry.sha256,
			}}},
			Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3", ClusterDomain: "cluster.local"},
			Machine: &nstancev1.MachineSettings{
				Network: nstancev1.MachineNetwork_MACHINE_NETWORK_HOST,
				Files:   []*nstancev1.MachineFile{{Path: "/etc/stub-port", Content: b.nodes.port(), Mode: 0o644}, {Path: "/etc/content", Content: digit, Mode: 0o644}},
			},
		},
	}
}

// order gives an assignment, and a credential.
func (b *box) order(a *nstancev1.MachineAssignment) {
	b.t.Helper()
	b.take(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: a}})
	b.mint(a.GetEpoch())
}

func (b *box) take(w *nstancev1.MachineWork) {
	b.t.Helper()
	if err := b.client.Take(b.t.Context(), w); err != nil {
		b.t.Fatal(err)
	}
}

// until does what a server does until a report is as wanted: it makes credentials, and confirms
// Nodes whose kubelets it heard from.
func (b *box) until(what string, limit time.Duration, ok func(*nstancev1.MachineStatus) bool) *nstancev1.MachineStatus {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	for {
		s, err := b.client.Next(ctx)
		if err != nil {
			b.t.Fatalf("never %s: %v; %v\n%s", what, err, b.status, b.logEnd())
		}
		b.status = s
		if ok(s) {
			return s
		}
		if s.GetCredentialNeeded() {
			b.mint(s.GetEpoch())
		}
		if s.GetStage() != nstancev1.MachineStage_MACHINE_STAGE_JOIN {
			continue
		}
		for _, slot := range s.GetSlots() {
			if id := slot.GetBootId(); id != "" && b.nodes.heard(id) {
				b.take(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_NodeConfirmed{NodeConfirmed: &nstancev1.NodeConfirmed{Epoch: s.GetEpoch(), NodeUid: "node-" + id, BootId: id}}})
			}
		}
	}
}

func (b *box) mint(epoch int64) {
	b.t.Helper()
	b.sequence++
	text := fmt.Sprintf(`{"epoch":%d,"sequence":%d,"token":"marked-token","expiresAt":%q}`, epoch, b.sequence, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	c := &nstancev1.MachineCredential{}
	if err := protojson.Unmarshal([]byte(text), c); err != nil {
		b.t.Fatal(err)
	}
	b.take(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_CredentialUpdate{CredentialUpdate: c}})
}

func running(epoch int64) func(*nstancev1.MachineStatus) bool {
	return func(s *nstancev1.MachineStatus) bool {
		return s.GetEpoch() == epoch && s.GetStage() == nstancev1.MachineStage_MACHINE_STAGE_RUNNING
	}
}

func slotOf(s *nstancev1.MachineStatus, name string) *nstancev1.MachineSlot {
	i := slices.IndexFunc(s.GetSlots(), func(slot *nstancev1.MachineSlot) bool { return slot.GetName() == name })
	if i < 0 {
		return nil
	}
	return s.GetSlots()[i]
}

// supervisors are the systemd-nspawn processes of this host by slot.
func (b *box) supervisors() map[journal.Slot][]int {
	b.t.Helper()
	all := map[journal.Slot][]int{}
	for _, slot := range journal.Slots() {
		// The parent is the one whose command line it is; its children have the same for a moment.
		out, err := exec.Command("pgrep", "--full", "--oldest", "^systemd-nspawn .*--directory="+b.path("machines/"+slot.Machine())+" ").Output()
		if err == nil {
			all[slot] = append(all[slot], atoi(b.t, string(out)))
		}
	}
	return all
}

// members are the processes in the cgroup of a slot's machine.
func (b *box) members(slot journal.Slot) (count int) {
	for _, dir := range cgroups(b.t) {
		if !strings.HasSuffix(dir, "unified") && !b.unified(dir) {
			continue
		}
		_ = filepath.WalkDir(filepath.Join(dir, "nstance-"+slot.Machine()), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "cgroup.procs" {
				text, _ := os.ReadFile(path)
				count += len(strings.Fields(string(text)))
			}
			return nil
		})
	}
	return count
}

func (b *box) unified(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.controllers"))
	return err == nil
}

func (b *box) linkNames() string {
	b.t.Helper()
	out, err := exec.Command("ip", "-br", "link", "show").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		names = append(names, strings.Fields(line)[0])
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// expectOne: one machine runs, that of the active slot; nothing of the other one or of half a
// build is left.
func (b *box) expectOne(s *nstancev1.MachineStatus) {
	b.t.Helper()
	active := journal.Slot(s.GetActiveSlot())
	all := b.supervisors()
	if len(all) != 1 || len(all[active]) != 1 {
		b.t.Fatalf("%v run, and %s is active", all, active)
	}
	if n := b.members(active.Other()); n > 0 {
		b.t.Fatalf("%d processes of %s are left", n, active.Other().Machine())
	}
	entries, err := os.ReadDir(b.path("machines"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != "node-a" && entry.Name() != "node-b" && !strings.HasSuffix(entry.Name(), ".lck") { // locks of systemd-nspawn
			b.t.Errorf("%s is left", entry.Name())
		}
	}
}

// expectNothing: after a reset.
func (b *box) expectNothing() {
	b.t.Helper()
	expectNothingLeft(b.t, "node-a", "node-b")
	if got := b.linkNames(); got != b.links {
		b.t.Errorf("interfaces: %s, before %s", got, b.links)
	}
	for _, path := range []string{"machines/node-a", "machines/.#node-a.lck", "machines/node-b", "machines/.#node-b.lck", "state/journal.json", "etc/systemd/nspawn/node-a.nspawn", "etc/sysctl.d/90-nstance.conf"} {
		if info, err := os.Lstat(b.path(path)); err == nil && info.Mode()&fs.ModeCharDevice == 0 { // a device marks what an overlay has deleted
			b.t.Errorf("%s is left", path)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.t.Error(err)
		}
	}
	for _, p := range sysctls {
		if text, err := os.ReadFile(b.path("sys/" + strings.ReplaceAll(p, "/", "."))); err != nil || strings.TrimSpace(string(text)) != "0" {
			b.t.Errorf("%s is %q, %v", p, text, err)
		}
	}
}

func jsonOf(t *testing.T, a *nstancev1.MachineAssignment) string {
	t.Helper()
	text, err := protojson.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// killAll kills every process of a cgroup of this suite.
func killAll(t *testing.T, dir string) {
	t.Helper()
	for range 100 {
		var pids []string
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "cgroup.procs" {
				text, _ := os.ReadFile(path)
				pids = append(pids, strings.Fields(string(text))...)
			}
			return nil
		})
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(atoi(t, pid), syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("processes of %s do not end", dir)
}
