package hostile

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/pki"
)

// memory is what the server has of it, in bytes.
func (w *world) memory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", w.server.PID))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// foreignKeys are public keys that no file of the template asks for.
func foreignKeys() (rows []attempt) {
	for _, name := range []string{"../../identity/identity.pub", "client.pub\x00", "ca.pub"} {
		rows = append(rows, attempt{"S11", fmt.Sprintf("a key called %q", name), "refused", func(t *testing.T, w *world) string {
			l := w.line(t, attacker, nil)
			if err := l.Send(keysOf(&nstancev1.AgentPublicKey{Filename: name, PublicKeyPem: curvePEM(t)})); err != nil {
				return said(err)
			}
			var stored []string
			if missing := l.wait(t, "answer", func(m *nstancev1.ServerMessage) bool {
				stored = m.GetKeysStored().GetStored()
				return m.GetKeysStored() != nil
			}); missing != "" {
				return missing
			}
			if len(stored) > 0 {
				return fmt.Sprintf("stored: %q", stored)
			}
			return "refused"
		}})
	}
	return rows
}

// nothingGranted is what a certificate comes to that has the machine's own id and nothing
// that it said of itself.
const nothingGranted = "its id alone"

// places are what a machine says of itself to get a certificate of others.
func places() (rows []attempt) {
	for _, p := range []struct{ name, hostname, ipv4, ipv6 string }{
		{"an agent takes the name of another machine for its certificate", "control-plane", "", ""},
		{"an agent chooses the addresses in its certificate", "", "10.0.0.1", "fd00::1"},
		{"an agent is the API server and its own host in its certificate", "kubernetes.default.svc", "127.0.0.1", "::1"},
	} {
		rows = append(rows, attempt{"S25", p.name, nothingGranted, func(t *testing.T, w *world) string {
			w.member(t, victim, func(r *nstancev1.RegisterClientRequest) { r.Hostname = "control-plane" })
			l := w.line(t, attacker, func(r *nstancev1.RegisterClientRequest) {
				r.Hostname, r.PrivateIpv4, r.PrivateIpv6 = p.hostname, p.ipv4, p.ipv6
			})
			files, missing := l.files(t, "server.crt")
			if missing != "" {
				return missing
			}
			leaf, own := leafOf(t, files["server.crt"]), l.id.String()
			if leaf.Subject.CommonName != "system:node:"+own || !slices.Equal(leaf.DNSNames, []string{own}) || len(leaf.IPAddresses) > 0 {
				return fmt.Sprintf("issued: %s dns=%v ip=%v", leaf.Subject, leaf.DNSNames, leaf.IPAddresses)
			}
			return nothingGranted
		}})
	}
	return rows
}

// files answers requests for keys, and returns what has been sent once the named files are
// among it.
func (l line) files(t *testing.T, names ...string) (sent map[string][]byte, missing string) {
	t.Helper()
	sent = map[string][]byte{}
	report := func(hash string) { // files are sent to who says what it has; the end of the stream shows in the next message
		_ = l.Send(reportOf(l.id, func(r *nstancev1.HealthReport) { r.ConfigHash = hash }))
	}
	report("")
	missing = l.wait(t, strings.Join(names, ", "), func(m *nstancev1.ServerMessage) bool {
		var keys []*nstancev1.AgentPublicKey
		for _, name := range m.GetKeyRequest().GetKeyNames() {
			keys = append(keys, &nstancev1.AgentPublicKey{Filename: name, PublicKeyPem: curvePEM(t)})
		}
		if len(keys) > 0 {
			_ = l.Send(keysOf(keys...))
		}
		if m.GetCommit() != nil {
			report(m.GetCommit().ConfigHash)
		}
		if f := m.GetFile(); f != nil {
			sent[f.Filename] = f.Content
		}
		return !slices.ContainsFunc(names, func(name string) bool { return sent[name] == nil })
	})
	return sent, missing
}

// stolenSecrets are attempts to be sent what a template of another tenant has.
func stolenSecrets() (rows []attempt) {
	for _, file := range []string{"token", "client.crt"} {
		rows = append(rows, attempt{"S12", "a machine is sent the file " + file + " of another tenant's template", "InvalidArgument INVALID_GROUP", func(t *testing.T, w *world) string {
			made, err := w.operator(t, attacker).CreateInstance(call(t), &nstancev1.CreateInstanceRequest{
				Config: &nstancev1.InstanceConfig{Group: "mute", Template: new("ours")},
			})
			if err != nil {
				return reason(err)
			}
			m := w.enter(t, w.made(t, made.InstanceId), nil)
			l := line{w.hello(t, m.cert, m.id), m}
			sent, missing := l.files(t, file)
			return fmt.Sprintf("sent: %.200q %s", sent[file], missing)
		}})
	}
	return rows
}

// made is a machine that was made on demand, with its nonce.
func (w *world) made(t *testing.T, id string) outstanding {
	t.Helper()
	o := outstanding{tenant: attacker, id: identity.ID(id)}
	await(t, "the user data of "+id+" is there", func() bool {
		text, _ := os.ReadFile(w.Path("machines", id, "userdata")) // not there yet
		o.token = tokenForm.FindString(string(text))
		return o.token != ""
	})
	return o
}

// afterTheEnd are attempts of a machine that is deleted.
func afterTheEnd() []attempt {
	deleted := func(t *testing.T, w *world) line {
		t.Helper()
		l := w.line(t, attacker, nil)
		_, err := w.operator(t, attacker).DeleteInstance(call(t), &nstancev1.DeleteInstanceRequest{InstanceId: l.id.String(), SkipDrain: true})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	gone := func(t *testing.T, w *world) line {
		t.Helper()
		l := deleted(t, w)
		l.end()
		return l
	}
	return []attempt{
		{"S13", "a deleted machine keeps its stream", "PermissionDenied", func(t *testing.T, w *world) string {
			code, _, _ := strings.Cut(deleted(t, w).end(), " ")
			return code
		}},
		{"S13", "a deleted machine opens a stream", "PermissionDenied", func(t *testing.T, w *world) string {
			l := gone(t, w)
			code, _, _ := strings.Cut(w.connect(t, l.cert, l.id), " ")
			return code
		}},
		{"S13", "a deleted machine registers again", refused, func(t *testing.T, w *world) string {
			l := gone(t, w)
			_, err := w.newcomer(t).RegisterAgent(call(t), box.Registration(t, l.token, l.key))
			return said(err)
		}},
		{"S13", "a deleted machine goes on with a certificate of its last moment", "PermissionDenied", func(t *testing.T, w *world) string {
			l := deleted(t, w)
			_ = l.Send(renewalOf(t, l.key)) // the end of the stream shows in the next message
			var last []byte
			l.wait(t, "end", func(m *nstancev1.ServerMessage) bool {
				if text := m.GetRenewed().GetClientCertificatePem(); text != nil {
					last = text
				}
				return false
			})
			if last != nil {
				l.cert = pair(t, last, l.key)
			}
			code, _, _ := strings.Cut(w.connect(t, l.cert, l.id), " ")
			return code
		}},
	}
}

// renewalOf asks for a certificate for a key.
func renewalOf(t *testing.T, key ed25519.PrivateKey) *nstancev1.AgentMessage {
	t.Helper()
	text, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Renew{Renew: &nstancev1.Renew{RequestId: "r", PublicKeyPem: text}}}
}
