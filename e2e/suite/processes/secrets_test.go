package processes_test

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/crash"
	"nstance.dev/e2e/env/leak"
	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/pki"
)

// hunt looks for the secrets of a cluster wherever they have no business.
type hunt struct {
	*crash.World
	t      *testing.T
	search *leak.Search

	// machines are those whose secrets are marked. What is of one machine may stand
	// in its own directory and nowhere else.
	machines map[string]bool
}

const filePassword = "the password of an application: 6f1c2ab7"

// After a whole life of a cluster, with everything logged that can be, refusals,
// and crashes that print the stacks of all goroutines, no secret stands where it
// can be read by accident: in the bucket, in a cache, in what processes print, in
// their titles and environments, in metrics, or with another machine.
func TestS14_PlantedMarkersAreNowhere(t *testing.T) {
	t.Parallel()
	h := &hunt{World: crash.New(t, crash.Storage{}, 2, "--debug"), t: t, search: leak.New(), machines: map[string]bool{}}
	h.markKeys()
	h.StartServer("one")
	h.Await("the first server leads", func() error { return h.Leads("one") })
	h.letIn()
	h.StartServer("two")
	h.Await("the second server has read its configuration", func() error { // which is a bad one for a moment, later
		_, err := os.ReadDir(h.CacheDir("two"))
		return err
	})
	h.Settle(2, time.Time{})
	h.markMachines()
	h.live()
	h.look()
	h.crash()
	h.look()
	t.Logf("searched %d places with %d bytes", h.search.Places, h.search.Bytes)
}

// markKeys marks what the cluster has from the beginning, and gives its machines a
// secret of an application.
func (h *hunt) markKeys() {
	h.t.Helper()
	text, err := os.ReadFile(h.KeyPath())
	if err != nil {
		h.t.Fatal(err)
	}
	key, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(text)), "hex:"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.search.Mark("the encryption key", key)
	sealed := h.Secrets()
	for _, name := range []string{pki.CAKeySecret, pki.NonceKeySecret} {
		pem, err := sealed.Get(h.t.Context(), name)
		if err != nil {
			h.t.Fatal(err)
		}
		h.markPrivate(name, pem)
	}
	own, err := os.ReadFile(filepath.Join(h.Identity(), "identity.key"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.markPrivate("the operator's key", own)
	h.search.Mark("the password", []byte(filePassword))
	path := filepath.Join(h.t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(filePassword), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.Cluster("secret", "put", "password", "--from-file", path, "--create-only")
	h.SetConfig(strings.Replace(h.Config(), `"subnet_pool": "local",`,
		`"subnet_pool": "local", "files": { "password": { "kind": "secret", "source": "password" } },`, 1))
}

// markPrivate marks the seeds of private keys: what of a key is not public.
func (h *hunt) markPrivate(name string, pem []byte) {
	h.t.Helper()
	keys, err := pki.ParsePrivateKeys(pem)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, key := range keys {
		h.search.Mark(name, key.Seed())
	}
}

// markMachines marks the keys and nonces of the machines that run.
func (h *hunt) markMachines() {
	h.t.Helper()
	var marked []string
	for _, m := range h.Machines() {
		if h.machines[m.ID] {
			continue
		}
		h.machines[m.ID] = true
		marked = append(marked, m.ID)
		h.search.Mark(keyMark(m.ID), keyOf(h.t, h.Box, m.ID).Seed())
		h.markNonce(nonceMark(m.ID), nonceOf(h.t, h.Box, m.ID))
	}
	// The search finds them where they are at home, so it would find them elsewhere.
	atHome, err := h.search.Tree(h.Path("machines"), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, id := range marked {
		for _, name := range []string{keyMark(id), nonceMark(id)} {
			if !found(atHome, name, h.Path("machines", id)) {
				h.t.Errorf("%s is not found in its machine's directory", name)
			}
		}
	}
}

func keyMark(id string) string   { return "the key of " + id }
func nonceMark(id string) string { return "the nonce of " + id }

func found(findings []leak.Finding, marker, dir string) bool {
	for _, f := range findings {
		if f.Marker == marker && strings.HasPrefix(f.Place, dir) {
			return true
		}
	}
	return false
}

// markNonce marks the signature, without which the rest of a token is no use.
func (h *hunt) markNonce(name, token string) {
	h.search.Mark(name, []byte(token[strings.LastIndex(token, ".")+1:]))
}

// letIn registers an operator, and newcomers that must be refused. The one server
// leads the cluster too, or will in a moment.
func (h *hunt) letIn() {
	h.t.Helper()
	n := newNewcomer(h.t, h.Box)
	token, key := h.OperatorNonce(identity.DefaultTenant), box.NewKey(h.t)
	h.markNonce("the nonce of an operator", token)
	h.search.Mark("the key of an operator", key.Seed())
	h.Await("the operator is let in", func() error {
		_, err := n.operator(box.Registration(h.t, token, key))
		return err
	})
	refused := func(what, token string, key ed25519.PrivateKey) {
		if _, err := n.agent(box.Registration(h.t, token, key)); err == nil {
			h.t.Errorf("%s: let in", what)
		}
	}
	refused("an operator as an agent", token, key)
	refused("a token that was cut", token[:len(token)-3], key)
	h.Settle(2, time.Time{})
	refused("another key", nonceOf(h.t, h.Box, h.RecordIDs()[0]), box.NewKey(h.t))
}

// live is what a cluster goes through: a scale-up, and a configuration that is
// refused.
func (h *hunt) live() {
	h.t.Helper()
	h.Resize(3)
	h.Settle(3, time.Time{})
	h.markMachines()
	good := h.Config()
	h.SetConfig(strings.Replace(good, `"arch":`, `"arhc":`, 1))
	if r := h.Admin("config", "refresh"); r.Code != 1 {
		h.t.Errorf("a bad configuration: exit code %d", r.Code)
	}
	h.SetConfig(good)
}

// crash ends an agent, the leader and then the one after it so that they print the
// stacks of all their goroutines.
func (h *hunt) crash() {
	h.t.Helper()
	victim := h.Machines()[0]
	if err := victim.Signal(unix.SIGQUIT); err != nil {
		h.t.Fatal(err)
	}
	for _, id := range []string{"one", "two"} {
		h.Await("server "+id+" leads", func() error { return h.Leads(id) })
		h.lookAtProcesses()
		server := h.Server(id)
		server.Signal(syscall.SIGQUIT)
		server.Exit(h.t)
		if out := server.Output(); !strings.Contains(out, "SIGQUIT") || strings.Count(out, "\ngoroutine ") < 10 {
			h.t.Errorf("server %s has not printed its goroutines", id)
		}
	}
	again := h.StartServer("one")
	h.Settle(3, again.Started)
	h.markMachines()
}

// look searches everything. Nothing that is found is allowed, but what a machine
// keeps for itself.
func (h *hunt) look() {
	h.t.Helper()
	h.lookAtProcesses()
	for _, dir := range []string{h.Path("bucket"), h.CacheDir("one"), h.CacheDir("two")} {
		h.tree(dir, nil)
	}
	h.tree(h.Path("machines"), h.own)
	for _, path := range append(h.Printed(), h.ContextPath()) {
		findings, err := h.search.File(path)
		h.report(findings, err)
	}
}

// own returns the secrets that a file in a machine's directory may hold: its user
// data the nonce, and what belongs to the agent all that is its own. While a machine is
// deleted its directory stands among those that are being removed.
func (h *hunt) own(path string) []string {
	relative := strings.TrimPrefix(path, h.Path("machines")+"/")
	relative = strings.TrimPrefix(relative, store.TrashDir+"/")
	id, name, _ := strings.Cut(relative, "/")
	switch first, _, _ := strings.Cut(name, "/"); first {
	case "userdata":
		return []string{nonceMark(id)}
	case "identity":
		return []string{nonceMark(id), keyMark(id)}
	case "recv":
		return []string{"the password"}
	default:
		return nil
	}
}

// lookAtProcesses searches the titles of all processes, the environments of the
// cluster's, and the metrics of the leader.
func (h *hunt) lookAtProcesses() {
	h.t.Helper()
	findings, err := h.search.Titles()
	h.report(findings, err)
	pids := []int{h.Server("one").PID, h.Server("two").PID}
	for _, m := range h.Machines() {
		pids = append(pids, m.PID)
	}
	for _, pid := range pids {
		path := filepath.Join("/proc", strconv.Itoa(pid), "environ")
		if environment, err := os.ReadFile(path); err == nil { // else it has ended
			h.report(h.search.Look(path, environment), nil)
		}
	}
	text, err := box.Metrics(context.WithoutCancel(h.t.Context()), mustLead(h.t, h.Box).Health)
	h.report(h.search.Look("the metrics of the leader", []byte(text)), err)
}

func (h *hunt) tree(dir string, allowed func(string) []string) {
	h.t.Helper()
	findings, err := h.search.Tree(dir, allowed)
	h.report(findings, err)
}

func (h *hunt) report(findings []leak.Finding, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Error(fmt.Errorf("search: %w", err))
	}
	for _, f := range findings {
		h.t.Error(f)
	}
}
