package proxmox_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// scripts are those of deploy/proxmox.
var scripts = filepath.Join("..", "..", "deploy", "proxmox")

// node is a box on which scripts find the programs of a Proxmox VE node, and no other
// ones of that kind.
type node struct {
	*testing.T
	dir string
}

// newNode makes one. A program is what a script for /bin/sh does; each call of it is
// noted first.
func newNode(t *testing.T, programs map[string]string) *node {
	t.Helper()
	n := &node{t, t.TempDir()}
	for name, does := range programs {
		text := "#!/bin/sh\necho \"" + name + " $*\" >>\"$CALLS\"\n" + does + "\n"
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// run runs a script and returns what it printed, what it complained of, and the calls.
func (n *node) run(script string, args ...string) (stdout, stderr string, calls []string) {
	n.Helper()
	log := filepath.Join(n.TempDir(), "calls")
	cmd := exec.Command("/bin/sh", append([]string{filepath.Join(scripts, script)}, args...)...)
	cmd.Env = []string{"PATH=" + n.dir + ":/usr/bin:/bin", "CALLS=" + log}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		errs.WriteString(err.Error())
	}
	if text, err := os.ReadFile(log); err == nil {
		calls = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return out.String(), strings.TrimSpace(errs.String()), calls
}

// rolePrivileges are those of the role that token.sh makes.
func rolePrivileges(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(scripts, "token.sh"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)\nprivileges='\n(.*?)'\n`).FindSubmatch(text)
	if m == nil {
		t.Fatal("token.sh names no privileges")
	}
	return strings.Fields(string(m[1]))
}

// life makes machines, looks after them and removes them, with a token of these
// privileges, and returns the first thing that went wrong.
func life(t *testing.T, privileges []string) (wrong string) {
	synctest.Test(t, func(t *testing.T) {
		token := proxmoxfake.DefaultToken
		token.Privileges = privileges
		cloud := proxmoxfake.New(proxmoxfake.Options{Tokens: []proxmoxfake.Token{token}, Templates: []proxmoxfake.Template{
			{VMID: 9001, Name: "debian-13", Node: "pve1", Storage: "local-lvm", Config: map[string]string{"ide2": "local-lvm:cloudinit"}},
			{VMID: 9100, Name: "debian-13-ceph", Node: "pve1", Storage: "ceph"},
		}})
		d, err := proxmox.New(proxmox.Options{
			URL: "https://pve.example:8006/api2/json", Shard: "one",
			TokenID: token.ID, TokenSecret: token.Secret, Transport: wire.RoundTripper(cloud),
		})
		if err != nil {
			t.Fatal(err)
		}
		wrong = lifeOf(t, d, cloud)
	})
	return wrong
}

func lifeOf(t *testing.T, d *proxmox.Driver, cloud *proxmoxfake.Cloud) string {
	t.Helper()
	ctx, owner := t.Context(), driver.Owner{Cluster: "example", Shard: "one"}
	for _, template := range []struct{ name, storage string }{{"debian-13", "local-lvm"}, {"debian-13-ceph", "ceph"}, {"debian-13-ceph", "ceph"}} {
		id, err := identity.NewID("wrk")
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Create(ctx, driver.CreateRequest{
			InstanceID: id, Owner: owner, Tenant: "default", Group: "web", Template: "worker", Kind: "wrk", Arch: "amd64",
			InstanceType: "cpu:2,memory:2048,disk:8", SubnetID: "vmbr0", UserData: []byte("#!/bin/sh\n"),
			Args: map[string]any{"StoragePool": template.storage, "TemplateName": template.name}, CreatedAt: time.Now(),
		})
		if err != nil {
			return "create: " + err.Error()
		}
		time.Sleep(time.Minute)
	}
	if made := cloud.Machines(); made[1].Node == made[2].Node {
		return "clones of a shared template stay on its node"
	}
	list, err := d.List(ctx, owner)
	if err != nil || len(list) != 3 || list[0].Status != driver.Running {
		return fmt.Sprintf("list: %+v, %v", list, err)
	}
	for _, m := range list {
		if err := d.Power(ctx, driver.Ref{InstanceID: m.InstanceID}, driver.PowerReboot); err != nil {
			return "power: " + err.Error()
		}
		time.Sleep(time.Minute)
		if err := d.Delete(ctx, driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}); err != nil {
			return "delete: " + err.Error()
		}
	}
	time.Sleep(5 * time.Minute)
	iso := slices.ContainsFunc(cloud.Volumes(), func(v string) bool { return strings.Contains(v, ":iso/") })
	if left := cloud.Machines(); len(left) > 0 || iso {
		return fmt.Sprintf("left over: %+v, %v", left, cloud.Volumes())
	}
	return ""
}

// TestRoleIsTheLeast: the role that token.sh makes suffices, and without any one of
// its privileges something does not work.
func TestRoleIsTheLeast(t *testing.T) {
	all := rolePrivileges(t)
	if wrong := life(t, all); wrong != "" {
		t.Fatalf("the role does not suffice: %s", wrong)
	}
	for _, p := range all {
		without := slices.DeleteFunc(slices.Clone(all), func(q string) bool { return p == q })
		wrong := life(t, without)
		t.Logf("without %s: %s", p, wrong)
		if wrong == "" {
			t.Errorf("nobody misses %s", p)
		}
	}
}

func TestTokenScript(t *testing.T) {
	const pveum = `case "$*" in
"role list"*) cat "$(dirname "$0")/roles" ;;
"user list"*) cat "$(dirname "$0")/users" ;;
"user token list"*) cat "$(dirname "$0")/tokens" ;;
"user token add"*) echo '{"full-tokenid":"nstance@pve!server","info":{"privsep":"0"},"value":"0-1-2"}' ;;
esac`
	n := newNode(t, map[string]string{"pveum": pveum, "hostname": "echo pve1.example"})
	has := func(roles, users, tokens string) {
		for name, text := range map[string]string{"roles": roles, "users": users, "tokens": tokens} {
			if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	privileges := strings.Join(rolePrivileges(t), " ")
	const env = "PROXMOX_API_URL=https://pve1.example:8006/api2/json\nPROXMOX_TOKEN_ID=nstance@pve!server\nPROXMOX_TOKEN_SECRET=0-1-2\n"

	has(`[]`, `[{"userid":"root@pam"}]`, `[]`)
	stdout, stderr, calls := n.run("token.sh")
	want := []string{
		"pveum role list --output-format json",
		"pveum role add Nstance --privs " + privileges,
		"pveum user list --output-format json",
		"pveum user add nstance@pve --comment nstance-server-proxmox",
		"pveum acl modify / --users nstance@pve --roles Nstance",
		"pveum user token list nstance@pve --output-format json",
		"pveum user token add nstance@pve server --privsep 0 --output-format json",
		"hostname -f",
	}
	if stdout != env || stderr != "" || !slices.Equal(calls, want) {
		t.Errorf("the first time: %q, %q,\n%s", stdout, stderr, strings.Join(calls, "\n"))
	}

	has(`[{"roleid":"Nstance"}]`, `[{"userid":"nstance@pve"}]`, `[{"tokenid":"server"}]`)
	stdout, stderr, calls = n.run("token.sh")
	if stdout != "" || !strings.Contains(stderr, "--renew") || !slices.Contains(calls, "pveum role modify Nstance --privs "+privileges) {
		t.Errorf("the second time: %q, %q, %q", stdout, stderr, calls)
	}
	stdout, stderr, calls = n.run("token.sh", "--renew")
	if stdout != env || stderr != "" || !slices.Contains(calls, "pveum user token remove nstance@pve server") {
		t.Errorf("a new token: %q, %q, %q", stdout, stderr, calls)
	}
	_, _, calls = n.run("token.sh", "--renew", "--also", "VM.Config.HWType Mapping.Use")
	if !slices.Contains(calls, "pveum role modify Nstance --privs "+privileges+" VM.Config.HWType Mapping.Use") {
		t.Errorf("with further privileges: %q", calls)
	}
	for _, args := range [][]string{{"--nothing"}, {"--user"}} {
		if _, stderr, calls := n.run("token.sh", args...); !strings.Contains(stderr, "see --help") || calls != nil {
			t.Errorf("%v: %q, %q", args, stderr, calls)
		}
	}
}

func TestTemplateScript(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image.qcow2")
	if err := os.WriteFile(image, []byte("QFI"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512([]byte("QFI"))
	args := []string{"--vmid", "9001", "--storage", "local-lvm", "--image", image, "--sha512", hex.EncodeToString(sum[:])}
	create := []string{
		"qm config 9001",
		"qm create 9001 --name debian-13 --ostype l26 --cores 1 --memory 1024 --agent enabled=1 --scsihw virtio-scsi-single --net0 virtio,bridge=vmbr0 --serial0 socket --vga serial0",
		"qm set 9001 --scsi0 local-lvm:0,import-from=" + image + ",discard=on",
		"qm set 9001 --boot order=scsi0",
		"qm template 9001",
	}
	for name, c := range map[string]struct {
		qm     string
		args   []string
		calls  []string
		stderr string // a part of it; empty: none
	}{
		"anew":                {`[ "$1" != config ]`, args, create, ""},
		"again":               {`[ "$1" != config ] || printf 'name: debian-13\ntemplate: 1\n'`, args, create[:1], ""},
		"the number is taken": {`[ "$1" != config ] || echo 'name: pet'`, args, create[:1], "number 9001 belongs to another machine"},
		"half of it": {
			`case $1 in config | template) exit 1 ;; esac`, args, append(slices.Clone(create), "qm destroy 9001 --purge 1"), "exit status 1",
		},
		"another image":           {`[ "$1" != config ]`, append(slices.Clone(args), "--sha512", strings.Repeat("0", 128)), create[:1], "checksum"},
		"a number of machines":    {"", append(slices.Clone(args), "--vmid", "10000"), nil, "is not from 100 to 9999"},
		"a number that is none":   {"", append(slices.Clone(args), "--vmid", "x"), nil, "is not a number"},
		"an image without TLS":    {`[ "$1" != config ]`, append(slices.Clone(args), "--image", "http://x/y"), create[:1], "nor an https URL"},
		"without a storage":       {"", args[:2], nil, "--storage is missing"},
		"a flag that there isn't": {"", []string{"--disk", "9G"}, nil, "unknown argument --disk"},
	} {
		_, stderr, calls := newNode(t, map[string]string{"qm": c.qm}).run("template.sh", c.args...)
		if !slices.Equal(calls, c.calls) || (c.stderr == "") != (stderr == "") || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: %q,\n%s", name, stderr, strings.Join(calls, "\n"))
		}
	}
}

// TestShardScript: what it prints is a valid configuration, and its user data is the
// reference one.
func TestShardScript(t *testing.T) {
	userdata, err := os.ReadFile(filepath.Join(scripts, "..", "userdata", "cloud-init.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	least := []string{"--cluster", "example", "--shard", "rack-1", "--address", "192.0.2.10", "--storage", "local-lvm"}
	for name, args := range map[string][]string{
		"the least": least,
		"everything": append(slices.Clone(least), "--address", "2001:db8::10", "--bridge", "vmbr0.100", "--zone", "lab", "--region", "cellar",
			"--group", "api", "--size", "5", "--type", "cpu:4,memory:8192", "--ca-file", `/etc/nstance/a "b".pem`, "--agent-url", "https://example.com/agent"),
	} {
		text, stderr, _ := newNode(t, nil).run("shard.sh", args...)
		cfg, err := config.Load("rack-1.jsonc", []byte(text), config.LoadOptions{Shard: "rack-1", Rules: rules.New()})
		if err != nil || stderr != "" {
			t.Errorf("%s: %v, %s", name, err, stderr)
			continue
		}
		if len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v", name, cfg.Warnings)
		}
		if got := cfg.Templates["worker"].Userdata.Content; got != string(userdata) {
			t.Errorf("%s: user data\n%s", name, got)
		}
		opts, err := proxmox.ParseOptions(cfg.Server.Provider.Options)
		if err != nil || name == "everything" && opts.CAFile != `/etc/nstance/a "b".pem` {
			t.Errorf("%s: %+v, %v", name, opts, err)
		}
	}
	if _, stderr, _ := newNode(t, nil).run("shard.sh", least[:6]...); !strings.Contains(stderr, "--storage is missing") {
		t.Error(stderr)
	}
}

func TestKeepalivedScript(t *testing.T) {
	text, stderr, _ := newNode(t, nil).run("keepalived.sh", "--interface", "eth0", "--address", "192.0.2.10/24")
	for _, want := range []string{
		"--cacert /etc/keepalived/ca.crt https://127.0.0.1:8991/leader/health\"", "\tinterface eth0\n", "\t\t192.0.2.10/24\n", "\t\tnstance_leads\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if stderr != "" || strings.Count(text, "{") != strings.Count(text, "}") {
		t.Errorf("%q,\n%s", stderr, text)
	}
	if _, stderr, _ := newNode(t, nil).run("keepalived.sh", "--interface", "eth0"); !strings.Contains(stderr, "prefix length") {
		t.Error(stderr)
	}
}
