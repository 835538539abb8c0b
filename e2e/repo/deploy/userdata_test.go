package deploy_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/driver/drivertest/guest"
	"nstance.dev/server/render"
)

// file reads one of the repository's files.
func file(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "..", "deploy"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var userData = []string{"shell.sh", "cloud-init.yaml"}

const authority = "-----BEGIN CERTIFICATE-----\nMIIB\n  'quoted'\n-----END CERTIFICATE-----\n"

func rendered(t *testing.T, name string, vars map[string]string) []byte {
	t.Helper()
	return filledIn(t, file(t, "userdata", name), vars)
}

// filledIn is user data as a server makes it of a template.
func filledIn(t *testing.T, template string, vars map[string]string) []byte {
	t.Helper()
	text, err := render.Userdata(document.Userdata{Content: template}, nil, render.Data{
		Instance: render.Instance{ID: "knc068a3cp3thz5z2mv1gejwftabc", Kind: "knc"},
		Cluster:  render.Cluster{ID: "example", CACert: strings.ReplaceAll(authority, "'", "")},
		Server:   render.Server{RegistrationAddr: "192.0.2.1:8992", AgentAddr: "192.0.2.1:8994"},
		Provider: render.Provider{Kind: "aws"},
		Vars:     vars,
		Nonce:    "head.body.tail",
	}, 16<<10)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// noting is an agent that writes down what it finds, and goes on.
const noting = `#!/bin/sh
{
	echo "$NSTANCE_INSTANCE_ID $NSTANCE_SERVER_REGISTRATION_ADDR $NSTANCE_SERVER_AGENT_ADDR $NSTANCE_PROVIDER"
	cat "$NSTANCE_IDENTITY_DIR/ca.crt" "$NSTANCE_IDENTITY_DIR/nonce.jwt"
	stat -c ' %a %n' "$NSTANCE_IDENTITY_DIR" "$NSTANCE_IDENTITY_DIR"/* | sed "s|$GUEST_DIR/root||"
	stat -c ' %F' "$NSTANCE_KEYS_DIR" "$NSTANCE_RECV_DIR"
} >"$GUEST_DIR/found.new"
mv "$GUEST_DIR/found.new" "$GUEST_DIR/found"
while :; do sleep 0.1; done
`

const found = `knc068a3cp3thz5z2mv1gejwftabc 192.0.2.1:8992 192.0.2.1:8994 aws
-----BEGIN CERTIFICATE-----
MIIB
  quoted
-----END CERTIFICATE-----
head.body.tail 700 /opt/nstance-agent/identity
 600 /opt/nstance-agent/identity/ca.crt
 600 /opt/nstance-agent/identity/nonce.jwt
 directory
 directory
`

// examples are the two on the page about user data, by what they begin with.
func examples(t *testing.T) map[string]string {
	t.Helper()
	page := file(t, "..", "docs", "user-data.md")
	found := map[string]string{}
	for _, begin := range []string{"#!/bin/sh\n", "#cloud-config\n"} {
		_, text, ok := strings.Cut(page, "```text\n"+begin)
		text, _, ended := strings.Cut(text, "```")
		if !ok || !ended {
			t.Fatalf("the page has no example that begins with %q", begin)
		}
		found["page "+strings.TrimSpace(begin[2:])] = begin + text
	}
	return found
}

// TestUserDataStartsTheAgent runs the reference user data and the examples on the page, as a
// server renders them, and looks at what the agent finds.
func TestUserDataStartsTheAgent(t *testing.T) {
	templates := examples(t)
	for _, name := range userData {
		templates[name] = file(t, "userdata", name)
	}
	for name, template := range templates {
		t.Run(name, func(t *testing.T) {
			agent := filepath.Join(t.TempDir(), "nstance-agent")
			if err := os.WriteFile(agent, []byte(noting), 0o700); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			vars := map[string]string{"agent_url": "https://example.invalid/nstance-agent"} // the image has it
			m, err := guest.Start(guest.Options{Dir: dir, UserData: filledIn(t, template, vars), Agent: agent})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Kill()
			if got := await(t, filepath.Join(dir, "found"), filepath.Join(dir, "log")); got != found {
				t.Errorf("the agent found\n%s\nwant\n%s", got, found)
			}
		})
	}
}

// await returns the content of a file once it is there.
func await(t *testing.T, path, log string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log) // it may not be there either
			t.Fatalf("%s never came to be; the machine's log:\n%s", path, text)
		}
	}
}

// TestUserDataBringsTheUnit: an image needs nothing of ours. What the user data writes
// is the unit that stands in deploy/systemd.
func TestUserDataBringsTheUnit(t *testing.T) {
	unit := file(t, "systemd", "nstance-agent.service")
	if text := string(rendered(t, "shell.sh", nil)); !strings.Contains(text, "<<'EOT'\n"+unit+"EOT\n") {
		t.Error("shell.sh writes another unit")
	}
	u, err := guest.ParseUserData(rendered(t, "cloud-init.yaml", nil))
	if err != nil {
		t.Fatal(err)
	}
	if last := string(u.Files[len(u.Files)-1]); last != unit {
		t.Errorf("cloud-init.yaml writes another unit:\n%s", last)
	}
}

// joins are the files that a machine has more that joins clusters, by the place that they have
// there.
var joins = []struct{ at, file string }{
	{"/etc/systemd/system/nstance-cluster.service", "systemd/nstance-cluster.service"},
	{"/etc/systemd/system/nstance-cluster.path", "systemd/nstance-cluster.path"},
	{"/etc/nstance/leave.d/50-kubeadm", "leave.d/50-kubeadm"},
	{"/etc/nstance/leave.d/50-k3s", "leave.d/50-k3s"},
}

// TestUserDataBringsWhatJoinsClusters: what stands in deploy, if the variable says so, and
// nothing of it otherwise.
func TestUserDataBringsWhatJoinsClusters(t *testing.T) {
	for _, name := range userData {
		if text := string(rendered(t, name, nil)); strings.Contains(text, "nstance-cluster.service") || strings.Contains(text, "leave.d") {
			t.Errorf("%s sets up more than the agent without being told", name)
		}
	}
	text := string(rendered(t, "shell.sh", map[string]string{"joins_clusters": "true"}))
	u, err := guest.ParseUserData(rendered(t, "cloud-init.yaml", map[string]string{"joins_clusters": "true"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range joins {
		want := file(t, j.file)
		if !strings.Contains(text, "cat >"+j.at+" <<'EOT'\n"+want+"EOT\n") {
			t.Errorf("shell.sh writes another %s", j.at)
		}
		if !slices.ContainsFunc(u.Files, func(f []byte) bool { return string(f) == want }) {
			t.Errorf("cloud-init.yaml writes another %s", j.at)
		}
	}
}

// joining is an agent that hands a request over and waits for what becomes of it; as
// cluster-unit it is the real program.
const joining = `#!/bin/sh
if [ "$1" = cluster-unit ]; then exec "$PROGRAM" "$@"; fi
[ -s "$NSTANCE_CLUSTER_STATUS" ] || exit 3
mkdir -p "$NSTANCE_CLUSTER_DIR"
hand() { cp "$GUEST_DIR/$1.json" "$NSTANCE_CLUSTER_DIR/.$1" && mv "$NSTANCE_CLUSTER_DIR/.$1" "$NSTANCE_CLUSTER_DIR/$1.request"; }
becomes() { until grep -q "$1" "$NSTANCE_CLUSTER_STATUS"; do sleep 0.05; done; }
hand join
becomes '"state":"done"'
hand leave
becomes '"action":"leave","state":"done"'
stat -c '%a' "$NSTANCE_CLUSTER_STATUS" >"$GUEST_DIR/found.new"
ls "$NSTANCE_CLUSTER_DIR" >>"$GUEST_DIR/found.new"
mv "$GUEST_DIR/found.new" "$GUEST_DIR/found"
while :; do sleep 0.1; done
`

// TestAMachineOfTheUserDataJoins: with the units, the directories and the leave scripts that the
// user data set up, what the agent hands over is run, and run once.
func TestAMachineOfTheUserDataJoins(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nstance-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "nstance.dev/agent/cmd/nstance-agent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range userData {
		t.Run(name, func(t *testing.T) {
			agent := filepath.Join(t.TempDir(), "nstance-agent")
			if err := os.WriteFile(agent, []byte(joining), 0o700); err != nil {
				t.Fatal(err)
			}
			dir, err := filepath.EvalSymlinks(t.TempDir()) // no link leads to requests
			if err != nil {
				t.Fatal(err)
			}
			blob := base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\necho $NSTANCE_NODE_LABELS >>" + dir + "/joined\n"))
			for file, content := range map[string]string{
				"join":  `{"v":1,"binding_id":"b1","action":"join","node":{"labels":{"a":"b"}},"blob":"` + blob + `"}`,
				"leave": `{"v":1,"binding_id":"b1","action":"leave"}`,
			} {
				if err := os.WriteFile(filepath.Join(dir, file+".json"), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m, err := guest.Start(guest.Options{
				Dir: dir, UserData: rendered(t, name, map[string]string{"joins_clusters": "true"}), Agent: agent, Env: []string{"PROGRAM=" + program},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Kill()
			if got := await(t, filepath.Join(dir, "found"), filepath.Join(dir, "log")); got != "640\n" {
				t.Errorf("mode of the status, and requests that are left: %q", got)
			}
			if joined, err := os.ReadFile(filepath.Join(dir, "joined")); string(joined) != "a=b\n" {
				t.Errorf("joined %q, %v", joined, err)
			}
		})
	}
}

// TestUserDataFetchesTheAgentIfTold: without the variable nothing is fetched, and what
// is fetched comes over TLS.
func TestUserDataFetchesTheAgentIfTold(t *testing.T) {
	const url = "https://example.com/nstance-agent"
	for _, name := range userData {
		if text := string(rendered(t, name, nil)); strings.Contains(text, "curl") {
			t.Errorf("%s without a URL fetches something", name)
		}
		if text := string(rendered(t, name, map[string]string{"agent_url": url})); !strings.Contains(text, "--proto '=https'") || !strings.Contains(text, "'"+url+"'") {
			t.Errorf("%s does not fetch the agent:\n%s", name, text)
		}
	}
}

// TestUserDataFitsEveryCloud: 16 KiB is what AWS takes, and the least of all. A nonce
// and an authority of this product's have less than 2 KiB.
func TestUserDataFitsEveryCloud(t *testing.T) {
	for _, name := range userData {
		vars := map[string]string{"agent_url": strings.Repeat("x", 512), "joins_clusters": "true"}
		if n := len(rendered(t, name, vars)); n > 14<<10 {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
}
