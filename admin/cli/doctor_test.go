package cli_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/admin/cli"
	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// finding is a finding as scripts read it.
type finding struct{ Check, Subject, Level, Detail, Remedy string }

func (c *console) doctor(t *testing.T, args ...string) (findings []finding, code int) {
	t.Helper()
	before := len(c.out.String())
	code = c.run(t.Context(), append([]string{"doctor", "-o", "json", "--timeout", "5s"}, args...)...)
	if err := json.Unmarshal([]byte(c.out.String()[before:]), &findings); err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, c.err.String())
	}
	return findings, code
}

// identityCopy gives the console an identity of its own, which a test may spoil.
func (c *console) identityCopy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "identity")
	if err := os.CopyFS(dir, os.DirFS(c.env["NSTANCE_ADMIN_IDENTITY_DIR"])); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "identity.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.env["NSTANCE_ADMIN_IDENTITY_DIR"] = dir
	return dir
}

func TestDoctorFindsNothingWhereAllIsWell(t *testing.T) {
	c := newConsole(t)
	c.at = time.Now()
	findings, code := c.doctor(t)
	if code != cli.ExitOK {
		t.Errorf("exit code %d: %v", code, findings)
	}
	for _, check := range []string{"identity", "ports", "versions", "permissions", "configuration", "groups"} {
		if !slices.ContainsFunc(findings, func(f finding) bool { return f.Check == check && f.Level == "ok" }) {
			t.Errorf("%s is not checked: %v", check, findings)
		}
	}
	if text := c.ok(t, "doctor"); !strings.Contains(text, "RESULT   CHECK") || strings.Contains(text, "remedy") {
		t.Errorf("it printed\n%s", text)
	}
}

// Each of these faults is planted, found, and comes with a remedy.
func TestDoctorFindsEachPlantedFault(t *testing.T) {
	plain := func(t *testing.T) string { // something else listens
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n"))
					_ = conn.Close()
				}
			}
		}()
		return listener.Addr().String()
	}
	for name, test := range map[string]struct {
		plant                 func(*testing.T, *console)
		args                  []string
		check, detail, remedy string
		warning               bool
	}{
		"identity: no folder": {
			func(_ *testing.T, c *console) { c.env["NSTANCE_ADMIN_IDENTITY_DIR"] = "/nowhere" }, nil, "identity", "does not exist", "--identity-dir", false,
		},
		"identity: others can read the key": {
			func(t *testing.T, c *console) {
				if err := os.Chmod(filepath.Join(c.identityCopy(t), "identity.key"), 0o644); err != nil { //nolint:gosec // it is the fault
					t.Fatal(err)
				}
			}, nil, "identity", "others can read the private key: mode 0644", "chmod 0600", false,
		},
		"identity: ended": {
			func(_ *testing.T, c *console) { c.at = time.Now().AddDate(3, 0, 0) }, nil, "identity", "the certificate has ended", "register-operator", false,
		},
		"clock: behind the certificate": {
			func(_ *testing.T, c *console) { c.at = time.Now().AddDate(-1, 0, 0) }, nil, "identity", "the clock of this machine is behind", "set the clock", false,
		},
		"identity: of another cluster": {
			func(t *testing.T, c *console) {
				path := filepath.Join(t.TempDir(), "c.json")
				if err := os.WriteFile(path, []byte(`{"cluster_id": "prod"}`), 0o600); err != nil {
					t.Fatal(err)
				}
				c.env["NSTANCE_ADMIN_CONTEXT"] = path
			}, nil, "identity", `it is of cluster "test", and the context is about "prod"`, "choose the context", false,
		},
		"identity: the key of another": {
			func(t *testing.T, c *console) {
				dir := c.identityCopy(t)
				other, err := os.ReadFile(filepath.Join(shardtest.NewCluster(t).Identity(t, "default"), "identity.key"))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "identity.key"), other, 0o600); err != nil {
					t.Fatal(err)
				}
			}, nil, "identity", "do not belong together", "register-operator", false,
		},
		"identity: ca.crt of another cluster": {
			func(t *testing.T, c *console) {
				dir := c.identityCopy(t)
				other, err := os.ReadFile(filepath.Join(shardtest.NewCluster(t).Identity(t, "default"), "ca.crt"))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "ca.crt"), other, 0o600); err != nil {
					t.Fatal(err)
				}
			}, nil, "identity", "did not issue the certificate", "copy ca.crt", false,
		},
		"ports: nothing listens": {
			func(_ *testing.T, c *console) { c.env["NSTANCE_ADMIN_SERVERS"] = "local=127.0.0.1:1" }, nil, "ports", "connection refused", "8993", false,
		},
		"ports: something else listens": {
			func(t *testing.T, c *console) { c.env["NSTANCE_ADMIN_SERVERS"] = "local=" + plain(t) }, nil, "ports", "does not speak TLS", "correct the port", false,
		},
		"ports: a server of another cluster": {
			func(t *testing.T, c *console) {
				c.env["NSTANCE_ADMIN_SERVERS"] = "local=" + shardtest.NewCluster(t).Listen(t, "local", &shardtest.Shard{})
			}, nil, "ports", "certificates are not accepted", "ca.crt of this cluster", false,
		},
		"leader: none": {
			func(t *testing.T, c *console) {
				c.env["NSTANCE_ADMIN_SERVERS"] = "local=" + c.cluster.Listen(t, "local", shardtest.Standby{})
			}, nil, "leader", "1 servers stand by and none leads", "wait one lease", false,
		},
		"versions: too far apart": {
			func(_ *testing.T, c *console) { c.version = "v1.5.0" }, nil, "versions", "more than one minor version apart", "upgrade the servers", false,
		},
		"clock: the leader's is ahead": {
			func(_ *testing.T, c *console) {
				c.local.AddInstance(&nstancev1.InstanceStatus{InstanceId: "x", Group: "web", Status: "running", LastSeen: timestamppb.New(time.Now().Add(time.Hour))})
			}, nil, "clock", "ahead of this machine", "set the clock", false,
		},
		"configuration: rejected": {
			func(_ *testing.T, c *console) { c.local.Reject("server.shard: missing") }, nil, "configuration", "not in force: server.shard: missing", "shard config validate", false,
		},
		"groups: a failed launch": {
			func(_ *testing.T, c *console) {
				c.local.AddGroup(&nstancev1.GroupStatus{Key: "bad", Conditions: []*nstancev1.Condition{{Type: "failed-launch", Message: "never registered"}}})
			}, nil, "groups", "failed-launch: never registered", "group explain", true,
		},
		"storage: no bucket": {
			func(_ *testing.T, c *console) { c.env["NSTANCE_ENCRYPTION_KEY"] = "x" },
			[]string{"--storage-provider", "file", "--storage-bucket", "/nowhere", "--key-provider", "env"}, "storage", "", "", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.at = time.Now()
			test.plant(t, c)
			findings, code := c.doctor(t, test.args...)
			i := slices.IndexFunc(findings, func(f finding) bool {
				return f.Check == test.check && f.Level != "ok" && strings.Contains(f.Detail, test.detail)
			})
			switch {
			case i < 0:
				t.Fatalf("it is not found: %v", findings)
			case !strings.Contains(findings[i].Remedy, test.remedy) || findings[i].Remedy == "":
				t.Errorf("the remedy is %q", findings[i].Remedy)
			case (code == cli.ExitFailed) == test.warning:
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestWhoami(t *testing.T) {
	c := newConsole(t)
	got := c.ok(t, "whoami")
	for _, want := range []string{"role         operator\n", "tenant       default\n", "cluster      test\n", "shard        local\n", "leader       127.0.0.1:"} {
		if !strings.Contains(got, want) {
			t.Errorf("it printed\n%s\nwant %q", got, want)
		}
	}
	if got := c.fails(t, cli.ExitFailed, "whoami", "--servers", "local=127.0.0.1:1", "--timeout", "10ms"); !strings.Contains(got, "no server of shard local answered") {
		t.Errorf("errors are %q", got)
	}
}

func TestEventsOfThePast(t *testing.T) {
	c := newConsole(t)
	got := c.ok(t, "events", "--since", "24h", "--follow=false")
	want := "2026-05-05T19:02:01Z  decision  web  create: 0 of 2; 2 at once\n" +
		"2026-05-05T19:52:01Z  decision  web  create: 2 of 3; blocked by paused: the group is paused: moving house\n"
	if got != want {
		t.Errorf("it printed\n%s\nwant\n%s", got, want)
	}
	if got := c.ok(t, "events", "--since", "9h30m", "--follow=false", "--for", "group/web"); strings.Count(got, "\n") != 1 {
		t.Errorf("it printed\n%s", got)
	}
	// Of two shards one has no such group.
	if got := c.ok(t, "events", "--since", "9h30m", "--follow=false", "--for", "group/web", "--all-shards"); !strings.Contains(got, "local: web") || strings.Count(got, "\n") != 1 {
		t.Errorf("of all shards it printed\n%s", got)
	}
	c.fails(t, cli.ExitFailed, "events", "--since", "9h30m", "--follow=false", "--for", "group/nowhere")
	c.fails(t, cli.ExitFailed, "events", "--since", "9h30m", "--follow=false", "--for", "group/nowhere", "--all-shards")
	for _, args := range [][]string{{"--for", "web"}, {"--follow=false"}, {"--since", "-1h"}} {
		c.fails(t, cli.ExitUsage, append([]string{"events"}, args...)...)
	}
}

// What is secret somewhere is in no file of a bundle.
func TestASupportBundleHasNoSecretInIt(t *testing.T) {
	c := newConsole(t)
	const marker = "MARKER"
	token := "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIx" + marker + "In0.c2lnbmF0dXJl" + marker
	c.local.AddGroup(&nstancev1.GroupStatus{
		Key: "secretive", Template: "t", Vars: map[string]string{"db": marker + "-1"},
		Dynamic: &nstancev1.GroupConfig{
			Vars: &nstancev1.StringMap{Values: map[string]string{"db": marker + "-2"}}, Args: &nstancev1.StringMap{Values: map[string]string{"UserData": marker + "-3"}},
		},
		Conditions: []*nstancev1.Condition{
			{Type: "failed-launch", Message: "token " + token + " refused, password=" + marker + "-4"},
			{Type: "files-undelivered", Message: "-----BEGIN PRIVATE KEY-----\n" + marker + "-5\n-----END PRIVATE KEY-----"},
		},
	})
	key, err := os.ReadFile(filepath.Join(c.env["NSTANCE_ADMIN_IDENTITY_DIR"], "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	if got := c.ok(t, "support-bundle", "--output", path); !strings.HasPrefix(got, path+": ") {
		t.Errorf("it printed %q", got)
	}
	files := unpack(t, path)
	for name, data := range files {
		for _, secret := range []string{marker, strings.Split(string(key), "\n")[1]} {
			if i := strings.Index(data, secret); i >= 0 {
				t.Errorf("%s has a secret: %q", name, data[max(0, i-60):min(len(data), i+20)])
			}
		}
	}
	for _, want := range []string{"version.txt", "doctor.json", "local/groups.json", "local/instances.json", "local/explain/web.json", "other/server.json"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(name string) bool { return strings.HasSuffix(name, "/"+want) }) {
			t.Errorf("%s is missing", want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
	if got := c.fails(t, cli.ExitFailed, "support-bundle", "--output", path); !strings.Contains(got, "exists: name another file") {
		t.Errorf("errors are %q", got)
	}
}

func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	archive := tar.NewReader(zip)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
	}
}
