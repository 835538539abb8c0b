package hostile

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/leak"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// noSecret is what a place comes to in which no secret stands.
const noSecret = "no secret"

// atRest look for the secrets of a cluster that logs all there is, after it has lived and
// has refused some.
func atRest() []attempt {
	return []attempt{
		{"S14", "secrets in what processes print", noSecret, func(t *testing.T, w *world) string {
			w.live(t)
			return w.hunt(t, func(s *leak.Search) (found []leak.Finding, err error) {
				for _, path := range w.Printed() {
					more, err := s.File(path)
					if err != nil {
						return nil, err
					}
					found = append(found, more...)
				}
				return found, nil
			})
		}},
		{"S14", "secrets in the bucket", noSecret, tree("bucket")},
		{"S14", "secrets in the cache", noSecret, tree("cache-leader")},
		{"S14", "secrets in the metrics", noSecret, func(t *testing.T, w *world) string {
			return w.hunt(t, func(s *leak.Search) ([]leak.Finding, error) {
				text, err := box.Metrics(call(t), w.metricsAddr())
				return s.Look("the metrics", []byte(text)), err
			})
		}},
		{"S14", "secrets in the titles of processes", noSecret, func(t *testing.T, w *world) string {
			return w.hunt(t, (*leak.Search).Titles)
		}},
		{"S14", "secrets in the environments of processes", noSecret, func(t *testing.T, w *world) string {
			return w.hunt(t, func(s *leak.Search) (found []leak.Finding, err error) {
				pids := []int{w.server.PID}
				for _, m := range w.Machines() {
					pids = append(pids, m.PID)
				}
				for _, pid := range pids {
					path := fmt.Sprintf("/proc/%d/environ", pid)
					if text, err := os.ReadFile(path); err == nil { // else it has ended
						found = append(found, s.Look(path, text)...)
					}
				}
				return found, nil
			})
		}},
		{"S14", "a machine has what is another's", noSecret, func(t *testing.T, w *world) string {
			return w.hunt(t, func(s *leak.Search) ([]leak.Finding, error) {
				return s.Tree(w.Path("machines"), func(path string) []string {
					id, _, _ := strings.Cut(strings.TrimPrefix(path, w.Path("machines")+"/"), "/")
					return []string{"the nonce of " + id, "the key of " + id}
				})
			})
		}},
		{"S14", "others on the box may read what belongs to the cluster", "its own alone", modes},
		{"S14", "secrets in the stacks of a crash", noSecret, func(t *testing.T, w *world) string {
			w.server.Signal(syscall.SIGQUIT)
			w.server.Exit(t)
			if out := w.server.Output(); strings.Count(out, "\ngoroutine ") < 10 {
				return "there are no stacks: the row shows nothing"
			}
			return w.hunt(t, func(s *leak.Search) ([]leak.Finding, error) {
				return s.Look("the stacks", []byte(w.server.Output())), nil
			})
		}},
	}
}

// tree searches a directory of the cluster.
func tree(dir string) func(t *testing.T, w *world) string {
	return func(t *testing.T, w *world) string {
		return w.hunt(t, func(s *leak.Search) ([]leak.Finding, error) { return s.Tree(w.Path(dir), nil) })
	}
}

// live is what a cluster goes through: machines that register, renew and are refused.
func (w *world) live(t *testing.T) {
	t.Helper()
	l := w.line(t, attacker, nil)
	_ = l.Send(renewalOf(t, l.key)) // the end of the stream would show in the answer
	if missing := l.wait(t, "renewal", func(m *nstancev1.ServerMessage) bool { return m.GetRenewed() != nil }); missing != "" {
		t.Fatal(missing)
	}
	n, nonce := w.newcomer(t), w.outstanding(t, attacker)
	for _, token := range []string{l.token, nonce.token[:len(nonce.token)-3], nonce.token + "x"} {
		if _, err := n.RegisterAgent(call(t), box.Registration(t, token, box.NewKey(t))); err == nil {
			t.Fatal("a nonce that is none lets somebody in")
		}
	}
}

// hunt looks somewhere for all that is secret in the cluster.
func (w *world) hunt(t *testing.T, look func(*leak.Search) ([]leak.Finding, error)) string {
	t.Helper()
	search := leak.New()
	search.Mark("the secret of a file", []byte(ourToken))
	text, err := os.ReadFile(w.KeyPath())
	if err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(text)), "hex:"))
	if err != nil {
		t.Fatal(err)
	}
	search.Mark("the encryption key", key)
	search.Mark("the authority's key", w.caKey.Seed())
	for _, key := range w.nonceKeys {
		search.Mark("the key of nonces", key.Seed())
	}
	for _, id := range w.Directories() {
		text, err := os.ReadFile(w.Path("machines", id, "userdata"))
		if err != nil {
			continue // it has gone
		}
		token := tokenForm.FindString(string(text))
		search.Mark("the nonce of "+id, []byte(token[strings.LastIndex(token, ".")+1:])) // the rest is no use without it
	}
	found, err := look(search)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		return fmt.Sprint(found)
	}
	return noSecret
}

// modes looks whether anything of the cluster can be read or written by others. The
// leader's addresses are for everybody.
func modes(t *testing.T, w *world) string {
	var open []string
	for _, dir := range []string{"bucket", "cache-leader", "machines"} {
		err := filepath.WalkDir(w.Path(dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it has gone
			}
			info, err := e.Info()
			if err == nil && info.Mode().Type() != fs.ModeSymlink && info.Mode()&0o077 != 0 && e.Name() != "leader.json" {
				open = append(open, fmt.Sprintf("%s is %v", path, info.Mode()))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(open) > 0 {
		return fmt.Sprint(open)
	}
	return "its own alone"
}
