//go:build packages

package packages_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"nstance.dev/providers/local"
	"nstance.dev/providers/local/dev"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
)

const (
	shard  = "local"
	bucket = "/srv/nstance/bucket"
	flags  = "--shard " + shard + " --storage file --bucket " + bucket
	// The bucket of this machine is a folder, and its machines are processes: this belongs
	// to the administrator, not to the package.
	dropIn = "[Service]\nDynamicUser=no\nReadWritePaths=/srv/nstance\n"
)

// later are fields of the configuration that the release before refuses.
var later = regexp.MustCompile(`(?m)^.*"metrics_addr".*\n`)

func (m *machine) write(path, text string) {
	m.t.Helper()
	file := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// configure puts a shard into the machine's bucket, as an administrator does.
func (m *machine) configure() {
	m.t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	m.write("/srv/nstance/encryption.key", "hex:"+hex.EncodeToString(key)+"\n")
	text, err := dev.Config(dev.ConfigOptions{
		MachinesDir: "/srv/nstance/machines", EncryptionKeyFile: "/srv/nstance/encryption.key", Size: 0,
		Arch: runtime.GOARCH, Userdata: local.DefaultUserData,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	earlier := later.ReplaceAllString(string(text), "") // what the release before does not know
	m.write("/srv/nstance/machines/keep", "a machine's\n")
	m.write(filepath.Join(bucket, layout.ConfigKey(shard)), earlier)
	m.write("/etc/nstance/server.env", "NSTANCE_SERVER_ARGS=--id server-1 "+flags+"\n")
	m.write("/etc/systemd/system/nstance-server.service.d/local.conf", dropIn)
	m.run("systemctl daemon-reload")
}

func (m *machine) lock() (lease.Document, error) {
	data, err := os.ReadFile(filepath.Join(m.root, bucket, layout.LeaderKey(shard)))
	if err != nil {
		return lease.Document{}, err
	}
	return lease.Decode(data)
}

// leads returns nil if the server leads, under a term above that one.
func (m *machine) leads(id string, above uint64) func() error {
	return func() error {
		doc, err := m.lock()
		if err == nil && (doc.LeaderID != id || doc.Released || doc.Term <= above) {
			err = fmt.Errorf("the lock is %+v", doc)
		}
		return err
	}
}

func (m *machine) term() uint64 {
	m.t.Helper()
	doc, err := m.lock()
	if err != nil {
		m.t.Fatal(err)
	}
	return doc.Term
}

// TestDebianPackages: the life of a package. Nothing is started before it is configured; an
// upgrade restarts what runs and keeps the administrator's files; a leader that is killed
// hands over; a purge takes the cache and nothing of the cluster's.
func TestDebianPackages(t *testing.T) {
	m := boot(t)
	m.run("ip link set lo up || :")
	m.install(*oldPackages, "nstance-agent")
	m.install(*oldPackages, "nstance-server-local")
	m.install(*oldPackages, "nstance-admin")
	if state, _ := m.try("systemctl is-active nstance-server"); state != "inactive" {
		t.Errorf("after the installation the server is %s", state)
	}
	m.configure()
	m.run("systemctl enable --now nstance-server")
	m.until("the old release leads", m.leads("server-1", 0))
	old := m.run("nstance-server-local version; systemctl show --property=MainPID --value nstance-server")

	m.install(*newPackages, "nstance-admin")
	m.install(*newPackages, "nstance-agent")
	before := m.term()
	m.install(*newPackages, "nstance-server-local")
	m.until("this release leads", m.leads("server-1", before))
	if now := m.run("nstance-server-local version; systemctl show --property=MainPID --value nstance-server"); strings.Split(now, "\n")[0] == strings.Split(old, "\n")[0] || now == old {
		t.Errorf("before the upgrade %q, after it %q", old, now)
	}
	if env := m.run("cat /etc/nstance/server.env"); !strings.Contains(env, "--id server-1") {
		t.Errorf("the upgrade has changed server.env: %s", env)
	}
	exposure := m.run("systemd-analyze security --no-pager nstance-server | tail -1")
	t.Log(exposure)
	m.run("man -w nstance-admin 2>/dev/null || test -s /usr/share/man/man1/nstance-admin.1.gz")
	m.run("bash -n /usr/share/bash-completion/completions/nstance-admin")
	for _, name := range []string{"nstance-server-local", "nstance-agent", "nstance-admin"} {
		m.run("grep -q 'google.golang.org/grpc v' /usr/share/doc/" + name + "/copyright")
	}

	t.Run("leader killed", func(t *testing.T) { m.killLeader(t) })

	m.run("systemctl stop standby || :")
	m.run("systemctl enable --now nstance-cluster.path")
	m.run("dpkg --remove nstance-server-local")
	if _, code := m.try("systemctl cat nstance-server"); code == 0 {
		t.Error("the unit is still there after the removal")
	}
	m.run("test -e /etc/nstance/server.env")
	m.run("dpkg --remove nstance-agent")
	if left, _ := m.try("find /etc/systemd/system -name 'nstance-agent*' -o -name 'nstance-cluster*'; systemctl list-units --all --plain --no-legend 'nstance-cluster.path'"); left != "" {
		t.Errorf("the agent's package leaves %s", left)
	}
	kept := m.content("/srv/nstance") // the server has given its lease up
	m.run("dpkg --purge nstance-server-local")
	m.run("test ! -e /etc/nstance/server.env")
	m.run("test ! -e /var/cache/nstance/db && test ! -e /var/cache/private/nstance/db")
	if after := m.content("/srv/nstance"); !maps.Equal(kept, after) || len(after) < 4 {
		t.Errorf("the purge has changed the bucket, the machines or the key: %v, before %v", after, kept)
	}
}

// killLeader kills the leader under systemd while a standby waits (L2).
func (m *machine) killLeader(t *testing.T) {
	m.run("systemd-run --unit=standby nstance-server-local serve --id server-2 --cachedir /root/standby " + flags)
	m.until("the standby stands by", func() error {
		if log, _ := m.try("journalctl --unit=standby --no-pager"); !strings.Contains(log, "server-2") {
			return errors.New(log)
		}
		_, err := os.Stat(filepath.Join(m.root, "/root/standby/db"))
		return err
	})
	time.Sleep(2 * time.Second) // it has looked at the lock a few times
	if err := m.leads("server-1", 0)(); err != nil {
		t.Fatal(err)
	}
	before := m.term()
	m.run("systemctl kill --kill-whom=main --signal=KILL nstance-server")
	took := m.until("the standby leads", m.leads("server-2", before))
	log := m.run("journalctl --unit=nstance-server --no-pager --lines=20")
	if !strings.Contains(log, "given back") {
		t.Errorf("the lease was not given back:\n%s", log)
	}
	t.Logf("the standby has the lease %v after systemctl had killed the leader", took.Round(time.Millisecond))
	doc, err := m.lock()
	if err != nil {
		t.Fatal(err)
	}
	if lease := doc.Lease(); took > lease/2 {
		t.Errorf("the standby took %v of a lease of %v", took, lease)
	}
	m.until("the killed server is back", func() error {
		if state, _ := m.try("systemctl is-active nstance-server"); state != "active" {
			return errors.New(state)
		}
		return m.leads("server-2", before)()
	})
}

// TestRPM: an RPM installs its files with their modes and owners. It is not started here.
func TestRPM(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	unpack(t, root)
	rpm := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "rpm", append([]string{"--root", root}, args...)...)
		cmd.Dir = "/" // which there is in the root as well
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("rpm %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	rpm("--initdb")
	for _, name := range []string{"nstance-server-local", "nstance-admin"} {
		rpm("--install", "--nodeps", "--ignorearch", only(t, filepath.Join(*newPackages, name+"_*.rpm")))
		rpm("--verify", "--nodeps", name)
	}
	if conf := rpm("--query", "--configfiles", "nstance-server-local"); strings.TrimSpace(conf) != "/etc/nstance/server.env" {
		t.Errorf("files of the administrator: %q", conf)
	}
	info, err := os.Stat(filepath.Join(root, "etc/nstance/server.env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("server.env: %v, %v", info, err)
	}
	if terms, err := os.ReadFile(filepath.Join(root, "usr/share/doc/nstance-server-local/copyright")); err != nil || !strings.Contains(string(terms), "Apache License") {
		t.Errorf("the licences: %.200q, %v", terms, err)
	}
	rpm("--erase", "nstance-server-local")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/nstance-server-local")); err == nil {
		t.Error("the program is still there")
	}
}
