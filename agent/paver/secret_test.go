package paver_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"nstance.dev/agent/paver/pavertest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Marked bytes of pull secrets: the one of Pods, and the one of the machine's image.
const (
	podSecret   = "marked-pod-secret-5678"
	imageSecret = "marked-image-secret-91011"
)

// forms are what a secret looks like to somebody who reads a file, a log or a report.
func forms(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err)
	}
	return []string{
		secret, base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		hex.EncodeToString([]byte(secret)), url.QueryEscape(secret), strings.Trim(string(quoted), `"`),
	}
}

// leaks are the files of a host, and the log and a report, that show a secret.
func (w *world) leaks(secret string) (where []string) {
	w.t.Helper()
	report, err := protojson.Marshal(w.status())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, form := range forms(secret) {
		where = append(where, w.holders(form)...)
		if strings.Contains(w.log.String(), form) {
			where = append(where, "the log")
		}
		if strings.Contains(string(report), form) {
			where = append(where, "a report")
		}
	}
	slices.Sort(where)
	return slices.Compact(where)
}

// TestM43M99_SecretsAreNowhereElse: the token is in the file of the kubelet that asks with it, the pull
// secret of Pods in the file that it pulls with, the one of the image in no file of the machine; and
// until the join all of them in the one file in memory. Neither log, report, journal, assignment nor
// manifest has any, whatever fails on the way.
func TestM43M99_SecretsAreNowhereElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		defer func() { w.stop() }()
		a := pavertest.Assignment(1, pave, "1")
		a.Template.Machine.PullSecret = "pods"
		c := pavertest.Credential(1, 1, token, time.Now().Add(time.Hour))
		c.PullSecrets = map[string][]byte{
			"pods": []byte(`{"auths":{"registry.example.com":{"auth":"` + podSecret + `"}}}`), "image": []byte(`{"auths":{"registry.example.com":{"auth":"` + imageSecret + `"}}}`),
		}
		w.images.set(errors.New("the registry is away"), 0)
		w.take(a, c)
		w.until("failed once", func(s *nstancev1.MachineStatus) bool { return s.GetAttempts() > 0 })
		w.images.set(nil, 0)
		w.until("joining", in(joining))
		const slot = "/machines/node-a"
		inMemory := "/run/credential-1"
		for secret, want := range map[string][]string{
			token: {slot + "/etc/kubernetes/bootstrap-kubelet.conf", inMemory}, podSecret: {slot + "/var/lib/kubelet/config.json", inMemory}, imageSecret: {inMemory},
		} {
			if got := w.leaks(secret); !slices.Equal(got, want) {
				t.Errorf("%s is in %q, want %q", secret, got, want)
			}
			for _, path := range want {
				if info, err := os.Stat(filepath.Join(w.dir, path)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", path, info.Mode(), err)
				}
			}
		}
		w.join(1)
		w.until("running", in(runs))
		for secret, want := range map[string][]string{
			token: {slot + "/etc/kubernetes/bootstrap-kubelet.conf"}, podSecret: {slot + "/var/lib/kubelet/config.json"}, imageSecret: nil,
		} {
			if got := w.leaks(secret); !slices.Equal(got, want) {
				t.Errorf("after the join %s is in %q, want %q", secret, got, want)
			}
		}
	})
}

// TestM43M99_HostileCredentials: what cannot be used is refused, and no refusal repeats it.
func TestM43M99_HostileCredentials(t *testing.T) {
	for name, change := range map[string]func(*nstancev1.MachineCredential){
		"a token of several lines":      func(c *nstancev1.MachineCredential) { c.Token += "\nusers: []" },
		"a token that is no text":       func(c *nstancev1.MachineCredential) { c.Token += "\u2028\x00" },
		"a pull secret that is no JSON": func(c *nstancev1.MachineCredential) { c.PullSecrets["pods"] = []byte(podSecret) },
		"a pull secret that is cut":     func(c *nstancev1.MachineCredential) { c.PullSecrets["pods"] = []byte(`{"` + podSecret) },
		"a pull secret that is too large": func(c *nstancev1.MachineCredential) {
			c.PullSecrets["pods"] = []byte(`{"` + strings.Repeat(podSecret, 4000) + `":1}`)
		},
		"a pull secret of another name": func(c *nstancev1.MachineCredential) { c.PullSecrets = map[string][]byte{"other": []byte(podSecret)} },
		"it is over":                    func(c *nstancev1.MachineCredential) { c.ExpiresAt = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start()
				defer func() { w.stop() }()
				a := pavertest.Assignment(1, pave, "1")
				a.Template.Machine.PullSecret = "pods"
				c := pavertest.Credential(1, 1, token, time.Now().Add(time.Hour))
				c.PullSecrets = map[string][]byte{"pods": []byte(`{"auths":{"r":{"auth":"` + podSecret + `"}}}`)}
				change(c)
				w.take(a, c)
				_ = w.paver.Take(t.Context(), pavertest.Work(pavertest.Credential(9, 1, token, time.Now()))) // of nothing
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				if s := w.status(); s.GetStage() == joining || s.GetStage() == runs {
					t.Errorf("it was used: %v", s)
				}
				for _, secret := range []string{token, podSecret} {
					if got := slices.DeleteFunc(w.leaks(secret), func(at string) bool { return at == "/run/credential-1" }); len(got) > 0 {
						t.Errorf("%s is in %q", secret, got)
					}
				}
			})
		})
	}
}
