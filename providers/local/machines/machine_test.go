package machines

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name       string
		see        state
		want       driver.Status
		unfinished bool
	}{
		{"built, no process yet", state{}, driver.Pending, true},
		{"recorded, waits at the pipe", state{started: true, alive: true}, driver.Pending, false},
		{"recorded, its server died before it ran", state{started: true}, driver.Pending, true},
		{"runs", state{started: true, alive: true, booted: true}, driver.Running, false},
		{"died", state{started: true, booted: true}, driver.Failed, false},
		{"being halted", state{started: true, alive: true, booted: true, stopped: true}, driver.Stopping, false},
		{"halted", state{started: true, booted: true, stopped: true}, driver.Stopped, false},
		{"halted before it was started", state{stopped: true}, driver.Stopped, false},
		{"the box was booted since", state{started: true, booted: true, reboot: true}, driver.Stopped, false},
		{"being deleted", state{started: true, alive: true, booted: true, marked: true}, driver.Deleting, false},
		{"deleted while stopped", state{started: true, stopped: true, marked: true}, driver.Deleting, false},
		{"deleted before it was started", state{marked: true}, driver.Deleting, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.see.status(); got != c.want || c.see.unfinished() != c.unfinished {
				t.Errorf("status %s, unfinished %t; want %s, %t", got, c.see.unfinished(), c.want, c.unfinished)
			}
		})
	}
}

func TestS14_DirectoryIsPrivateAndUserDataIsNoArgument(t *testing.T) {
	t.Setenv("NSTANCE_ENCRYPTION_KEY", "server-secret")
	d := empty(t)
	d.opts.Addresses = netip.MustParsePrefix("10.77.0.0/16")
	req := request(t)
	req.UserData = []byte("# nonce-secret\n" + userData)
	machine, err := d.Create(t.Context(), req)
	must(t, err)
	p := awaitStatus(t, d, req.InstanceID, driver.Running)

	dir := d.store.Dir(req.InstanceID)
	for name, want := range map[string]os.FileMode{
		".": 0o700, "identity": 0o700, "keys": 0o700, "recv": 0o700,
		store.UserDataFile: 0o600, store.MetadataFile: 0o600, store.LogFile: 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
	proc, err := d.host.Proc.Proc(p.PID)
	must(t, err)
	args, err := proc.CmdLine()
	must(t, err)
	var env []string
	await(t, func() bool { // in the middle of an exec there is none
		env, err = proc.Environ()
		must(t, err)
		return len(env) > 0
	})
	if strings.Contains(strings.Join(args, " "), "secret") || strings.Contains(strings.Join(env, " "), "secret") {
		t.Errorf("a secret is among the arguments %q or the environment %q", args, env)
	}
	for _, want := range []string{
		"NSTANCE_MACHINE_DIR=" + dir,
		"NSTANCE_AGENT=" + d.opts.Agent,
		"NSTANCE_SERVER_ADDR_FILE=" + filepath.Join(d.store.Root, "leader.json"),
		"NSTANCE_MACHINE_ADDRESS=" + machine.IPv4.String(),
	} {
		if !strings.Contains("\n"+strings.Join(env, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("the environment lacks %s: %q", want, env)
		}
	}
	stat, err := proc.Stat()
	must(t, err)
	if stat.Session != p.PID || stat.TTY != 0 {
		t.Errorf("the machine is in session %d with terminal %d, want its own (%d) and none", stat.Session, stat.TTY, p.PID)
	}
}

func TestLogAndStandardInput(t *testing.T) {
	d := empty(t)
	req := request(t)
	req.UserData = []byte("read line && exit 1; echo said; echo complained >&2\n" + userData)
	_, err := d.Create(t.Context(), req)
	must(t, err)
	await(t, func() bool {
		log, err := os.ReadFile(filepath.Join(d.store.Dir(req.InstanceID), store.LogFile))
		must(t, err)
		return string(log) == "said\ncomplained\n"
	})
}

func TestPIDFileNamesTheAgent(t *testing.T) {
	d := empty(t)
	req, p := running(t, d)
	text, err := os.ReadFile(filepath.Join(d.store.Dir(req.InstanceID), "pid"))
	must(t, err)
	pid := strings.TrimSuffix(string(text), "\n")
	await(t, func() bool { // the shell becomes the agent
		exe, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
		must(t, err)
		want, err := filepath.EvalSymlinks(d.opts.Agent)
		must(t, err)
		return exe == want
	})
	if now, err := d.host.Identify(p.PID); err != nil || now != p {
		t.Errorf("process %+v, %v; recorded was %+v", now, err, p)
	}
}

func TestForeignAndDamagedDirectories(t *testing.T) {
	d := empty(t)
	req, p := running(t, d)
	root := d.store.Root
	must(t, os.Mkdir(filepath.Join(root, "lost+found"), 0o700))
	copied := filepath.Join(root, "copy-of-one")
	must(t, os.CopyFS(copied, os.DirFS(d.store.Dir(req.InstanceID))))

	list, err := d.List(t.Context(), owner)
	must(t, err)
	if len(list) != 2 || list[0].RawID != "copy-of-one" || list[0].InstanceID != "" || list[0].Status != driver.Unknown {
		t.Errorf("list with a copied directory: %+v", list)
	}
	wantKind(t, d.Delete(t.Context(), driver.Ref{ProviderID: "copy-of-one"}), driver.Invalid)
	if alive, err := d.host.Alive(p); !alive || err != nil {
		t.Fatalf("the original does not run any more: %v", err)
	}
	must(t, os.RemoveAll(copied))

	// A copy under the name of another machine must not lend it its process.
	other := request(t).InstanceID
	must(t, os.CopyFS(d.store.Dir(other), os.DirFS(d.store.Dir(req.InstanceID))))
	if m, err := d.Get(t.Context(), driver.Ref{InstanceID: other}); err != nil || m.InstanceID != "" || m.Status != driver.Unknown {
		t.Errorf("get of a copied directory: %+v, %v", m, err)
	}
	must(t, os.RemoveAll(d.store.Dir(other)))

	meta := filepath.Join(d.store.Dir(req.InstanceID), store.MetadataFile)
	for _, damage := range []struct {
		name string
		do   func() error
	}{
		{"cut off", func() error { return os.Truncate(meta, 10) }},
		{"removed", func() error { return os.Remove(meta) }},
	} {
		must(t, damage.do())
		if list, err := d.List(t.Context(), owner); driver.ClassOf(err) != driver.Transient || list != nil || !strings.Contains(err.Error(), string(req.InstanceID)) {
			t.Errorf("list with metadata that is %s: %v, %v", damage.name, list, err)
		}
	}
	must(t, os.RemoveAll(filepath.Join(root, string(req.InstanceID))))
	must(t, d.stop(t.Context(), req.InstanceID, p))
}

func TestF21_RemovedDirectoryIsNoEmptyList(t *testing.T) {
	d := empty(t)
	must(t, os.RemoveAll(d.store.Root))
	list, err := d.List(t.Context(), owner)
	wantKind(t, err, driver.Transient)
	must(t, os.Mkdir(d.store.Root, 0o700))
	if again, err := d.List(t.Context(), owner); err == nil || list != nil || again != nil {
		t.Errorf("a new directory lists %v, %v", again, err)
	}
}
